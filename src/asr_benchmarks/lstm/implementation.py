"""An implementation of the networks as the benchmark uses it: its requirements and its process."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

import numpy as np

from asr_benchmarks.lstm.configuration import Configuration
from asr_benchmarks.worker import Worker


class Training(Protocol):
    """Trains one configuration. An implementation's `model` is called with configuration, seed and device, cpu or cuda.

    Weights and batch are those of draw_weights and draw_batch for the seed, products are in full float32, and Adam is
    the framework's own with its defaults. Raises ValueError for a configuration that it cannot compute.
    """

    def outputs(self) -> np.ndarray:
        """Logits of the batch: (B, T, V) for CTC, (B, V) for cross-entropy."""

    def step(self) -> tuple[float, float]:
        """Seconds from the batch in the host's memory to updated weights, synchronised, and the loss before it."""

    def device_memory(self) -> int | None:
        """Peak memory of the GPU in bytes; None on a CPU, or if the framework does not report it."""

    def versions(self) -> dict[str, str]:
        """Versions of the framework's packages."""


@dataclass(frozen=True)
class Implementation:
    """packages: those that it imports; environment: variables of its process; published: its counterpart in
    Braun2018 table 2.
    """

    model: partial[Training]
    packages: list[str] = field(default_factory=list)
    environment: Mapping[str, str] = field(default_factory=dict)
    published: str | None = None

    def start(self, configuration: Configuration, seed: int, device: str, threads: int | None) -> Worker:
        """Make the model in a process of its own. Raises WorkerError for what the model raises."""
        make = partial(self.model, configuration=configuration, seed=seed, device=device)
        return Worker(make, threads, {**_devices(device), **self.environment})


def _devices(device: str) -> dict[str, str]:
    """Variables that hide the GPU while the CPU is measured, since frameworks would use it, and that keep a framework
    from taking the whole memory of a GPU, since several run at a time.
    """
    if device == "cpu":
        return {"CUDA_VISIBLE_DEVICES": "", "JAX_PLATFORMS": "cpu"}
    return {"XLA_PYTHON_CLIENT_PREALLOCATE": "false", "TF_FORCE_GPU_ALLOW_GROWTH": "true"}

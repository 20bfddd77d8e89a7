"""An implementation of the networks as the benchmark sees it: what it needs, and its process."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

import numpy as np

from asr_benchmarks.lstm.configuration import Configuration
from asr_benchmarks.worker import Worker


class Training(Protocol):
    """What `model` of an implementation makes, called with configuration, seed and device (cpu or cuda). Its weights
    and its batch are draw_weights and draw_batch of the seed, products are of full float32, and Adam is the
    framework's own with its defaults. Raises ValueError for a configuration that it cannot compute.
    """

    def outputs(self) -> np.ndarray:
        """Logits of the batch, of CTC (B, T, V) and of cross-entropy (B, V)."""

    def step(self) -> tuple[float, float]:
        """Seconds from the batch in the host's memory to updated weights, synchronised, and the loss before."""

    def device_memory(self) -> int | None:
        """Bytes of the GPU held at most; None on a CPU, or where the framework cannot tell."""

    def versions(self) -> dict[str, str]:
        """Of the framework's packages."""


@dataclass(frozen=True)
class Implementation:
    """packages: that it imports; environment: of its process; published: its counterpart in papers/000, table 2."""

    model: partial[Training]
    packages: list[str] = field(default_factory=list)
    environment: Mapping[str, str] = field(default_factory=dict)
    published: str | None = None

    def start(self, configuration: Configuration, seed: int, device: str, threads: int | None) -> Worker:
        """Raises WorkerError for what the model raises."""
        make: Any = partial(self.model, configuration=configuration, seed=seed, device=device)
        return Worker(make, threads, {**_devices(device), **self.environment})


def _devices(device: str) -> dict[str, str]:
    """For the CPU a GPU is hidden, which frameworks would take; on a GPU none takes all its memory, being several."""
    if device == "cpu":
        return {"CUDA_VISIBLE_DEVICES": "", "JAX_PLATFORMS": "cpu"}
    return {"XLA_PYTHON_CLIENT_PREALLOCATE": "false", "TF_FORCE_GPU_ALLOW_GROWTH": "true"}

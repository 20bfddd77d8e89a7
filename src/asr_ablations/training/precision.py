"""The key `precision`: how many bits weights, activations and gradients have."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal, TypedDict, cast

import torch
from pytorch_lightning import LightningModule
from pytorch_lightning.plugins import HalfPrecision
from torch import nn

from asr_ablations.training.task import task_of

Name = Literal["32-true", "16-mixed", "bf16-mixed", "16-true", "bf16-true"]
"""A precision as Lightning names it."""


class TrainerOptions(TypedDict, total=False):
    """Arguments of Lightning's Trainer."""

    precision: Name
    plugins: HalfPrecision


def lightning_precision(precision: int | str, devices: int) -> Name:
    """Lightning's name for the key `precision`; on a CPU, 16 is bfloat16."""
    mixed: Name = "16-mixed" if devices else "bf16-mixed"
    names: dict[int | str, Name] = {32: "32-true", 16: mixed, "bf16": "bf16-mixed"}
    return names.get(precision, cast(Name, precision))


def trainer_options(precision: int | str, devices: int) -> TrainerOptions:
    """The Trainer's arguments: Lightning's name of a precision, or our plugin for it."""
    name = lightning_precision(precision, devices)
    if name == "16-true" or name == "bf16-true":
        return {"plugins": HalfModel(name)}
    return {"precision": name}


def notice(precision: int | str, tf32: bool, devices: int) -> str | None:
    """One line about a precision that a CPU replaces by another, or that is slow on a CPU; else None."""
    if devices:
        return None
    messages: dict[int | str, str] = {
        16: "precision=16 on a CPU is bfloat16; recurrent layers stay in float32, which is faster there",
        "bf16": "precision=bf16 on a CPU: recurrent layers stay in float32, which is faster there",
        "16-true": "precision=16-true on a CPU is float16 throughout, and slower than float32",
        "bf16-true": "precision=bf16-true on a CPU is bfloat16 throughout, and slower than float32",
    }
    return messages.get(precision, "tf32=true changes nothing on a CPU" if tf32 else None)


def set_tf32(on: bool) -> None:
    """Allow or forbid CUDA to round the inputs of float32 matrix products, convolutions and recurrences to 10 bits.

    torch's own default allows it for cuDNN and forbids it for cuBLAS.
    """
    torch.backends.cuda.matmul.allow_tf32 = on
    torch.backends.cudnn.allow_tf32 = on


def check_fused(optimizer: torch.optim.Optimizer, precision: int | str) -> None:
    """Raises ValueError for a fused optimizer with a scaled loss: it unscales the gradients in its own step, when they
    have been clipped at the wrong scale already.
    """
    if precision == 16 and getattr(optimizer, "_step_supports_amp_scaling", False):
        raise ValueError(
            "fused=true with precision=16 would clip scaled gradients; expected fused=false, or bf16 or 32"
        )


class HalfModel(HalfPrecision):
    """Weights, gradients and optimizer state in 16 bits, without a scaled loss.

    Features, running statistics and the loss stay in float32: Lightning's plugin would convert them too, and power
    spectra do not fit into 16 bits.
    """

    def convert_module(self, module: nn.Module) -> nn.Module:
        """Convert the model of a task in place, and nothing else of the task."""
        model = task_of(cast(LightningModule, module)).model
        model.to(self._desired_input_dtype)
        for buffer in model.buffers():
            if buffer.is_floating_point():
                buffer.data = buffer.data.float()
        return module

    @contextmanager
    def forward_context(self) -> Iterator[None]:
        """No context: new tensors stay float32."""
        yield

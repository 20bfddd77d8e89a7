"""The key `precision`: which numbers are in how many bits."""

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from pytorch_lightning.plugins import HalfPrecision
from torch import nn


def lightning_precision(precision: int | str, devices: int) -> str:
    """Lightning's name for the key `precision`; on a CPU, 16 is bfloat16."""
    mixed = "16-mixed" if devices else "bf16-mixed"
    return {32: "32-true", 16: mixed, "bf16": "bf16-mixed"}.get(precision, str(precision))


def trainer_options(precision: int | str, devices: int) -> dict[str, Any]:
    """The Trainer's arguments: Lightning's name of a precision, or our plugin for it."""
    name = lightning_precision(precision, devices)
    own = name in ("16-true", "bf16-true")
    return {"plugins": [HalfModel(name)]} if own else {"precision": name}  # type: ignore[arg-type]


def notice(precision: int | str, tf32: bool, devices: int) -> str | None:
    """What a CPU makes of the request, in one line, where it is not what the key says."""
    if devices:
        return None
    told = {
        16: "precision=16 on a CPU is bfloat16; recurrent layers stay in float32, which is faster there",
        "bf16": "precision=bf16 on a CPU: recurrent layers stay in float32, which is faster there",
        "16-true": "precision=16-true on a CPU is float16 throughout, and slower than float32",
        "bf16-true": "precision=bf16-true on a CPU is bfloat16 throughout, and slower than float32",
    }
    return told.get(precision, "tf32=true changes nothing on a CPU" if tf32 else None)


def set_tf32(on: bool) -> None:
    """Whether CUDA may round the inputs of float32 matrix products, convolutions and recurrences to 10 bits. torch by
    itself lets cuDNN do so and cuBLAS not.
    """
    torch.backends.cuda.matmul.allow_tf32 = on
    torch.backends.cudnn.allow_tf32 = on


def check_fused(optimizer: torch.optim.Optimizer, precision: int | str) -> None:
    """Raises ValueError for a fused optimizer under a scaled loss: it unscales gradients in its own step, after they
    were clipped at the wrong scale.
    """
    if precision == 16 and getattr(optimizer, "_step_supports_amp_scaling", False):
        raise ValueError(
            "fused=true with precision=16 would clip scaled gradients; expected fused=false, or bf16 or 32"
        )


class HalfModel(HalfPrecision):
    """Weights, gradients and optimizer state in 16 bits, without a scaled loss. Features, running statistics and the
    loss stay in float32: Lightning's plugin would convert them too, and power spectra do not fit.
    """

    def convert_module(self, module: nn.Module) -> nn.Module:
        model: nn.Module = module.model  # type: ignore[assignment]
        model.to(self._desired_input_dtype)
        for buffer in model.buffers():
            if buffer.is_floating_point():
                buffer.data = buffer.data.float()
        return module

    def forward_context(self) -> AbstractContextManager[None]:  # type: ignore[override]
        return nullcontext()  # new tensors stay float32

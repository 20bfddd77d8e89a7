"""The key `precision`: the bits of weights, activations and gradients."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Literal, cast

import torch
from lightning_fabric.utilities.types import Steppable
from pytorch_lightning import LightningModule
from pytorch_lightning.plugins import HalfPrecision, MixedPrecision, Precision
from torch import nn
from torch.optim import Optimizer

from asr_ablations.native.extension import MULTIPLY_BFLOAT16, NONE, resolved
from asr_ablations.training.optimizer_steps import DeviceScaler
from asr_ablations.training.task import task_of

Name = Literal["32-true", "16-mixed", "bf16-mixed", "16-true", "bf16-true"]
"""Lightning's names of precisions."""
MASTER = "16-master"
"""Master weights in float32, with 16-bit copies for each forward and backward pass: Apex's level O2."""
SCALED = (16, MASTER)
"""Precisions that scale the loss on a GPU."""

SLOW_ON_A_GPU = (
    "precision=32 without tf32=true leaves most of a GPU unused: tf32=true is about 2.5 times as fast, precision=16 "
    "about 4 times (predicted from data sheets, not measured)"
)

RECURRENT = {
    "none": "recurrent layers stay in float32, which is faster there",
    "rounds": "recurrent layers round the factors of products to bfloat16, which is not faster on this processor",
    "multiplies": "recurrent layers multiply in bfloat16, and keep sums, states and weights in float32",
}
"""How recurrent layers use bfloat16 on a CPU, by the ability of the native library's target."""


def lightning_precision(precision: int | str, devices: int) -> Name:
    """Return Lightning's name for the key `precision`; on a CPU, 16 is bfloat16."""
    names = {32: "32-true", 16: "16-mixed" if devices else "bf16-mixed", "bf16": "bf16-mixed"}
    return cast(Name, names.get(precision, precision))


def trainer_options(precision: int | str, devices: int) -> dict[str, Any]:
    """Return the Trainer's arguments: Lightning's name of a precision, or our plugin for it."""
    if precision == MASTER:
        return {"plugins": [ScaledMaster("cuda") if devices else UnscaledMaster()]}
    name = lightning_precision(precision, devices)
    if name == "16-mixed":
        return {"plugins": [Scaled("cuda")]}
    if name in ("16-true", "bf16-true"):
        return {"plugins": [HalfModel(name)]}
    return {"precision": name}


def notice(precision: int | str, tf32: bool, devices: int) -> str | None:
    """Return a line for users if the precision is replaced or slow on the device, else None."""
    if devices:
        return SLOW_ON_A_GPU if precision == 32 and not tf32 else None
    target = resolved()
    recurrent = RECURRENT["none" if target == NONE else "multiplies" if target in MULTIPLY_BFLOAT16 else "rounds"]
    messages = {
        32: "tf32=true changes nothing on a CPU" if tf32 else None,
        16: f"precision=16 on a CPU is bfloat16; {recurrent}",
        "bf16": f"precision=bf16 on a CPU: {recurrent}",
        MASTER: f"precision={MASTER} on a CPU is bfloat16 with master weights in float32, and slower than float32",
    }
    return messages.get(precision, f"precision={precision} on a CPU has 16 bits throughout, and is slower than float32")


def set_tf32(on: bool) -> None:
    """Set whether CUDA rounds inputs of float32 products to 10-bit mantissas; torch's default: in cuDNN only."""
    torch.backends.cuda.matmul.allow_tf32 = on
    torch.backends.cudnn.allow_tf32 = on


class Scaled(MixedPrecision):
    """16 bits under autocast, with a scaled loss because small gradients round to 0 in float16. Unlike in Lightning's
    plugin, gradients are unscaled before their treatment for fused optimizers too, and no step waits for the device.
    """

    scaler: DeviceScaler

    def __init__(self, device: str) -> None:
        super().__init__("16-mixed", device, DeviceScaler(device))

    def optimizer_step(  # type: ignore[override]  # as Lightning's own, which differs from its base
        self, optimizer: Steppable, model: LightningModule, closure: Callable[[], object], **keywords: object
    ) -> None:
        closure()
        self.scaler.unscale_(cast(Optimizer, optimizer))
        self._after_closure(model, optimizer)  # the hooks that treat the gradients
        self.scaler.step(cast(Optimizer, optimizer), **keywords)
        self.scaler.update()


class ScaledMaster(Scaled):
    """Scales the loss without autocast: the weights of a forward pass are in 16 bits themselves (master_weights.py)."""

    def __init__(self, device: str) -> None:
        super().__init__(device)
        self.precision = MASTER  # type: ignore[assignment]

    @contextmanager
    def forward_context(self) -> Iterator[None]:
        """No context."""
        yield


class UnscaledMaster(Precision):
    """16-bit copies of master weights without a scaled loss, which bfloat16 does not need."""

    precision = MASTER  # type: ignore[assignment]


class HalfModel(HalfPrecision):
    """Weights, gradients and optimizer state in 16 bits, without a scaled loss.

    Features, running statistics and the loss stay in float32. Lightning's plugin would convert them too, although power
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

    def convert_input(self, data: object) -> object:
        """Return the batch unchanged: its float16 features would lose bits in bfloat16."""
        return data

    @contextmanager
    def forward_context(self) -> Iterator[None]:
        """No context: new tensors stay float32."""
        yield

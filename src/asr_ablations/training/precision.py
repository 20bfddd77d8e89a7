"""Implement the key `precision`: the bit widths of weights, activations and gradients, and the scaling of the loss."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, cast

import torch
from lightning_fabric.utilities.types import Steppable
from pytorch_lightning import LightningModule
from pytorch_lightning.plugins import HalfPrecision, MixedPrecision, Precision
from torch import nn
from torch.amp.grad_scaler import OptState
from torch.optim import Optimizer

from asr_ablations.native.extension import MULTIPLY_BFLOAT16, NONE, resolved

MASTER = "16-master"
"""Value of `precision` for float32 master weights with 16-bit copies in each forward and backward pass."""
SCALED = (16, MASTER)
"""Values of `precision` for which the loss is scaled on a GPU."""

SLOW_ON_A_GPU = (
    "precision=32 without tf32=true leaves most of a GPU unused: tf32=true is about 2.5 times as fast, precision=16 "
    "about 4 times (predicted from data sheets, not measured)"
)

RECURRENT = {
    "none": "recurrent layers stay in float32, which is faster",
    "rounds": "recurrent layers round the inputs of products to bfloat16, which is not faster on this processor",
    "multiplies": "recurrent layers multiply in bfloat16, and keep sums, states and weights in float32",
}
"""How recurrent layers use bfloat16 on a CPU, by how far the native library's target supports it."""


def trainer_options(precision: int | str, devices: int) -> dict[str, Any]:
    """Return the Trainer arguments for the key `precision`: one of Lightning's precisions, or one of our plugins."""
    if precision == MASTER:
        return {"plugins": [ScaledMaster("cuda") if devices else UnscaledMaster()]}
    if precision == 16 and devices:
        return {"plugins": [Scaled("cuda")]}
    if precision in ("16-true", "bf16-true"):
        return {"plugins": [HalfModel(cast(Any, precision))]}
    return {"precision": "32-true" if precision == 32 else "bf16-mixed"}


def notice(precision: int | str, tf32: bool, devices: int) -> str | None:
    """Return a message if the device is slow at this precision or uses a different one, else None."""
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
    """Set whether CUDA rounds the inputs of float32 products to TF32. By default, torch does so only in cuDNN."""
    torch.backends.cuda.matmul.allow_tf32 = on
    torch.backends.cudnn.allow_tf32 = on


class DeviceScaler(torch.amp.GradScaler):
    """Scales the loss like torch's scaler, but the host does not wait for the overflow check of each step.

    A fused optimizer itself skips a step with overflowed gradients. For other optimizers, weights and state are copied
    before the step and restored bit for bit after an overflow. The host waits only in the first step of each weight,
    because only the optimizer can create the weight's state. Schedules also count skipped steps, and so do counters on
    the host, such as Adagrad's counter for lr_decay.
    """

    def __init__(self, device: str, **options: Any) -> None:
        super().__init__(device, **options)
        self._initialised: set[nn.Parameter] = set()  # parameters for which the optimizer has a state

    def step(self, optimizer: Optimizer, *arguments: Any, **keywords: Any) -> float | None:
        """Take an optimizer step unless a gradient has overflowed. The gradients must already be unscaled."""
        trained = {p for group in optimizer.param_groups for p in group["params"] if p.grad is not None}
        if not trained <= self._initialised:
            state = self._per_optimizer_states[id(optimizer)]
            if any(overflow.item() for overflow in state["found_inf_per_device"].values()):
                state["stage"] = OptState.STEPPED
                return None
            self._initialised |= trained
        return super().step(optimizer, *arguments, **keywords)

    def _maybe_opt_step(
        self, optimizer: Optimizer, optimizer_state: dict[str, Any], *arguments: Any, **keywords: Any
    ) -> float | None:
        """Take a step and undo it after an overflow. torch calls this for optimizers that cannot skip a step."""
        (overflow,) = optimizer_state["found_inf_per_device"].values()  # all weights are on one device
        before = {place: tensor.clone() for place, tensor in _changing(optimizer)}
        result = optimizer.step(*arguments, **keywords)
        for place, tensor in _changing(optimizer):
            if place in before:
                torch.where(overflow.bool(), before[place], tensor, out=tensor)
        return result


def _changing(optimizer: Optimizer) -> Iterator[tuple[tuple[nn.Parameter, str], torch.Tensor]]:
    """Yield the key and tensor of each trained weight and its optimizer state, if the tensor is on the device."""
    for group in optimizer.param_groups:
        for weights in group["params"]:
            if weights.grad is None:
                continue
            yield (weights, ""), weights.detach()
            for name, value in optimizer.state.get(weights, {}).items():
                if isinstance(value, torch.Tensor) and value.device == weights.device:
                    yield (weights, name), value


class Scaled(MixedPrecision):
    """Trains in float16 under autocast and scales the loss, because small gradients would otherwise be rounded to 0.

    Lightning's plugin would wait for the device in each step, and leave the gradients scaled if the optimizer is fused.
    This plugin always unscales the gradients before the gradient treatment.
    """

    scaler: DeviceScaler

    def __init__(self, device: str) -> None:
        super().__init__("16-mixed", device, DeviceScaler(device))

    def optimizer_step(  # type: ignore[override]  # Lightning's override also differs from its base class
        self, optimizer: Steppable, model: LightningModule, closure: Callable[[], object], **keywords: object
    ) -> None:
        closure()
        self.scaler.unscale_(cast(Optimizer, optimizer))
        self._after_closure(model, optimizer)  # runs the hooks of the gradient treatment
        self.scaler.step(cast(Optimizer, optimizer), **keywords)
        self.scaler.update()


class ScaledMaster(Scaled):
    """Scales the loss without autocast, because the copies of the weights already have 16 bits."""

    forward_context = Precision.forward_context  # type: ignore[assignment]  # no autocast

    def __init__(self, device: str) -> None:
        super().__init__(device)
        self.precision = MASTER  # type: ignore[assignment]


class UnscaledMaster(Precision):
    """Uses 16-bit copies of master weights without scaling the loss, because bfloat16 does not need it."""

    precision = MASTER  # type: ignore[assignment]


class HalfModel(HalfPrecision):
    """Stores weights, gradients and optimizer state in 16 bits, and does not scale the loss.

    Features, running statistics and the loss stay in float32. Lightning's plugin would also convert features, although
    power spectra do not fit into 16 bits.
    """

    forward_context = Precision.forward_context  # type: ignore[assignment]  # new tensors stay in float32

    def convert_module(self, module: nn.Module) -> nn.Module:
        """Convert only the model within a task to 16 bits, in place."""
        model: nn.Module = cast(Any, module).model
        model.to(self._desired_input_dtype)
        for buffer in model.buffers():
            if buffer.is_floating_point():
                buffer.data = buffer.data.float()
        return module

    def convert_input(self, data: object) -> object:
        """Return the batch unchanged, because converting its float16 features to bfloat16 would lose bits."""
        return data


@contextmanager
def copies_in(dtype: torch.dtype, model: nn.Module) -> Iterator[None]:
    """Replace each parameter of a model by a copy of type `dtype` within the context. Buffers stay unchanged.

    The gradient of a copy flows back to the original parameter, in the parameter's type. The optimizer, clipping and
    checkpoints use only the originals (master weights), so small updates are not lost by rounding to 16 bits
    (Ambroszczyk2019 §2.1; Micikevicius et al. 2018, §3.1; level O2 of Apex).
    """
    originals = [(part._parameters, dict(part._parameters)) for part in model.modules()]
    recurrent = [part for part in model.modules() if isinstance(part, nn.RNNBase)]
    # with one call per layer, ranks can exchange its gradients while earlier layers are still computing theirs
    layers: dict[tuple[str, ...], list[nn.Parameter]] = {}
    for name, weights in model.named_parameters():
        layers.setdefault(tuple(name.split(".")[:2]), []).append(weights)
    copies: dict[nn.Parameter, torch.Tensor] = {}
    for owned in layers.values():
        copies.update(zip(owned, Copies.apply(dtype, *owned), strict=True))
    try:
        for parameters, before in originals:
            parameters.update({name: copies[weights] for name, weights in before.items() if weights is not None})  # type: ignore[misc]
        _refresh_weight_lists(recurrent)
        yield
    finally:
        for parameters, before in originals:
            parameters.update(before)
        _refresh_weight_lists(recurrent)


class Copies(torch.autograd.Function):
    """Converts tensors to a given dtype, and their gradients back to the original dtype."""

    @staticmethod
    def forward(ctx: Any, dtype: torch.dtype, *weights: torch.Tensor) -> tuple[torch.Tensor, ...]:
        ctx.dtype = weights[0].dtype
        ctx.set_materialize_grads(False)  # gradients of unused parameters stay None
        return _convert(dtype, weights)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor | None) -> tuple[torch.Tensor | None, ...]:
        copies = iter(_convert(ctx.dtype, [gradient for gradient in gradients if gradient is not None]))
        return None, *(None if gradient is None else next(copies) for gradient in gradients)


def _convert(dtype: torch.dtype, tensors: Sequence[torch.Tensor]) -> tuple[torch.Tensor, ...]:
    copies = tuple(torch.empty_like(tensor, dtype=dtype) for tensor in tensors)
    if copies:
        torch._foreach_copy_(copies, [*tensors])
    return copies


def _refresh_weight_lists(recurrent: list[nn.RNNBase]) -> None:
    """Update the weight lists that torch's recurrent layers store."""
    for part in recurrent:
        part._flat_weights = [getattr(part, name) for name in part._flat_weights_names]

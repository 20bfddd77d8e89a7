"""A CUDA device that is not there: what a step would make the host wait for, counted without a GPU, with real numbers.

Tensors on it say that they are on cuda:0 and hold CPU tensors, by which torch computes. All others are on the CPU as
always: to read a length there waits for nothing. A dispatch mode sees every operation: those whose kernels wait for
the device, copies that do, and those that CUDA would refuse, since it finds tensors of two devices.

It does not see what cuDNN and NCCL wait for.
"""

import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import torch
from torch import nn
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode, return_and_correct_aliasing
from torch.utils._pytree import tree_flatten, tree_map

from asr_ablations.components.loss import ctc
from asr_ablations.components.model import directions
from asr_ablations.components.norm import batch

aten = torch.ops.aten
CUDA = torch.device("cuda", 0)
WAITING = {
    *(aten._local_scalar_dense, aten.is_nonzero, aten.equal, aten.nonzero, aten.masked_select, aten.bincount),
    *(aten._unique2, aten.unique_consecutive, aten.unique_dim, aten.repeat_interleave),
    # six blocking copies of lengths between them (aten/src/ATen/native/cuda/LossCTC.cu, torch 2.11)
    *(aten._ctc_loss, aten._ctc_loss_backward),
}
"""Operations whose kernels on CUDA wait for the device: the size of their output, or a number of it, is read."""
MIXING = {aten._ctc_loss, aten._ctc_loss_backward, aten.copy_, aten._to_copy, aten.lift_fresh}
"""Operations that take tensors of both devices."""


class Pretended(torch.Tensor):
    """A tensor on the pretended device. To C++ it is on the CPU."""

    inner: torch.Tensor
    __torch_function__ = torch._C._disabled_torch_function_impl  # type: ignore[assignment]
    device = property(lambda self: CUDA)  # type: ignore[assignment]
    is_cuda = property(lambda self: True)  # type: ignore[assignment]

    @staticmethod
    def __new__(cls, inner: torch.Tensor) -> "Pretended":
        options = {"dtype": inner.dtype, "layout": inner.layout, "device": "cpu", "requires_grad": False}
        strides, offset = inner.stride(), inner.storage_offset()
        made = torch.Tensor._make_wrapper_subclass(cls, inner.shape, strides=strides, storage_offset=offset, **options)
        made.inner = inner
        return made

    def to(self, *arguments: Any, **options: Any) -> torch.Tensor:
        """The device is ours to judge: torch would find this tensor on the CPU already."""
        if arguments and isinstance(arguments[0], torch.Tensor):
            arguments = (arguments[0].device, arguments[0].dtype, *arguments[1:])
        copied = options.pop("copy", False)
        device, dtype, _, layout = torch._C._nn._parse_to(*arguments, **options)
        moved = self.clone() if copied else self
        moved = moved if device is None or device.type == "cuda" else self.cpu()
        return moved if dtype in (None, moved.dtype) and layout is None else torch.Tensor.to(moved, dtype=dtype)

    def cpu(self, *_: Any) -> torch.Tensor:  # type: ignore[override]
        Waits.current.add("copy to the CPU")
        return self.detach().inner.clone()

    def tolist(self) -> Any:
        return self.cpu().tolist()

    def numpy(self, **_: Any) -> Any:  # type: ignore[override]
        return self.cpu().numpy()

    @classmethod
    def __torch_dispatch__(cls, operation: Any, types: Any, arguments: Any = (), options: Any = None) -> Any:
        return Waits.current.run(operation, arguments, options or {})


class Waits(TorchDispatchMode):
    """Counts while `on`: waits by place and operation, and operations on tensors of two devices."""

    current: "Waits"

    def __init__(self) -> None:
        super().__init__()
        self.on = False
        self.places: Counter[str] = Counter()
        self.mixed: Counter[str] = Counter()
        Waits.current = self

    def add(self, what: str) -> None:
        if self.on:
            self.places[f"{_place()}  {what}"] += 1

    def __torch_dispatch__(self, operation: Any, types: Any, arguments: Any = (), options: Any = None) -> Any:
        return self.run(operation, arguments, options or {})

    def run(self, operation: Any, arguments: Any, options: dict[str, Any]) -> Any:
        """Judge an operation, compute it on the CPU, and put its result where CUDA would have it."""
        tensors = [t for t in tree_flatten((arguments, options))[0] if isinstance(t, torch.Tensor)]
        on_cuda = [t for t in tensors if isinstance(t, Pretended)]
        asked = options.get("device")
        target = None if asked is None else torch.device(asked).type
        if on_cuda and operation.overloadpacket.__name__.startswith("new_"):
            target = "cuda"  # C++, where ours is on the CPU, names the device of the tensor that it copies
        if self.on:
            self._judge(operation, arguments, options, tensors, on_cuda, target)
        inside, named = tree_map(lambda t: t.inner if isinstance(t, Pretended) else t, (arguments, options))
        if target is not None:
            named = {**named, "device": torch.device("cpu")}
        result = operation(*inside, **named)
        if operation.overloadpacket is aten._to_copy and target == "cuda" and not on_cuda:
            result = result.clone()
        into_cpu = operation.overloadpacket is aten.copy_ and not isinstance(arguments[0], Pretended)
        if into_cpu or not (target == "cuda" or (on_cuda and target != "cpu")):
            return result
        put = tree_map(lambda t: Pretended(t) if type(t) is torch.Tensor else t, result)
        return return_and_correct_aliasing(operation, arguments, options, put)

    def _judge(
        self,
        operation: Any,
        arguments: Any,
        options: dict[str, Any],
        tensors: Sequence[torch.Tensor],
        on_cuda: Sequence[torch.Tensor],
        target: str | None,
    ) -> None:
        packet = operation.overloadpacket
        if packet in WAITING and on_cuda:
            self.add(packet.__name__)
        blocking = not options.get("non_blocking", False)
        if packet is aten._to_copy:
            self._copy(bool(on_cuda), target or ("cuda" if on_cuda else "cpu"), blocking)
        if packet is aten.copy_:
            into, source = (isinstance(t, Pretended) for t in arguments[:2])
            self._copy(source, "cuda" if into else "cpu", blocking and not (len(arguments) > 2 and arguments[2]))
        elif packet in (aten.index, aten.index_put_, aten.index_put, aten._index_put_impl_) and on_cuda:
            for index in arguments[1]:
                if index is not None and (index.dtype == torch.bool or not isinstance(index, Pretended)):
                    self.add("index by a mask, or by a tensor on the CPU")
        elif on_cuda and any(t.dim() > 0 for t in tensors if not isinstance(t, Pretended)) and packet not in MIXING:
            self.mixed[f"{_place()}  {operation}"] += 1

    def _copy(self, from_cuda: bool, target: str, blocking: bool) -> None:
        if from_cuda != (target == "cuda") and (blocking or from_cuda):
            self.add("copy")


class _LikeOther(TorchFunctionMode):
    """x.to(other) goes by the device that `other` says it has."""

    def __torch_function__(self, function: Any, types: Any, arguments: Any = (), options: Any = None) -> Any:
        options = options or {}
        if function is torch.Tensor.to and len(arguments) > 1 and isinstance(arguments[1], Pretended):
            arguments, options = (arguments[0], CUDA), {"dtype": arguments[1].dtype, **options}
        return function(*arguments, **options)


@contextmanager
def pretending(own_ctc: bool = True) -> Iterator[Waits]:
    """Within the context torch.cuda asks no driver, and operations may be on the pretended device. Our own operations
    are as on a GPU that has their kernels; own_ctc: CTC among them, or torch's.
    """
    waits, generator = Waits(), torch.Generator
    from torch.nn.utils import clip_grad
    from torch.optim import optimizer

    plain = clip_grad._group_tensors_by_device_and_dtype  # in C++, where ours are on the CPU

    def grouped(*arguments: Any, **options: Any) -> Any:
        return {
            (CUDA if isinstance(found[0][0], Pretended) else key[0], key[1]): (found, indices)
            for key, (found, indices) in plain(*arguments, **options).items()
        }

    lifted = torch._C._only_lift_cpu_tensors()
    torch._C._set_only_lift_cpu_tensors(True)  # torch.tensor(x, device="cuda"): a tensor on the CPU and a copy
    try:
        with (
            patch.object(clip_grad, "_group_tensors_by_device_and_dtype", grouped),
            patch.object(optimizer, "_group_tensors_by_device_and_dtype", grouped),
            patch.object(nn.RNNBase, "flatten_parameters", lambda self: None),
            patch.object(torch, "Generator", lambda device="cpu": generator()),
            patch.object(torch.cuda, "_lazy_init", lambda: None),
            patch.object(batch, "usable", lambda device: True),
            patch.object(ctc, "usable", lambda device: own_ctc),
            patch.object(directions, "in_two_streams", lambda first, second, x, y, n: (first(x, n), second(y, n))),
            waits,
            _LikeOther(),
        ):
            yield waits
    finally:
        torch._C._set_only_lift_cpu_tensors(lifted)


def pretend(module: nn.Module) -> None:
    """Put parameters and buffers of a module on the pretended device."""
    for part in module.modules():
        for name, weights in part._parameters.items():
            if weights is not None:
                part._parameters[name] = nn.Parameter(Pretended(weights.detach()), weights.requires_grad)
        for name, buffer in part._buffers.items():
            if buffer is not None:
                part._buffers[name] = Pretended(buffer)
        if isinstance(part, nn.RNNBase):
            part._flat_weights = [getattr(part, name) for name in part._flat_weights_names]


def _place() -> str:
    """The innermost line of the project."""
    for frame in reversed(traceback.extract_stack(limit=60)):
        if "/src/asr_" in frame.filename:
            return f"{frame.filename.split('/src/')[-1]}:{frame.lineno}"
    return "backward or optimizer"

"""A training step on a GPU, seen on the meta device, where nothing is computed: launches, memory traffic, no waits.

An operation is a launch, and reads and writes each of its tensors once; views are free. In the counts recurrences, the
loss and the optimizer are left out. Reading a number of a tensor on meta is an error, as are operations on tensors of
two devices; copies between devices and an index on the CPU are noted. What cuDNN and NCCL wait for is not seen.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import pytest
import torch
from torch import nn
from torch.optim import adadelta, adam
from torch.optim import optimizer as optimizers
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten

from asr_ablations.components.loss import ctc
from asr_ablations.components.model import directions
from asr_ablations.components.norm import batch as batch_norm
from asr_ablations.data.batch import Batch
from asr_ablations.training.assembly import assemble
from asr_ablations.training.precision import DeviceScaler
from asr_ablations.training.task import CTCTask
from tests.helpers.support import compose, group_options, standing_corpus

META = torch.device("meta")
FREE = {"empty", "new_empty", "empty_like", "empty_strided", "new_empty_strided", "detach", "lift_fresh"}
LAUNCHES = {"norm_moments": 2, "norm_gradient_sums": 2}  # where they are more than one
NOT_HERE = {"loss=aligned", "augment=noise", "augment=measured_reverb"}
SMALL = ("width=8", "layers=2", "gpus=0", "logger=csv", "alphabet.characters='ab '")


class Counts(TorchDispatchMode):
    """launches: by operation; bytes: read and written."""

    def __init__(self) -> None:
        super().__init__()
        self.launches: Counter[str] = Counter()
        self.bytes: Counter[str] = Counter()

    def __torch_dispatch__(self, operation: Any, types: Any, arguments: Any = (), options: Any = None) -> Any:
        result = operation(*arguments, **(options or {}))
        name = operation.overloadpacket.__name__
        tensors = [t for t in tree_flatten((arguments, options or {}, result))[0] if isinstance(t, torch.Tensor)]
        on_device = [t for t in tensors if t.device == META]
        is_view = any(r.alias_info is not None and not r.alias_info.is_write for r in operation._schema.returns)
        if on_device and not is_view and name not in FREE:
            self.launches[name] += LAUNCHES.get(name, 1)
            self.bytes[name] += sum(min(t.nbytes, t.untyped_storage().nbytes()) for t in on_device)
        return result

    @property
    def gigabytes(self) -> float:
        return sum(self.bytes.values()) / 1e9


class _Shaped(torch.autograd.Function):
    """An operation of nothing but its result's shape."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, *shape: int) -> torch.Tensor:
        ctx.like = x
        return x.new_empty(shape)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        return torch.empty_like(ctx.like), *[None] * gradient.ndim


class Uncounted(nn.Module):
    """In the place of a recurrent layer: its shapes."""

    def __init__(self, cell: nn.RNNBase) -> None:
        super().__init__()
        self.cell, self.size = cell, cell.hidden_size

    def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        return _Shaped.apply(x, *x.shape[:2], self.size)


def batch(utterances: int, seconds: float, labels: int) -> Batch:
    """Utterances of one length, on the meta device but for their lengths."""
    samples = round(16000 * seconds)
    return Batch(
        audio=torch.empty(utterances * samples, dtype=torch.int16, device=META),
        lengths=torch.full((utterances,), samples),
        targets=torch.empty(utterances * labels, dtype=torch.long, device=META),
        target_lengths=torch.full((utterances,), labels),
        ids=[f"u-{number}" for number in range(utterances)],
        texts=[""] * utterances,
    )


def on_meta(*overrides: str) -> CTCTask:
    task, _ = assemble(compose(*overrides), standing_corpus())
    for layer in task.model.modules():
        for name, part in layer.named_children():
            if isinstance(getattr(part, "cell", None), nn.RNNBase):
                setattr(layer, name, Uncounted(part.cell))
    task.to(META).train()
    task._device = META  # what LightningModule.device reads
    return task


@contextmanager
def as_on_a_gpu(own_ctc: bool = True) -> Iterator[None]:
    """Our own operations are as on a GPU that has their kernels; own_ctc: CTC among them, or torch's."""
    with (
        # torch knows no autocast on meta: 16 bits are counted with precision=16-master
        patch.object(torch, "autocast", lambda *_, **__: nullcontext()),
        patch.object(directions, "autocast_of_recurrences", lambda device: None),
        patch.object(batch_norm, "usable", lambda device: True),
        patch.object(ctc, "usable", lambda device: own_ctc),
        patch.object(optimizers, "_get_fused_kernels_supported_devices", lambda: ["meta"]),
        patch.object(adam, "_get_capturable_supported_devices", lambda *_, **__: ["meta"]),
        patch.object(adadelta, "_get_capturable_supported_devices", lambda *_, **__: ["meta"]),
        patch.object(torch, "Generator", lambda device="cpu", make=torch.Generator: make()),
    ):
        yield


@pytest.mark.parametrize(("precision", "launches", "gigabytes"), [("32", 285, 45), ("16-master", 320, 35)])
def test_a_step_of_ds2_stays_within_its_launches_and_traffic(precision: str, launches: int, gigabytes: float) -> None:
    """64 utterances of 12.8 s, 161 bins. 16-master copies the weights of each layer, and their gradients."""

    def count_step(*overrides: str) -> Counts:
        """Of the features, the model in both passes, and the log-probabilities."""
        task = on_meta("model=ds2", "features=spectrogram", "rnn=lstm", *SMALL[2:], *overrides)
        task.loss = lambda log_probs, lengths, batch: log_probs.new_zeros(()) + _Shaped.apply(log_probs)
        with as_on_a_gpu(), Counts() as counts:
            task.scored(batch(64, 12.8, 180)).loss.backward()
        return counts

    counts = count_step(f"precision={precision}", "augment=specaugment")
    assert sum(counts.launches.values()) <= launches, counts.launches
    assert counts.gigabytes <= gigabytes, counts.bytes.most_common(9)


class Copies(TorchDispatchMode):
    """What makes the host wait and is no error on meta."""

    def __init__(self) -> None:
        super().__init__()
        self.noted: list[str] = []

    def tensor(self, data: Any, device: Any = None, make: Callable[..., Any] = torch.tensor, **options: Any) -> Any:
        """In the place of torch.tensor: on meta it copies nothing."""
        self.noted += [f"a tensor of {data}"] if device == META else []
        return make(data, device=device, **options)

    def __torch_dispatch__(self, operation: Any, types: Any, arguments: Any = (), options: Any = None) -> Any:
        result = operation(*arguments, **(options or {}))
        name = operation.overloadpacket.__name__
        if name in ("_to_copy", "copy_"):
            into, source = arguments[:2] if name == "copy_" else (result, arguments[0])
            waits = not (options or {}).get("non_blocking", name == "copy_" and arguments[2:] == (True,))
            if waits and into.device != source.device:
                self.noted.append(f"a copy of {tuple(source.shape)}")
        elif name in ("index", "index_put", "index_put_", "_index_put_impl_") and arguments[0].device == META:
            self.noted += ["an index on the CPU" for i in arguments[1] if i is not None and i.device != META]
        return result


def waits(*overrides: str, planted: Callable[[Any], Any] = id, own_ctc: bool = True, scaler: Any = None) -> list[str]:
    """What the second step of a task would wait for. planted: is called with the loss."""
    task, read = on_meta(*SMALL, *overrides), torch.Tensor.item
    scaler = scaler or SimpleNamespace(scale=lambda loss: loss, unscale_=id, step=lambda own: own.step(), update=int)
    # the first step may wait: the scaler reads whether a gradient has overflowed
    first = patch.object(torch.Tensor, "item", lambda self: 0.0 if self.device == META else read(self))

    def log(name: str, value: Any, batch_size: Any = 1, **_: Any) -> None:
        """As Lightning does: a number becomes a tensor on the device at once."""
        assert isinstance(value, torch.Tensor), f"a number is logged: {name}"
        value.detach() * batch_size

    task.log = log
    optimizer = task.make_optimizer(task.model.named_parameters())
    with as_on_a_gpu(own_ctc):
        for number in range(2):
            copies = Copies()
            with copies, patch.object(torch, "tensor", copies.tensor), nullcontext() if number else first:
                optimizer.zero_grad()
                loss = task.training_step(batch(2, 0.2, 3), number)  # some cells take a step per frame in Python
                if number:
                    planted(loss)
                scaler.scale(loss).backward()
                scaler.unscale_(optimizer)
                task.configure_gradient_clipping(optimizer)
                scaler.step(optimizer)
                scaler.update()
                task.gradient.after_step(list(task.model.parameters()), task._log_step)
    return copies.noted


def together(*groups: str) -> list[tuple[str, ...]]:
    """Every option of the groups, with as many of them in a step as there are groups."""
    options = [[f"{group}={name}" for name in group_options(group)] for group in groups]
    options = [[option for option in group if option not in NOT_HERE] for group in options]
    return [tuple(group[number % len(group)] for group in options) for number in range(max(map(len, options)))]


@pytest.mark.parametrize("options", [*together("gradient", "norm", "penalty", "optimizer", "rnn", "loss"),
                                     *together("augment"), *together("features")])  # fmt: skip
def test_a_step_waits_for_nothing(options: tuple[str, ...]) -> None:
    assert waits(*options, *["augment=specaugment"] * ("loss=cr_ctc" in options)) == []


@pytest.mark.parametrize("options", together("optimizer", "gradient"))
def test_a_step_under_a_scaled_loss_waits_for_nothing(options: tuple[str, ...]) -> None:
    """Whether a gradient has overflowed stays on the device; what the loss is scaled by, too."""
    assert waits(*options, "precision=16", scaler=DeviceScaler("cpu")) == []


def test_planted_waits_are_errors_and_planted_copies_noted() -> None:
    """PyTorch's meta device has no numbers to wait for: which of the two it raises depends on the operation."""
    for wait in (torch.Tensor.item, torch.Tensor.cpu, lambda loss: loss + torch.ones(2)):
        with pytest.raises((RuntimeError, NotImplementedError), match=r"meta|device"):
            waits(planted=wait)
    for copy in (
        lambda loss: torch.tensor(3.0, device=META), lambda loss: torch.ones(2).to(META),
        lambda loss: loss.new_empty(5).copy_(torch.ones(5)), lambda loss: loss.new_empty(5)[torch.tensor([1])],
    ):  # fmt: skip
        assert len(waits(planted=copy)) == 1
    with pytest.raises(RuntimeError, match="meta"):
        waits("optimizer=adamw", "precision=16", "+optimizer.foreach=false", scaler=torch.amp.GradScaler("cpu"))
    with pytest.raises(NotImplementedError, match="_ctc_loss"):  # PyTorch's own CTC does not run on its meta device
        waits(own_ctc=False)

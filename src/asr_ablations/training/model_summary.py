"""Draw a model as text: layers in the order of a forward pass, with shapes and parameters."""

from collections.abc import Iterator
from functools import partial

import torch
from torch import nn

from asr_ablations.training.contracts import AcousticModel

PROBES = ((2, 400), (3, 600))
"""Utterances and frames of two forward passes; sizes that differ between them are batch or time."""

Shape = tuple[int, ...]
Line = tuple[str, str, str, str]


def draw_model(model: AcousticModel, features: int) -> str:
    """Return a line per layer, with its parts indented below: name, class, output shape, parameters.

    B is the batch, T the feature frames; T/4 is about a quarter of them, because convolutions treat the ends
    differently. The model and the random state do not change.
    """
    assert isinstance(model, nn.Module)
    shapes, order = _outputs(model, features)
    lines = [("features", "", f"(B, T, {features})", "")]
    for name in sorted(_layers(model), key=lambda name: order.get(name, len(order))):
        lines += _lines(model, name, name, shapes)
    lines.append((type(model).__name__, "", shapes.get("", ""), f"{_count(model):,}"))
    *widths, last = [max(map(len, column)) for column in zip(*lines, strict=True)]
    padded = [
        [*(text.ljust(width) for text, width in zip(line, widths, strict=False)), line[-1].rjust(last)]
        for line in lines
    ]
    return "".join("  ".join(line).rstrip() + "\n" for line in padded)


def _count(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def _lines(model: nn.Module, name: str, label: str, shapes: dict[str, str]) -> Iterator[Line]:
    """Yield the lines of a layer and its parts. label: its indented name within its parent."""
    layer = model.get_submodule(name)
    count = _count(layer)
    yield label, type(layer).__name__, shapes.get(name, ""), f"{count:,}" if count else ""
    indent = " " * (len(label) - len(label.lstrip()) + 2)
    for part in _layers(layer):
        yield from _lines(model, f"{name}.{part}", indent + part, shapes)


def _layers(module: nn.Module, prefix: str = "") -> Iterator[str]:
    """Yield the names of a module's parts; lists of modules are replaced by their members."""
    for name, part in module.named_children():
        if isinstance(part, (nn.ModuleList, nn.Sequential)):
            yield from _layers(part, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}"


def _outputs(model: nn.Module, features: int) -> tuple[dict[str, str], dict[str, int]]:
    """Return, by part, the output shape with letters, and the place in the order of first calls."""
    seen: list[dict[str, Shape]] = []
    order: dict[str, int] = {}

    def before(name: str, *_: object) -> None:
        order.setdefault(name, len(order))

    def after(name: str, module: nn.Module, inputs: object, output: object) -> None:
        first = output[0] if isinstance(output, tuple) else output
        if isinstance(first, torch.Tensor):
            seen[-1][name] = tuple(first.shape)

    handles = []
    for name, part in model.named_modules():
        handles.append(part.register_forward_pre_hook(partial(before, name)))
        handles.append(part.register_forward_hook(partial(after, name)))
    training, weight = model.training, next(model.parameters())
    model.eval()
    try:
        with torch.no_grad():
            for batch, frames in PROBES:
                seen.append({})
                probe = torch.zeros(batch, frames, features, dtype=weight.dtype, device=weight.device)
                model(probe, torch.full((batch,), frames))
    finally:
        model.train(training)
        for handle in handles:
            handle.remove()
    first, second = seen
    return {name: _letters(first[name], second[name]) for name in first.keys() & second.keys()}, order


def _letters(first: Shape, second: Shape) -> str:
    (batch, frames), (other, _) = PROBES
    if len(first) != len(second):
        return ""
    names = []
    for size, grown in zip(first, second, strict=True):
        ratio = round(frames / max(1, size))
        fraction = "T" if ratio == 1 else f"T/{ratio}"
        names.append(str(size) if size == grown else "B" if (size, grown) == (batch, other) else fraction)
    return f"({', '.join(names)})"

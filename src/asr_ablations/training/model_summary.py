"""Describe a model as text: its layers in the order of a forward pass, with output shapes and parameter counts."""

from functools import partial

import torch
from torch import nn

from asr_ablations.training.auxiliary import without_auxiliary
from asr_ablations.training.contracts import AcousticModel

PROBES = ((2, 400), (3, 600))
"""Batch size and number of frames of two forward passes. Dimensions that differ between them are batch or time."""
SAMPLES = 161
"""Number of samples in the probes for each of these frames, if the features are samples. wav2vec 2.0 is then T/320."""

Shape = tuple[int, ...]


def draw_model(model: AcousticModel, features: int) -> str:
    """Return a text table of the layers' names, classes, output shapes and parameter counts. Sublayers are indented.

    B is the batch size and T the number of feature frames. T/4 means about a quarter of T; the exact number depends on
    how convolutions treat the ends. The auxiliary loss is omitted. The model and the random state stay unchanged.
    """
    recognising = without_auxiliary(model).eval()
    lines = [("features", "", f"(B, T, {features})", "")]
    shapes = _trace_shapes(recognising, features)
    for name, shape in shapes.items():
        part = recognising.get_submodule(name)
        parents = [other for other in shapes if other and name.startswith(f"{other}.")]
        label = "  " * len(parents) + name.removeprefix(f"{parents[-1]}." if parents else "")
        count = sum(weights.numel() for weights in part.parameters())
        lines.append((label, type(part).__name__, shape, f"{count:,}" if count else ""))
    _, kind, shape, total = lines.pop(1)  # the model itself, which is called first
    lines.append((kind, "", shape, total))
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    layout = "  ".join(f"{{:{side}{width}}}" for side, width in zip("<<<>", widths, strict=True))
    return "".join(layout.format(*line).rstrip() + "\n" for line in lines)


def _trace_shapes(model: nn.Module, features: int) -> dict[str, str]:
    """Return each layer's output shape, such as (B, T/2, 512), by layer name, in the order of the first calls."""
    seen: dict[str, list[Shape]] = {}

    def before(name: str, *_: object) -> None:
        seen.setdefault(name, [])

    def after(name: str, module: nn.Module, inputs: object, output: object) -> None:
        first = output[0] if isinstance(output, tuple) else output
        seen[name].append(tuple(first.shape) if isinstance(first, torch.Tensor) else ())

    for name, part in model.named_modules():
        if not isinstance(part, nn.Sequential):
            part.register_forward_pre_hook(partial(before, name))
            part.register_forward_hook(partial(after, name))
    weight, scale = next(model.parameters()), 1 if features > 1 else SAMPLES
    with torch.enable_grad():  # without gradients, both directions of a layer run in threads, in any order
        for batch, frames in PROBES:
            frames *= scale
            probe = torch.zeros(batch, frames, features, dtype=weight.dtype, device=weight.device)
            model(probe, torch.full((batch,), frames))
    return {name: _letters(shapes[0], shapes[len(shapes) // 2], scale) for name, shapes in seen.items()}


def _letters(first: Shape, second: Shape, scale: int) -> str:
    (batch, frames), (other, _) = PROBES
    if not first or len(first) != len(second):
        return ""
    names = []
    for size, grown in zip(first, second, strict=True):
        ratio = round(scale * frames / max(1, size))
        fraction = "T" if ratio == 1 else f"T/{ratio}"
        names.append(str(size) if size == grown else "B" if (size, grown) == (batch, other) else fraction)
    return f"({', '.join(names)})"

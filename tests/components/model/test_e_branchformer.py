"""The branches of an E-Branchformer's layer, and how they are merged, against their formulas frame by frame."""

import torch
from torch.nn.functional import gelu

from asr_ablations.components.model.e_branchformer import DepthwiseConvolution, GatingMLP, Layer

LENGTHS = torch.tensor([9, 4])


def random_weights(module: torch.nn.Module) -> None:
    for parameter in module.parameters():
        torch.nn.init.normal_(parameter, std=0.5)


def convolve(x: torch.Tensor, subject: DepthwiseConvolution, frame: int) -> torch.Tensor:
    """One frame of a convolution over x (T, D), outside of which there are zeros."""
    kernel = subject.weight[:, 0]  # (D, K)
    half, result = kernel.shape[1] // 2, subject.bias.clone()  # type: ignore[union-attr]
    for place in range(kernel.shape[1]):
        if 0 <= (source := frame + place - half) < len(x):
            result = result + kernel[:, place] * x[source]
    return result


def test_the_gating_mlp_against_its_formula() -> None:
    """Sakuma et al. 2022: (A ∘ DwConv(LN(B))) V, where [A, B] = GELU(LN(x) U); two utterances, one with padding."""
    torch.manual_seed(0)
    subject = GatingMLP(6, 10, 3, 0.0)
    random_weights(subject)
    x = torch.randn(2, 9, 6)
    result = subject(x, LENGTHS)
    for row, length in enumerate(LENGTHS.tolist()):
        units = gelu(subject.widen(subject.norm(x[row, :length])))
        gate = subject.gate_norm(units[:, 5:])
        for frame in range(length):
            expected = subject.narrow(units[frame, :5] * convolve(gate, subject.convolve, frame))
            torch.testing.assert_close(result[row, frame], expected, atol=1e-5, rtol=1e-5)


def test_a_layer_against_its_formula() -> None:
    """Kim et al. 2023 §3: both branches side by side, then their projection after a depthwise convolution is added."""
    torch.manual_seed(0)
    subject = Layer(6, feed_forward=8, heads=2, gating=10, kernel=3, merge_kernel=5, dropout=0.0)
    random_weights(subject)
    x = torch.randn(2, 9, 6)
    result = subject(x, LENGTHS)
    for row, length in enumerate(LENGTHS.tolist()):
        alone, count = x[row : row + 1, :length], LENGTHS[row : row + 1]
        inner = alone + 0.5 * subject.feed_forward(alone)
        branches = subject.attention(subject.attention_norm(inner), count), subject.gating(inner, count)
        both = torch.cat(branches, dim=2)[0]
        for frame in range(length):
            mixed = inner[0, frame] + subject.project(both[frame] + convolve(both, subject.merge, frame))
            expected = subject.norm(mixed + 0.5 * subject.feed_forward_2(mixed))
            torch.testing.assert_close(result[row, frame], expected, atol=1e-5, rtol=1e-4)

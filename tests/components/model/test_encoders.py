"""Encoders against the formulas of their papers in loops, and against torchaudio's own forward pass."""

import math
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.functional import gelu

from asr_ablations.components.model.attention import RelativeAttention, encode
from asr_ablations.components.model.e_branchformer import DepthwiseConvolution, GatingMLP, Layer
from asr_ablations.config.build import build
from tests.helpers.support import compose


def test_encodings_are_sines_and_cosines_of_the_distance() -> None:
    """Vaswani et al. 2017 §3.5, also for negative positions."""
    result = encode(torch.tensor([3, 0, -2]), 5)
    for row, position in zip(result.tolist(), (3, 0, -2), strict=True):
        angles = [position / 10_000 ** (column // 2 * 2 / 5) for column in range(5)]
        waves = [math.cos(a) if column % 2 else math.sin(a) for column, a in enumerate(angles)]
        assert row == pytest.approx(waves, abs=1e-6)


@pytest.mark.parametrize("heads", [1, 2, 3])
@pytest.mark.parametrize("frames", [1, 2, 5])
def test_attention_against_the_formula_in_loops(heads: int, frames: int) -> None:
    """Dai et al. 2019 §3.3, its terms (a) to (d) one by one; two utterances, of which the second has padding."""
    torch.manual_seed(0)
    size, lengths = 6 // heads, [frames, max(1, frames - 2)]
    subject = RelativeAttention(6, heads, 0.0)
    for bias in (subject.content_bias, subject.position_bias):
        torch.nn.init.normal_(bias)
    x = torch.randn(2, frames, 6)
    result = subject(x, torch.tensor(lengths))
    for row, length in enumerate(lengths):
        query, key, value = (layer(x[row]) for layer in (subject.query, subject.key, subject.value))
        for i in range(length):
            mixed = []
            for part in (slice(h * size, (h + 1) * size) for h in range(heads)):
                q, u, v = query[i, part], subject.content_bias[part], subject.position_bias[part]
                scores = []
                for j in range(length):
                    p = subject.position(encode(torch.tensor([i - j]), 6))[0, part]
                    scores.append((q @ key[j, part] + q @ p + u @ key[j, part] + v @ p) / math.sqrt(size))
                weights = torch.stack(scores).softmax(0)
                mixed.append(sum(weight * value[j, part] for j, weight in enumerate(weights)))
            torch.testing.assert_close(result[row, i], subject.output(torch.cat(mixed)), atol=1e-5, rtol=1e-5)


FRAMES = torch.tensor([9, 4])


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
    result = subject(x, FRAMES)
    for row, length in enumerate(FRAMES.tolist()):
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
    result = subject(x, FRAMES)
    for row, length in enumerate(FRAMES.tolist()):
        alone, count = x[row : row + 1, :length], FRAMES[row : row + 1]
        inner = alone + 0.5 * subject.feed_forward(alone)
        branches = subject.attention(subject.attention_norm(inner), count), subject.gating(inner, count)
        both = torch.cat(branches, dim=2)[0]
        for frame in range(length):
            mixed = inner[0, frame] + subject.project(both[frame] + convolve(both, subject.merge, frame))
            expected = subject.norm(mixed + 0.5 * subject.feed_forward_2(mixed))
            torch.testing.assert_close(result[row, frame], expected, atol=1e-5, rtol=1e-4)


NAMES = ("wav2vec2", "hubert", "wavlm")
SMALL = ("width=16", "layers=2", "model.feed_forward=24")
EXTRACTORS = (
    ("model.extractor_norm=group", "model.norm_first=false", "model.convolution_bias=false"),
    ("model.extractor_norm=layer", "model.norm_first=true", "model.convolution_bias=true"),
)
"""As in base and large models."""
LENGTHS = torch.tensor([9000, 0, 399, 5000, 400])


def encoder(*overrides: str) -> Any:
    torch.manual_seed(0)
    cfg = compose(*overrides)
    return build(cfg.model, features=1, outputs=5, rnn=build(cfg.rnn), norm=build(cfg.norm))


def samples(lengths: torch.Tensor = LENGTHS) -> torch.Tensor:
    """(B, S, 1), zeros past the lengths."""
    x = torch.randn(len(lengths), int(lengths.max()), 1, generator=torch.Generator().manual_seed(1))
    return x * (torch.arange(x.shape[1]) < lengths[:, None])[..., None]


@pytest.mark.parametrize(("name", "extractor"), [(n, e) for n in NAMES for e in EXTRACTORS])
def test_each_utterance_is_as_torchaudio_computes_it_alone(name: str, extractor: tuple[str, ...]) -> None:
    """torchaudio.models' forward pass without padding is the reference; ours has the utterance in a padded batch."""
    network, x = encoder(f"model={name}", *SMALL, *extractor).eval(), samples()
    for parameter in network.encoder.parameters():  # else norms, biases and gates would be 0 or 1
        parameter.data += 0.1 * torch.randn_like(parameter)
    logits, lengths = network(x, LENGTHS)
    for row, (length, frames) in enumerate(zip(LENGTHS.tolist(), lengths.tolist(), strict=True)):
        if frames:
            expected, _ = network.encoder(x[row : row + 1, :length, 0])
            torch.testing.assert_close(logits[row, :frames], network.output(expected[0]), atol=2e-5, rtol=1e-4)
    assert lengths.tolist() == [27, 0, 0, 15, 1]


MASKED = ("model.masks.time_masks=3", "model.masks.frequency_masks=1", "model.masks.frequency_width=8", "dropout=0")


def masked(ids: list[str], rows: list[int], seeds: tuple[int, ...] = (1,), epoch: int = 0) -> list[torch.Tensor]:
    """The logits of rows of the samples in training, as one batch for each seed."""
    network, lengths = encoder("model=wavlm", *SMALL, *MASKED).train(), LENGTHS[rows].repeat(len(seeds))
    network.mask_next_pass(ids, seeds, epoch)
    logits, frames = network(samples()[rows].repeat(len(seeds), 1, 1), lengths)
    return [row[:count] for row, count in zip(logits, frames.tolist(), strict=True)]


def test_masks_depend_on_seed_epoch_and_utterance_alone() -> None:
    first, _, other = masked(["a", "b", "c"], [0, 1, 3])
    torch.testing.assert_close(masked(["c", "a"], [3, 0]), [other, first], atol=1e-5, rtol=1e-4)
    for changed in (masked(["x"], [0])[0], masked(["a"], [0], (2,))[0], masked(["a"], [0], epoch=1)[0]):
        assert not torch.allclose(changed, first, atol=1e-4)
    one, two = masked(["a"], [0], (1, 2))
    torch.testing.assert_close([one, two], [first, masked(["a"], [0], (2,))[0]], atol=1e-5, rtol=1e-4)


def test_a_skipped_layer_changes_nothing_and_gets_gradients_of_zero() -> None:
    """Each layer is skipped in training with the probability of the key, by torch's seeded generator."""
    skipping, whole = (encoder("model=wavlm", *SMALL, "dropout=0", f"model.layer_drop={p}").train() for p in (0.5, 0))
    none = encoder("model=wavlm", *SMALL, "dropout=0").train()
    none.encoder.encoder.transformer.layers = none.layers = nn.ModuleList()
    none.relative = False
    seen, firsts = {False: 0, True: 0}, []
    for seed in range(40):
        torch.manual_seed(seed)
        skipped = [float(torch.rand(())) < 0.5 for _ in range(2)]
        torch.manual_seed(seed)
        logits, _ = skipping(samples(), LENGTHS)
        seen[all(skipped)] += 1
        firsts.append(skipped[0])
        if len(set(skipped)) == 1:
            expected = (none if skipped[0] else whole)(samples(), LENGTHS)[0]
            torch.testing.assert_close(logits, expected, atol=1e-5, rtol=1e-4)
    assert min(seen.values()) >= 4
    torch.manual_seed(next(seed for seed, first in enumerate(firsts) if first))
    skipping.zero_grad()
    skipping(samples(), LENGTHS)[0].sum().backward()
    for name, weights in skipping.encoder.encoder.transformer.layers[0].named_parameters():
        assert weights.grad is not None
        assert "rel_attn_embed" in name or not weights.grad.any()  # all layers share the embedding of distances

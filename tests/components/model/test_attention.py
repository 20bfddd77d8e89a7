"""Attention with relative positions, against its formula in loops."""

import math

import pytest
import torch

from asr_ablations.components.model.attention import RelativeAttention, encode


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

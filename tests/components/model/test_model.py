"""The contract of models, dropout, and encoders against their formulas in loops and torchaudio's own forward pass."""

import math
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.functional import gelu
from torchaudio.models.conformer import ConformerLayer

from asr_ablations.components.model.attention import RelativeAttention, encode
from asr_ablations.components.model.convolution import CEILING, Convolution, PaddedConvolution, WholeFrameConvolution
from asr_ablations.components.model.dropout import Dropout
from asr_ablations.components.model.e_branchformer import DepthwiseConvolution, GatingMLP, Layer
from asr_ablations.config.build import build
from tests.helpers.support import component, compose, group_options

OUTPUTS = 29
LENGTHS = torch.tensor([50, 0, 1, 33, 7])
SMALL = ("width=8", "layers=2")

SAMPLES = [
    name
    for name in group_options("model")
    if compose(f"model={name}").features == compose("features=waveform").features
]
"""Models that read samples, and no other features."""
LONGER = 180
"""Samples in the tests for each frame."""

every_model = pytest.mark.parametrize("name", group_options("model"))


def usual_bins(name: str) -> int:
    return 1 if name in SAMPLES else 80


def usual_lengths(name: str) -> torch.Tensor:
    return LENGTHS * LONGER if name in SAMPLES else LENGTHS


def model(*overrides: str, bins: int | None = None) -> nn.Module:
    """With fixed weights."""
    torch.manual_seed(0)
    cfg = compose(*overrides)
    bins = bins or usual_bins(overrides[0].removeprefix("model="))
    built: nn.Module = build(cfg.model, features=bins, outputs=OUTPUTS, rnn=build(cfg.rnn), norm=build(cfg.norm))
    return built


def features(bins: int = 80, lengths: torch.Tensor = LENGTHS) -> torch.Tensor:
    """(B, T, F), zeros past the lengths."""
    x = torch.randn(len(lengths), int(lengths.max()), bins, generator=torch.Generator().manual_seed(1))
    return x * (torch.arange(x.shape[1]) < lengths[:, None])[..., None]


def trained(network: nn.Module, bins: int = 80, lengths: torch.Tensor = LENGTHS) -> nn.Module:
    """In evaluation mode, with running statistics that are not 0 and 1."""
    network.train()(features(bins, lengths), lengths)
    return network.eval()


@pytest.mark.parametrize(
    ("name", "bins", "norm"),
    [
        *((name, usual_bins(name), "batch") for name in group_options("model")),
        *(("tiny", component("features", name).size, "batch") for name in group_options("features")),
        *(("tiny", 80, norm) for norm in group_options("norm")),
    ],
)
def test_evaluation_alone_is_as_in_a_batch(name: str, bins: int, norm: str) -> None:
    given = usual_lengths(name)
    network, x = model(f"model={name}", f"norm={norm}", *SMALL, bins=bins), features(bins, given)
    together, lengths = trained(network, bins, given)(x, given)
    for row, length in enumerate(given.tolist()):
        alone, count = network(x[row : row + 1, :length], given[row : row + 1])
        assert count.tolist() == [lengths[row]] == [alone.shape[1]]
        torch.testing.assert_close(together[row, : lengths[row]], alone[0], atol=1e-4, rtol=0)


@every_model
def test_output_lengths_are_the_frames_that_come_out(name: str) -> None:
    def convolved(network: nn.Module, frames: int) -> int:
        """Output frames of a recording alone, from what torch's convolutions make of it; none where they refuse it."""
        for m in network.modules():
            if isinstance(m, (nn.Conv1d, nn.Conv2d)) and m.groups == 1:
                (kernel, padding, stride) = (value[0] for value in (m.kernel_size, m.padding, m.stride))
                frames = max(0, (frames + 2 * int(padding) - kernel) // stride + 1) if frames else 0
        return frames

    network = model(f"model={name}", *SMALL)
    shortest = 399 if name in SAMPLES else 0  # 400 samples make the first frame
    expected = [convolved(network, n) for n in range(60 + shortest)]
    assert network.output_lengths(torch.arange(60 + shortest)).tolist() == expected
    assert not any(expected[:shortest])
    for length in (shortest + n for n in (0, 1, 2, 10, 11, 13)):
        logits, count = network(features(usual_bins(name), torch.tensor([length])), torch.tensor([length]))
        assert logits.shape == (1, expected[length], OUTPUTS)
        assert count.tolist() == [expected[length]]


@every_model
def test_gradients_are_finite_and_reach_every_parameter(name: str) -> None:
    network, given = model(f"model={name}", *SMALL).train(), usual_lengths(name)
    logits, lengths = network(features(usual_bins(name), given), given)
    valid = (torch.arange(logits.shape[1]) < lengths[:, None])[..., None]
    (logits.log_softmax(dim=-1)[..., :3] * valid).sum().backward()
    for parameter_name, parameter in network.named_parameters():
        assert parameter.grad is not None, parameter_name
        assert torch.isfinite(parameter.grad).all(), parameter_name
        assert parameter.grad.abs().sum() > 0, parameter_name


@every_model
def test_padding_reaches_no_parameters_gradient(name: str) -> None:
    """A batch as long as it must be, and the same with 40 more frames of zeros, give the same gradients."""
    result, given = [], usual_lengths(name)
    for more in (0, 40 * int(given[0] / LENGTHS[0])):
        network = model(f"model={name}", *SMALL, "dropout=0").train()
        x = nn.functional.pad(features(usual_bins(name), given), (0, 0, 0, more))
        logits, lengths = network(x, given)
        valid = (torch.arange(logits.shape[1]) < lengths[:, None])[..., None]
        (logits.log_softmax(dim=-1)[..., :3] * valid).sum().backward()
        result.append([p.grad for p in network.parameters()])
    torch.testing.assert_close(result[0], result[1], atol=1e-4, rtol=1e-4)


@every_model
def test_dropout_is_alive_in_training_and_off_in_evaluation(name: str) -> None:
    network = model(f"model={name}", "dropout=0.5", "layers=1", "width=8")
    for training in (True, False):
        network.train(training)
        x, given = features(usual_bins(name), usual_lengths(name)), usual_lengths(name)
        first, second = (network(x, given)[0] for _ in range(2))
        assert torch.equal(first, second) == (not training)


def test_the_rectifier_is_clipped_at_20_also_over_whole_frames() -> None:
    """Ambroszczyk2019 §1.2: σ(x) = min(max(x, 0), 20)."""
    convolution = PaddedConvolution(1, 5, norm=component("norm", "none"), channels=4, kernel=[3, 3], stride=[1, 1])
    x = torch.randn(2, 9, 5, 1, generator=torch.Generator().manual_seed(2))
    for scale, highest in ((1e4, 20.0), (0.1, None)):
        y, _ = convolution(x * scale, torch.tensor([9, 9]))
        plain = convolution.convolve((x * scale).permute(0, 3, 1, 2)).permute(0, 2, 3, 1)
        torch.testing.assert_close(y, plain.clamp(0, 20))
        assert highest is None or y.max() == highest == CEILING
    subject = WholeFrameConvolution(2, 3, norm=component("norm", "none"), channels=4, kernel=5, stride=2)
    x, lengths = torch.randn(2, 12, 3, 2, generator=torch.Generator().manual_seed(2)), torch.tensor([12, 6])
    y, count = subject(x, lengths)
    assert count.tolist() == [4, 1]
    weight = subject.convolve.weight.unflatten(1, (3, 2))  # (channels, F, C, kernel)
    for row, frames in enumerate(count.tolist()):
        for t in range(frames):
            sums = torch.einsum("tfc,hfct->h", x[row, 2 * t : 2 * t + 5], weight) + subject.convolve.bias
            torch.testing.assert_close(y[row, t, 0], sums.clamp(0, 20), atol=1e-5, rtol=1e-5)
    assert (y[1, 1:] == 0).all()


def test_hidden_fully_connected_layers_against_the_formula() -> None:
    """min(max(norm(W x + b), 0), 20) for each frame (Ambroszczyk2019 §1.2), twice, between what was the output's input
    and the output; padding changes nothing.
    """
    network = trained(model("model=tiny", "norm=batch", "model.fully_connected=3", *SMALL))
    seen = []
    network.connected[0].register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    logits, lengths = network(features(), LENGTHS)
    for row, frames in enumerate(lengths.tolist()):
        x = seen[0][row : row + 1, :frames]
        for layer in network.connected:
            product = x @ layer.product.weight.T + layer.product.bias
            x = layer.norm(product, torch.tensor([frames])).clamp(min=0).clamp(max=20)
        expected = x @ network.output.weight.T + network.output.bias
        torch.testing.assert_close(logits[row : row + 1, :frames], expected, atol=1e-5, rtol=1e-5)


def test_dropout_stands_before_every_recurrent_layer_and_the_output() -> None:
    """And nowhere else: each sees what the one before it gave, at the rate of the key."""
    network = model("layers=3", "width=8", "dropout=0.3").train()
    order = []
    for name, m in network.named_modules():
        if isinstance(m, Dropout) or (name.startswith("recurrent.") and name.count(".") == 1) or name == "output":
            m.register_forward_hook(lambda m, *_, name=name: order.append(name.split(".")[0]))
    network(features(), LENGTHS)
    assert order == [*["dropouts", "recurrent"] * 3, "dropouts", "output"]
    assert [m.rate for m in network.modules() if isinstance(m, Dropout)] == [0.3] * 4


def test_few_utterances_in_another_layout_give_torchs_numbers() -> None:
    for utterances in (1, 3):
        ours = Convolution(32, 4, (5, 7), (2, 1), (2, 3))
        torchs = nn.Conv2d(32, 4, (5, 7), (2, 1), (2, 3))
        torchs.load_state_dict(ours.state_dict())
        x = torch.randn(utterances, 20, 11, 32).permute(0, 3, 1, 2)
        given = torch.randn(utterances, 4, 10, 11)
        result = [torch.autograd.grad(layer(x), [*layer.parameters()], given) for layer in (ours, torchs)]
        torch.testing.assert_close(ours(x), torchs(x))
        torch.testing.assert_close(*result)


def test_published_models_have_as_many_parameters_as_counted_by_hand() -> None:
    """Amodei et al. 2016: kernels 41 × 11 and 21 × 11; frequencies are halved twice, rounding up: 161 → 81 → 41. A GRU
    has 3 gates, each with two biases.
    """
    convolutions = 32 * (1 * 41 * 11 + 1) + 32 * (32 * 21 * 11 + 1)
    norms = 2 * (32 + 32 + 5 * 800)
    directions = 2 * 3 * (800 * (32 * 41 + 800 + 2)) + 4 * 2 * 3 * (800 * (800 + 800 + 2))
    output = (800 + 1) * 29

    def in_full(*overrides: str, bins: int, outputs: int) -> nn.Module:
        cfg = compose(*overrides)
        with torch.device("meta"):  # no memory
            return build(cfg.model, features=bins, outputs=outputs, rnn=build(cfg.rnn), norm=build(cfg.norm))

    def parameters(network: nn.Module) -> int:
        return sum(p.numel() for p in network.parameters())

    result = in_full("model=ds2", "rnn=gru", bins=161, outputs=29)
    assert parameters(result) == convolutions + norms + directions + output
    # Baunsgaard2020 §4.4.3: a kernel of 11 × 93 × 600, five LSTMs of 800 in one direction, 600 and then 800 inputs,
    # batch norm after each, 30 outputs. An LSTM has 4 gates, each with two biases as torch keeps them
    result = in_full("model=itu", "rnn=lstm", bins=93, outputs=30)
    convolution = 600 * (11 * 93 + 1)
    norms = 2 * (600 + 5 * 800)
    layers = 4 * 800 * (600 + 800 + 2) + 4 * 4 * 800 * (800 + 800 + 2)
    assert parameters(result) == convolution + norms + layers + (800 + 1) * 30
    (kernel,) = [m for m in result.modules() if isinstance(m, nn.Conv1d)]
    assert tuple(kernel.weight.shape) == (600, 93, 11)
    assert {m.rate for m in result.modules() if isinstance(m, Dropout)} == {0.05}


def test_a_share_is_dropped_the_mean_stays_and_the_gradient_has_the_same_mask() -> None:
    """Srivastava et al. 2014, §4 and §10: zero at the rate, the rest scaled so that the expectation is the input."""
    for rate in (0.05, 0.9):
        torch.manual_seed(1)
        x = torch.full((200_000,), 3.0, requires_grad=True)
        y = Dropout(rate)(x)
        deviation = (rate * (1 - rate) / 200_000) ** 0.5
        assert (y == 0).float().mean().item() == pytest.approx(rate, abs=5 * deviation)
        torch.testing.assert_close(y[y != 0].unique(), torch.tensor([3.0 / (1 - rate)]))
        torch.testing.assert_close(3 * torch.autograd.grad(y.sum(), x)[0], y.detach())


def test_without_padding_a_conformer_layer_is_torchaudios() -> None:
    """In training with norm=batch, which normalises as torch's own where no frame is padding."""
    network = model("model=conformer", "model.positions=none", "norm=batch", "dropout=0", *SMALL).train()
    layer = network.layers[0]
    theirs = ConformerLayer(8, 576, 4, 31).train()
    weights = {key: value for key, value in layer.parts.state_dict().items() if "sequential.3." not in key}
    theirs.load_state_dict(weights, strict=False)
    x = torch.randn(3, 40, 8, generator=torch.Generator().manual_seed(3))
    expected = theirs(x.transpose(0, 1), None).transpose(0, 1)
    torch.testing.assert_close(layer(x, torch.tensor([40, 40, 40])), expected, atol=1e-5, rtol=1e-5)


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
SMALL_ENCODER = ("width=16", "layers=2", "model.feed_forward=24")
EXTRACTORS = (
    ("model.extractor_norm=group", "model.norm_first=false", "model.convolution_bias=false"),
    ("model.extractor_norm=layer", "model.norm_first=true", "model.convolution_bias=true"),
)
"""As in base and large models."""
SAMPLE_LENGTHS = torch.tensor([9000, 0, 399, 5000, 400])


def encoder(*overrides: str) -> Any:
    torch.manual_seed(0)
    cfg = compose(*overrides)
    return build(cfg.model, features=1, outputs=5, rnn=build(cfg.rnn), norm=build(cfg.norm))


def samples(lengths: torch.Tensor = SAMPLE_LENGTHS) -> torch.Tensor:
    """(B, S, 1), zeros past the lengths."""
    x = torch.randn(len(lengths), int(lengths.max()), 1, generator=torch.Generator().manual_seed(1))
    return x * (torch.arange(x.shape[1]) < lengths[:, None])[..., None]


@pytest.mark.parametrize(("name", "extractor"), [(n, e) for n in NAMES for e in EXTRACTORS])
def test_each_utterance_is_as_torchaudio_computes_it_alone(name: str, extractor: tuple[str, ...]) -> None:
    """torchaudio.models' forward pass without padding is the reference; ours has the utterance in a padded batch."""
    network, x = encoder(f"model={name}", *SMALL_ENCODER, *extractor).eval(), samples()
    for parameter in network.encoder.parameters():  # else norms, biases and gates would be 0 or 1
        parameter.data += 0.1 * torch.randn_like(parameter)
    logits, lengths = network(x, SAMPLE_LENGTHS)
    for row, (length, frames) in enumerate(zip(SAMPLE_LENGTHS.tolist(), lengths.tolist(), strict=True)):
        if frames:
            expected, _ = network.encoder(x[row : row + 1, :length, 0])
            torch.testing.assert_close(logits[row, :frames], network.output(expected[0]), atol=2e-5, rtol=1e-4)
    assert lengths.tolist() == [27, 0, 0, 15, 1]


MASKED = ("model.masks.time_masks=3", "model.masks.frequency_masks=1", "model.masks.frequency_width=8", "dropout=0")


def test_masks_depend_on_seed_epoch_and_utterance_alone() -> None:
    def masked(ids: list[str], rows: list[int], seeds: tuple[int, ...] = (1,), epoch: int = 0) -> list[torch.Tensor]:
        """The logits of rows of the samples in training, as one batch for each seed."""
        network, lengths = (
            encoder("model=wavlm", *SMALL_ENCODER, *MASKED).train(),
            SAMPLE_LENGTHS[rows].repeat(len(seeds)),
        )
        network.mask_next_pass(ids, seeds, epoch)
        logits, frames = network(samples()[rows].repeat(len(seeds), 1, 1), lengths)
        return [row[:count] for row, count in zip(logits, frames.tolist(), strict=True)]

    first, _, other = masked(["a", "b", "c"], [0, 1, 3])
    torch.testing.assert_close(masked(["c", "a"], [3, 0]), [other, first], atol=1e-5, rtol=1e-4)
    for changed in (masked(["x"], [0])[0], masked(["a"], [0], (2,))[0], masked(["a"], [0], epoch=1)[0]):
        assert not torch.allclose(changed, first, atol=1e-4)
    one, two = masked(["a"], [0], (1, 2))
    torch.testing.assert_close([one, two], [first, masked(["a"], [0], (2,))[0]], atol=1e-5, rtol=1e-4)


def test_a_skipped_layer_changes_nothing_and_gets_gradients_of_zero() -> None:
    """Each layer is skipped in training with the probability of the key, by torch's seeded generator."""
    skipping, whole = (
        encoder("model=wavlm", *SMALL_ENCODER, "dropout=0", f"model.layer_drop={p}").train() for p in (0.5, 0)
    )
    none = encoder("model=wavlm", *SMALL_ENCODER, "dropout=0").train()
    none.encoder.encoder.transformer.layers = none.layers = nn.ModuleList()
    none.relative = False
    seen, firsts = {False: 0, True: 0}, []
    for seed in range(40):
        torch.manual_seed(seed)
        skipped = [float(torch.rand(())) < 0.5 for _ in range(2)]
        torch.manual_seed(seed)
        logits, _ = skipping(samples(), SAMPLE_LENGTHS)
        seen[all(skipped)] += 1
        firsts.append(skipped[0])
        if len(set(skipped)) == 1:
            expected = (none if skipped[0] else whole)(samples(), SAMPLE_LENGTHS)[0]
            torch.testing.assert_close(logits, expected, atol=1e-5, rtol=1e-4)
    assert min(seen.values()) >= 4
    torch.manual_seed(next(seed for seed, first in enumerate(firsts) if first))
    skipping.zero_grad()
    skipping(samples(), SAMPLE_LENGTHS)[0].sum().backward()
    for name, weights in skipping.encoder.encoder.transformer.layers[0].named_parameters():
        assert weights.grad is not None
        assert "rel_attn_embed" in name or not weights.grad.any()  # all layers share the embedding of distances

"""Every model through conf/: padding, lengths, sizes, gradients; and DeepSpeech2 in the size of the thesis."""

import math

import pytest
import torch
from omegaconf import OmegaConf
from torch import nn

from asr_ablations.config import build
from asr_ablations.model.ds2 import CEILING, Convolution
from support import another, component, compose, group_options, knobs

OUTPUTS = 29
LENGTHS = torch.tensor([50, 0, 1, 33, 7])
SMALL = ("width=8", "layers=2")
BINS = {name: component("features", name).size for name in group_options("features")}

every_model = pytest.mark.parametrize("name", group_options("model"))
every_input = pytest.mark.parametrize("bins", BINS.values(), ids=BINS.keys())


def model(*overrides: str, bins: int = 80) -> nn.Module:
    """With fixed weights."""
    torch.manual_seed(0)
    cfg = compose(*overrides)
    built: nn.Module = build(cfg.model, features=bins, outputs=OUTPUTS, rnn=build(cfg.rnn), norm=build(cfg.norm))
    return built


def features(bins: int = 80, lengths: torch.Tensor = LENGTHS) -> torch.Tensor:
    """(B, T, F), zeros past the lengths."""
    x = torch.randn(len(lengths), int(lengths.max()), bins, generator=torch.Generator().manual_seed(1))
    return x * (torch.arange(x.shape[1]) < lengths[:, None])[..., None]


def trained(network: nn.Module, bins: int = 80) -> nn.Module:
    """In evaluation mode, with running statistics that are not 0 and 1."""
    network.train()(features(bins), LENGTHS)
    return network.eval()


def time_stride(network: nn.Module) -> int:
    return math.prod(m.stride[0] for m in network.modules() if isinstance(m, nn.Conv2d))


@every_model
@every_input
@pytest.mark.parametrize("norm", group_options("norm"))
def test_evaluation_alone_is_as_in_a_batch(name: str, bins: int, norm: str) -> None:
    network, x = trained(model(f"model={name}", f"norm={norm}", *SMALL, bins=bins), bins), features(bins)
    together, lengths = network(x, LENGTHS)
    for row, length in enumerate(LENGTHS.tolist()):
        if not length:
            continue
        alone, count = network(x[row : row + 1, :length], LENGTHS[row : row + 1])
        assert count.tolist() == [lengths[row]] == [alone.shape[1]]
        torch.testing.assert_close(together[row, : lengths[row]], alone[0], atol=1e-4, rtol=0)


@every_model
@pytest.mark.parametrize("rnn", group_options("rnn"))
@pytest.mark.parametrize("bidirectional", [True, False])
def test_every_layer_fits_every_model(name: str, rnn: str, bidirectional: bool) -> None:
    """The first output hears of the last frames, which no convolution reaches, in two directions only."""
    network = trained(model(f"model={name}", f"rnn={rnn}", f"model.bidirectional={bidirectional}", *SMALL))
    lengths = torch.tensor([40])
    x, changed = features(lengths=lengths), features(lengths=lengths)
    changed[0, 20:] += 1.0
    difference = (network(changed, lengths)[0] - network(x, lengths)[0])[0].abs().sum(dim=-1)
    assert difference[-1] > 0
    assert bool(difference[0] > 0) == bidirectional


@every_model
def test_output_lengths_are_the_frames_over_the_stride(name: str) -> None:
    network = model(f"model={name}", *SMALL)
    lengths = torch.arange(60)
    expected = [-(-n // time_stride(network)) for n in lengths.tolist()]
    assert network.output_lengths(lengths).tolist() == expected
    for length in (1, 2, 3, 4, 5, 59):
        logits, count = network(features(lengths=torch.tensor([length])), torch.tensor([length]))
        assert logits.shape == (1, expected[length], OUTPUTS)
        assert count.tolist() == [expected[length]]


@every_model
@every_input
def test_gradients_are_finite_and_reach_every_parameter(name: str, bins: int) -> None:
    network = model(f"model={name}", *SMALL, bins=bins).train()
    logits, lengths = network(features(bins), LENGTHS)
    valid = (torch.arange(logits.shape[1]) < lengths[:, None])[..., None]
    (logits.log_softmax(dim=-1)[..., :3] * valid).sum().backward()
    for parameter_name, parameter in network.named_parameters():
        assert parameter.grad is not None, parameter_name
        assert torch.isfinite(parameter.grad).all(), parameter_name
        assert parameter.grad.abs().sum() > 0, parameter_name


@every_model
def test_padding_reaches_no_parameters_gradient(name: str) -> None:
    """A batch as long as it must be, and the same with 40 more frames of zeros, give the same gradients."""
    found = []
    for more in (0, 40):
        network = model(f"model={name}", "dropout=0", *SMALL).train()
        x = nn.functional.pad(features(), (0, 0, 0, more))
        logits, lengths = network(x, LENGTHS)
        valid = (torch.arange(logits.shape[1]) < lengths[:, None])[..., None]
        (logits.log_softmax(dim=-1)[..., :3] * valid).sum().backward()
        found.append([p.grad for p in network.parameters()])
    torch.testing.assert_close(found[0], found[1], atol=1e-4, rtol=1e-4)


@every_model
def test_a_batch_without_a_frame_has_no_output(name: str) -> None:
    """Recordings shorter than a window: no frames, no text, no crash."""
    logits, lengths = trained(model(f"model={name}", *SMALL))(torch.zeros(2, 0, 80), torch.tensor([0, 0]))
    assert lengths.tolist() == [0, 0]
    assert (len(logits), logits.shape[-1]) == (2, OUTPUTS)
    assert torch.isfinite(logits).all()


@every_model
@pytest.mark.parametrize(("dropout", "noisy"), [(0.0, False), (0.5, True)])
def test_dropout_is_alive_in_training_and_off_in_evaluation(name: str, dropout: float, noisy: bool) -> None:
    network = model(f"model={name}", f"dropout={dropout}", "layers=1", "width=8")
    for training in (True, False):
        network.train(training)
        first, second = (network(features(), LENGTHS)[0] for _ in range(2))
        assert torch.equal(first, second) == (not (noisy and training))


@pytest.mark.parametrize(("name", "key"), knobs("model"))
def test_no_dead_knobs(name: str, key: str) -> None:
    """Another number in the yaml is another shape of weights or another output in training."""
    cfg = compose(f"model={name}", *SMALL)
    value = another(OmegaConf.select(cfg.model, key))
    value = value | 1 if "kernel" in key else value  # kernels have a middle
    results = []
    for change in (None, value):
        if change is not None:
            OmegaConf.update(cfg.model, key, change)
        torch.manual_seed(0)
        network = build(cfg.model, features=80, outputs=OUTPUTS, rnn=build(cfg.rnn), norm=build(cfg.norm))
        logits, _ = network.train()(features(), LENGTHS)
        results.append((logits.shape, [p.shape for p in network.parameters()], logits.detach().flatten().tolist()))
    assert results[0] != results[1]


def test_even_kernels_are_refused() -> None:
    with pytest.raises(ValueError, match=r"kernel \[4, 3\]"):
        Convolution(1, 2, [4, 3], [1, 1], component("norm", "none"))


def test_the_rectifier_is_clipped_at_20() -> None:
    """papers/003 §1.2: σ(x) = min(max(x, 0), 20)."""
    convolution = Convolution(1, 4, [3, 3], [1, 1], component("norm", "none"))
    x = torch.randn(2, 9, 5, 1, generator=torch.Generator().manual_seed(2))
    for scale, highest in ((1e4, 20.0), (0.1, None)):
        y, _ = convolution(x * scale, torch.tensor([9, 9]))
        plain = convolution.convolve((x * scale).permute(0, 3, 1, 2)).permute(0, 2, 3, 1)
        torch.testing.assert_close(y, plain.clamp(0, 20))
        assert highest is None or y.max() == highest == CEILING


def thesis(bins: int) -> nn.Module:
    """conf/model/ds2.yaml as it stands, with a GRU and batch norm, and no memory behind it."""
    with torch.device("meta"):
        return model("model=ds2", "rnn=gru", bins=bins)


def test_ds2_has_the_kernels_and_layers_of_the_thesis() -> None:
    """papers/003 chapter 1: kernels 41 × 11 and 21 × 11 (frequency × time), 5 bidirectional layers of 800 units."""
    network = thesis(161)
    convolutions = [m for m in network.modules() if isinstance(m, nn.Conv2d)]
    assert [c.kernel_size[::-1] for c in convolutions] == [(41, 11), (21, 11)]
    assert [c.out_channels for c in convolutions] == [32, 32]
    cells = [m for m in network.modules() if isinstance(m, nn.RNNBase)]
    assert [(c.hidden_size, c.bidirectional) for c in cells] == [(800, False)] * 10
    assert time_stride(network) == 2


@pytest.mark.parametrize(("bins", "left"), [(161, 41), (80, 20)])
def test_ds2_has_as_many_parameters_as_counted_by_hand(bins: int, left: int) -> None:
    """Frequencies are halved twice, rounding up: 161 → 81 → 41. A GRU has 3 gates, each with two biases."""
    convolutions = 32 * (1 * 41 * 11 + 1) + 32 * (32 * 21 * 11 + 1)
    norms = 2 * (32 + 32 + 5 * 800)
    directions = 2 * 3 * (800 * (32 * left + 800 + 2)) + 4 * 2 * 3 * (800 * (800 + 800 + 2))
    output = (800 + 1) * 29
    assert sum(p.numel() for p in thesis(bins).parameters()) == convolutions + norms + directions + output

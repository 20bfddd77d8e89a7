"""The drawing of a model: shapes and parameters against the model itself, and a model that is left as it was."""

import re

import pytest
import torch
from torch import nn

from asr_ablations.config.build import build
from asr_ablations.training.model_summary import drawing
from tests.helpers.support import compose, group_options


def model(*overrides: str) -> nn.Module:
    torch.manual_seed(0)
    cfg = compose(*overrides)
    built: nn.Module = build(cfg.model, features=40, outputs=29, rnn=build(cfg.rnn), norm=build(cfg.norm))
    return built


def lines(text: str) -> list[list[str]]:
    """The cells of each line: at least two spaces stand between them."""
    return [re.split(r" {2,}", line.strip()) for line in text.splitlines()]


def test_a_small_model_line_by_line() -> None:
    """Parameters counted by hand: 11 · 11 · 16 + 16 of the first convolution, 2 · 16 of its norm, and so on."""
    network = model(
        "model=tiny", "rnn=rnn", "width=10", "layers=1", "model.fully_connected=2", "norm=batch_convolutions"
    )
    text = drawing(network, 40)
    first, second, recurrent = 11 * 11 * 16 + 16, 16 * 7 * 5 * 32 + 32, 10 * 320 + 10 * 10 + 2 * 10
    assert lines(text) == [
        ["features", "(B, T, 40)"],
        ["convolutions.0", "PaddedConvolution", "(B, T/2, 20, 16)", f"{first + 32:,}"],
        ["convolve", "Convolution", "(B, 16, T/2, 20)", f"{first:,}"],
        ["norm", "BatchNorm", "(B, T/2, 20, 16)", "32"],
        ["convolutions.1", "PaddedConvolution", "(B, T/4, 10, 32)", f"{second + 64:,}"],
        ["convolve", "Convolution", "(B, 32, T/4, 10)", f"{second:,}"],
        ["norm", "BatchNorm", "(B, T/4, 10, 32)", "64"],
        ["dropouts.0", "Dropout", "(B, T/4, 320)"],
        ["recurrent.0", "Directions", "(B, T/4, 10)", f"{2 * recurrent:,}"],
        ["forwards", "RNN", "(B, T/4, 10)", f"{recurrent:,}"],
        ["cell", "RNN", "(B, T/4, 10)", f"{recurrent:,}"],
        ["backwards", "RNN", "(B, T/4, 10)", f"{recurrent:,}"],
        ["cell", "RNN", "(B, T/4, 10)", f"{recurrent:,}"],
        ["norms.0", "NoNorm", "(B, T/4, 10)"],
        ["dropouts.1", "Dropout", "(B, T/4, 10)"],
        ["connected.0", "FullyConnected", "(B, T/4, 10)", "110"],
        ["product", "Linear", "(B, T/4, 10)", "110"],
        ["norm", "NoNorm", "(B, T/4, 10)"],
        ["dropout", "Dropout", "(B, T/4, 10)"],
        ["output", "Linear", "(B, T/4, 29)", f"{10 * 29 + 29:,}"],
        ["DeepSpeech2", "(B, T/4, 29)", f"{first + 32 + second + 64 + 2 * recurrent + 110 + 319:,}"],
    ]


@pytest.mark.parametrize("name", group_options("model"))
@pytest.mark.parametrize("rnn", group_options("rnn"))
def test_every_model_adds_up_and_stays_as_it_was(name: str, rnn: str) -> None:
    """Its outermost layers hold all parameters; neither weights, statistics, the random state nor hooks change."""
    network = model(f"model={name}", f"rnn={rnn}", "width=8", "layers=2", "norm=batch").train()
    before = {key: value.clone() for key, value in network.state_dict().items()}
    state = torch.get_rng_state()
    text = drawing(network, 40)
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(value, before[key]) for key, value in network.state_dict().items())
    assert all(part.training and not part._forward_hooks and not part._forward_pre_hooks for part in network.modules())
    counts = [cells[-1] for cells, line in zip(lines(text), text.splitlines(), strict=True) if line[0] != " "]
    *layers, total = [int(count.replace(",", "")) for count in counts if not count.endswith(")")]
    assert sum(layers) == total == sum(p.numel() for p in network.parameters())


def test_a_drawing_can_be_read_by_a_person() -> None:
    """Columns stand below each other, numbers end at one place."""
    text = drawing(model("model=tiny", "width=8"), 40).splitlines()
    starts = {line.index("(B") for line in text}
    ends = {len(line) for line in text if not line.endswith(")")}
    assert len(starts) == len(ends) == 1

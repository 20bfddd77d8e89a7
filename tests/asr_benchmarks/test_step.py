"""benchmark=step: the port is the same model, and the formula counts what torch counts."""

import runpy
from typing import Any

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from asr_ablations.config.build import build
from asr_benchmarks.project.parts import training_flops
from asr_benchmarks.project.port import PortedDeepSpeech2
from asr_benchmarks.project.step import update
from tests.helpers.support import compose, shared_tool

OUTPUTS = 29


def model(*overrides: str, bins: int = 40) -> Any:
    torch.manual_seed(0)
    cfg = compose(*overrides)
    return build(cfg.model, features=bins, outputs=OUTPUTS, rnn=build(cfg.rnn), norm=build(cfg.norm))


def counted(network: Any, bins: int, frames: int) -> float:
    """What torch counts of the parts of a training step of one utterance, on `meta`: on a CPU it sees nothing of
    nn.LSTM. The features need no gradient.
    """
    total, size, first = 0.0, bins, True
    for part in network.convolutions:
        shape = (frames, size) if part.convolve.weight.dim() == 4 else (frames,)
        total += _counted(part.convolve, (1, part.convolve.in_channels, *shape), gradient=not first)
        frames, size, first = int(part.output_lengths(torch.tensor(frames))), part.bins, False
    for layer in network.recurrent:
        for direction in (layer.forwards, layer.backwards):
            if direction is not None:
                total += _counted(direction.cell, (1, frames, direction.cell.input_size), gradient=True)
    for layer in network.connected:
        total += _counted(layer.product, (1, frames, layer.product.in_features), gradient=True)
    return total + _counted(network.output, (1, frames, network.output.in_features), gradient=True)


def _counted(part: torch.nn.Module, shape: tuple[int, ...], gradient: bool) -> float:
    with FlopCounterMode(display=False) as counter:
        outputs = part.to("meta")(torch.empty(shape, device="meta", requires_grad=gradient))
        (outputs[0] if isinstance(outputs, tuple) else outputs).sum().backward()
    return float(counter.get_total_flops())


@pytest.mark.parametrize("rnn", ["lstm", "gru", "rnn"])
def test_the_port_gives_the_models_numbers_and_gradients_where_nothing_is_padded(rnn: str) -> None:
    network = model(f"rnn={rnn}", "width=8", "layers=2", "dropout=0").train()
    port = PortedDeepSpeech2(network).train()
    x, lengths = torch.randn(3, 40, 40), torch.tensor([40, 40, 40])
    (ours, frames), (theirs, others) = network(x, lengths), port(x, lengths)
    assert frames.tolist() == others.tolist()
    torch.testing.assert_close(ours, theirs, atol=1e-4, rtol=1e-4)
    for logits in (ours, theirs):
        logits.square().mean().backward()
    mine, its = network.output.weight.grad, port.output.weight.grad
    torch.testing.assert_close(mine, its, atol=1e-4, rtol=1e-3)
    first = port.recurrent[0].weight_hh_l0_reverse.grad
    torch.testing.assert_close(network.recurrent[0].backwards.cell.weight_hh_l0.grad, first, atol=1e-4, rtol=1e-2)


def test_the_port_masks_the_same_frames_of_a_padded_batch() -> None:
    network = model("width=8", "layers=1", "dropout=0").eval()
    lengths = torch.tensor([40, 21, 9])
    x = torch.randn(3, 40, 40) * (torch.arange(40) < lengths[:, None])[..., None]
    (ours, frames), (theirs, _) = network(x, lengths), PortedDeepSpeech2(network).eval()(x, lengths)
    for row, count in enumerate(frames.tolist()):
        torch.testing.assert_close(ours[row, :count], theirs[row, :count], atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize(
    "change", ["norm=layer", "rnn=min_gru", "model.directions=concat", "model.fully_connected=2", "model=itu"]
)
def test_there_is_no_port_of_what_it_has_not(change: str) -> None:
    with pytest.raises(ValueError, match="norm=batch"):
        PortedDeepSpeech2(model(change, "width=8", "layers=1"))


@pytest.mark.parametrize("rnn", ["lstm", "gru", "rnn"])
@pytest.mark.parametrize(("name", "bins"), [("tiny", 40), ("ds2", 161), ("itu", 93)])
def test_the_formula_counts_what_torch_counts(rnn: str, name: str, bins: int) -> None:
    network = model(f"model={name}", f"rnn={rnn}", "dropout=0", "model.fully_connected=2", bins=bins)
    frames = 100
    expected = training_flops(network, torch.tensor([frames]))
    # the state before the first frame is 0 and needs no gradient: a product less for each recurrence
    first = sum(2 * cell.weight_hh_l0.numel() for cell in network.modules() if isinstance(cell, torch.nn.RNNBase))
    assert counted(network, bins, frames) == pytest.approx(expected - first, rel=1e-9)


@pytest.mark.parametrize(("rnn", "bins"), [("lstm", 161), ("lstm", 80), ("gru", 80)])
def test_the_formula_agrees_with_an_independent_one(rnn: str, bins: int) -> None:
    """19.5, 16.6 and 12.8 GFLOP a second of audio, counted by hand for model=ds2."""
    second = runpy.run_path(str(shared_tool("flops.py")))["ds2"](bins=bins, cell=rnn)["train"]
    flops = training_flops(model("model=ds2", f"rnn={rnn}", bins=bins), torch.tensor([6000])) / 60
    assert flops / 1e9 == pytest.approx(second, rel=0.01)


def test_a_scaled_loss_takes_the_same_step() -> None:
    """The scale is a power of 2, which rounds nothing; `treat` sees the gradients without it."""
    after = []
    for scaler in (None, torch.amp.GradScaler("cpu", init_scale=1024.0)):
        weights = torch.nn.Parameter(torch.tensor([1.0, -2.0, 3.0]))
        optimizer = torch.optim.Adam([weights], lr=0.1)
        seen: list[list[float]] = []
        update(weights.square().sum(), optimizer, lambda w=weights, s=seen: s.append(w.grad.tolist()), scaler)
        assert seen == [[2.0, -4.0, 6.0]]
        after.append(weights.detach().clone())
    assert torch.equal(*after)

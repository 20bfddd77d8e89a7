"""The benchmarks of this project's own speed: a step, the peer's operations, the cost of the utilisation meter."""

import runpy
from typing import Any

import numpy as np
import pytest
import soundfile
import torch

from asr_ablations.config.build import build
from asr_ablations.data.alphabet import Letters
from asr_ablations.data.utterances import Utterance
from asr_benchmarks.project import loop
from asr_benchmarks.project.port import PortData, PortedDeepSpeech2, port_loader
from asr_benchmarks.project.step import count_training_flops
from asr_benchmarks.project.training import update
from tests.helpers.support import component, compose, shared_tool

OUTPUTS = 29


def model(*overrides: str, bins: int = 40) -> Any:
    torch.manual_seed(0)
    cfg = compose(*overrides)
    return build(cfg.model, features=bins, outputs=OUTPUTS, rnn=build(cfg.rnn), norm=build(cfg.norm))


@pytest.mark.parametrize("rnn", ["lstm", "gru"])
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


def test_there_is_no_port_of_what_it_has_not() -> None:
    with pytest.raises(ValueError, match="norm=batch"):
        PortedDeepSpeech2(model("rnn=min_gru", "width=8", "layers=1"))


@pytest.mark.parametrize(("rnn", "bins"), [("lstm", 161), ("gru", 80)])
def test_the_formula_agrees_with_an_independent_one(rnn: str, bins: int) -> None:
    """19.5 and 12.8 GFLOP a second of audio, counted by hand for model=ds2."""
    second = runpy.run_path(str(shared_tool("flops.py")))["ds2"](bins=bins, cell=rnn)["train"]
    flops = count_training_flops(model("model=ds2", f"rnn={rnn}", bins=bins), torch.tensor([6000])) / 60
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


ALPHABET = Letters("abc ")


def test_features_are_those_of_each_utterance_alone_normalised_as_a_whole(tmp_path):
    random = np.random.default_rng(0)
    lengths, texts = [16000, 8000, 12000], ["ab", "c", "a b c"]
    utterances, sounds = [], []
    for number, (length, text) in enumerate(zip(lengths, texts, strict=True)):
        sound = (3000 * random.standard_normal(length)).astype(np.int16)
        path = tmp_path / f"{number}.flac"
        soundfile.write(path, sound, 16000)
        utterances.append(Utterance(str(number), "one", path, 0.0, length / 16000, text))
        sounds.append(sound)
    features = component("features", "spectrogram")
    (first, second) = port_loader(PortData(utterances, ALPHABET, features), [[0, 1], [2]], workers=0)
    assert first.features.shape[:2] == (2, int(features.frames(torch.tensor([16000]))[0]))
    assert first.targets.tolist() == ALPHABET.encode("ab") + ALPHABET.encode("c")
    assert [*first.target_lengths.tolist(), *second.target_lengths.tolist()] == [2, 1, 5]
    for batch, row, number in ((first, 0, 0), (first, 1, 1), (second, 0, 2)):
        alone, frames = features(
            torch.from_numpy(sounds[number]).float()[None] / 32768, torch.tensor([lengths[number]])
        )
        expected = (alone[0] - alone[0].mean()) / alone[0].std()
        assert int(batch.lengths[row]) == int(frames[0])
        torch.testing.assert_close(batch.features[row, : int(frames[0])], expected)
        assert batch.features[row, int(frames[0]) :].abs().sum() == 0


def test_the_interval_holds_the_median_in_95_percent() -> None:
    """Holds for noise with heavy tails; 2000 trials measure the share with a standard error of 0.5 points."""
    pairs, generator = 6, np.random.default_rng(6)
    hits = 0
    for _ in range(2000):
        interval = loop.estimate_ratio(np.exp(0.05 * generator.standard_t(2, pairs)).tolist(), [1.0] * pairs)
        hits += interval["ratio_low"] <= 1 <= interval["ratio_high"]
    assert hits / 2000 >= 0.94

"""The benchmarks of a platform, of scaling over GPUs, and of this project's own speed."""

import csv
import runpy
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import soundfile
import torch

from asr_ablations.config.build import build
from asr_ablations.data.alphabet import Letters
from asr_ablations.data.utterances import Utterance
from asr_ablations.runs.layout import UTILISATION
from asr_ablations.runs.metrics_files import COLUMNS
from asr_ablations.runs.records import read_run
from asr_ablations.tools.machine import cores
from asr_benchmarks.platform import tables as platform_tables
from asr_benchmarks.platform.platform import platform
from asr_benchmarks.project import loop
from asr_benchmarks.project.port import PortData, PortedDeepSpeech2, port_loader
from asr_benchmarks.project.step import count_training_flops
from asr_benchmarks.project.training import update
from asr_benchmarks.scaling.scaling import Point, build_row, choose_counts, scaling
from asr_verdicts.errors import UsageError
from tests.helpers.run_folders import write_run
from tests.helpers.support import component, compose, shared_tool


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("targets", {"ser": [0.1]}, r"targets=ser: expected wer, cer, cer_longer"),
        ("beam_widths", [2, 2], r"beam_widths=\[2, 2\]: expected different whole numbers"),
        ("price", {"chassis": 1}, r"price=chassis: expected total, gpus, cpus"),
    ],
)
def test_a_wrong_value_is_one_line(option, value, message):
    options = {
        "minutes": 1.0, "targets": {"wer": [0.2], "cer": []}, "beam_widths": [2], "utterances": 1, "repeats": 1,
        "decoder": None, "price": {"total": None}, option: value,
    }  # fmt: skip
    with pytest.raises(UsageError, match=rf"benchmark\.{message}"):
        platform(compose(), **options)


@pytest.fixture
def run(tmp_path):
    """Four epochs of 10 s: WER 60, 30, 20, 10 %, CER a third of it; a sample a second, 100 W."""
    folder = write_run(tmp_path, "hardware.price_per_hour=3.6", curve=[0.6, 0.3, 0.2, 0.1])
    rows = [
        {"seconds": s, "phase": "validate" if s % 10 == 0 else "train", "cpu_percent": 0 if s % 10 == 0 else 50,
         "host_memory_gib": 2, "gpu_percent": 80, "gpu_power_watts": 100, "audio_hours": 0.05 * s,
         "gpu_percents": "70 90"}
        for s in range(1, 41)
    ]  # fmt: skip
    with (folder / UTILISATION).open("w", newline="") as file:
        table = csv.DictWriter(file, COLUMNS)
        table.writeheader()
        table.writerows(rows)
    record = read_run(folder)
    summary = {"audio_hours_seen": 2.0, "audio_hours_per_second": 0.0625, "train_hours": 0.5, "train_utterances": 360}
    phases = {"phase_seconds": {"train": 32.0, "validate": 8.0}, "seconds": {"train": 40.0, "evaluate": 1.0}}
    whole = summary | phases | {"peak_memory_bytes": 2**30, "parameters": 7, "epochs": 4}
    return replace(record, summary=replace(record.summary, **whole))


def test_throughput_is_that_of_the_steps_and_of_everything(run):
    steps, everything = platform_tables.list_throughput(run)
    assert steps == {"part": "training steps", "R": 0.0625, "times real time": 225.0, "utterances/s": 45.0}
    assert everything == {"part": "with validations", "R": 0.05, "times real time": 180.0, "utterances/s": 36.0}


def test_utilisation_phases_and_energy(run):
    cpu, memory, gpu, gpu_memory, power = platform_tables.list_utilisation(run)
    assert cpu == {"mean": "CPU %", "training steps": 50.0, "whole run": 45.0}
    assert (memory["whole run"], gpu["whole run"], gpu_memory["whole run"], power["whole run"]) == (2, 80, None, 100)
    assert [row["share %"] for row in platform_tables.list_phases(run)] == [80.0, 20.0]
    # from the first sample to the last
    assert platform_tables.list_figures(run)["GPU kWh"] == pytest.approx(39 * 100 / 3.6e6)


def test_time_to_accuracy_is_kept_over_three_validations(run):
    kept, missed, characters = platform_tables.list_times_to_accuracy(run, {"wer": [0.3, 0.15], "cer_longer": [0.1]})
    assert kept == {
        "rate": "WER", "target %": "30", "minutes": 0.5, "epochs trained": 3.0, "hours of audio": 1.5,
        "GPU kWh": pytest.approx(29 * 100 / 3.6e6), "cost": pytest.approx(0.03),
    }  # fmt: skip
    assert (missed["target %"], missed["minutes"], missed["cost"]) == ("15", None, None)
    assert (characters["rate"], characters["minutes"]) == ("CER (longer)", 0.5)


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("ranks", [2, 4], "including 1"),
        ("total", 3, r"a multiple of each number of ranks, 1, 2"),
        ("warmup", 0, "1 or more, because the first step"),
    ],
)  # fmt: skip
def test_scaling_a_wrong_value_is_one_line(option, value, message):
    keys = {"ranks": [1, 2], "batch": 4, "total": 4, "steps": 1, "warmup": 1, "repeats": 1, "threads": 1}
    with pytest.raises(UsageError, match=rf"benchmark\.{option}=.*: expected .*{message}"):
        scaling(compose("gpus=0"), **{**keys, option: value})


def test_ranks_double_up_to_what_there_is():
    assert choose_counts(compose("gpus=0", "ranks=5"), None, gpus=0) == [1, 2, 4]
    assert choose_counts(compose(), None, gpus=8) == [1, 2, 4, 8]
    assert choose_counts(compose("gpus=0"), None, gpus=0)[-1] <= cores()
    with pytest.raises(UsageError, match="at most the 2 GPUs"):
        choose_counts(compose(), [1, 4], gpus=2)


def test_efficiency_is_the_rate_over_so_many_times_that_of_one_rank():
    measured = [
        [(0.2, 1.0, 4.0, 2**20), (0.1, 2.0, 4.0, 2**20), (0.3, 3.0, 4.0, 2**20)], [(0.25, 3.0, 7.5, 2**21)]
    ]  # fmt: skip
    single, double = (
        Point(
            ranks,
            4,
            "",
            {"threads": 1},
            [dict(zip(("seconds", "R", "utterances", "peak"), row, strict=True)) for row in rows],
            None,
        )
        for ranks, rows in enumerate(measured, start=1)
    )
    row = build_row("weak", double, single)
    sizes = {"scaling": "weak", "ranks": 2, "batch per rank": 4, "total batch": 8}
    rates = {"ms per step": 250.0, "R": 3.0, "efficiency %": 75.0, "utterances per step": 7.5}
    assert row == {**sizes, **rates, "peak MiB per rank": 2.0}
    assert build_row("weak", single, single)["efficiency %"] == 100.0


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

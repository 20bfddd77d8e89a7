"""A comparison made by hand: three arms, three seeds, real audio, curves that fall as in training."""

import csv
import itertools
from dataclasses import replace
from pathlib import Path

import numpy as np
import soundfile

from asr_ablations.comparison.training_times import COLUMN
from asr_ablations.tools.typed_json import parse
from asr_verdicts.arms import Arm
from asr_verdicts.comparison import Comparison, compare
from asr_verdicts.design import Options
from asr_verdicts.error_counts import character_errors, word_errors
from asr_verdicts.record import DataRecord, Environment, Record, Records, Summary, Unfinished

ARMS = {"rnn=lstm": 0.20, "rnn=gru": 0.18, "rnn=rnn": 0.31}
WORDS = [
    "the", "north", "wind", "and", "sun", "were", "disputing", "which", "was", "stronger", "when", "a", "traveller",
    "came", "along", "wrapped", "in", "warm", "cloak",
]  # fmt: skip
EPOCHS, STEPS, UTTERANCES = 20, 40, 16
SETS = ("test-clean", "test-other")


def comparison(folder: Path, seeds: int = 3) -> Comparison:
    """The comparison of three arms, as a sweep file declares it; audio and utilisation lie under `folder`."""
    audio = [folder / "audio" / f"{number:02d}.flac" for number in range(UTTERANCES)]
    audio[0].parent.mkdir(parents=True, exist_ok=True)
    seconds = np.arange(3 * 16000) / 16000
    for number, path in enumerate(audio):
        tone = 0.2 * np.sin(2 * np.pi * (150 + 20 * number) * seconds) * np.sin(np.pi * seconds) ** 2
        soundfile.write(path, tone, 16000)
    each = itertools.product(ARMS.items(), range(seeds))
    runs = [_run(folder / f"{name}-{seed}", name, rate, seed, audio) for (name, rate), seed in each]
    failed = Unfinished(folder / "rnn=gru-9", "failed", "CUDA out of memory", runs[seeds].config, ["rnn=gru", "seed=9"])
    records = Records(runs, unfinished=[failed], warnings=["rnn=rnn, seed 2 ran on another processor than the others."])
    return compare(records, Options(targets=[0.6, 0.4, 0.25]), "rnn_type")


def scaled(whole: Comparison) -> Comparison:
    """The first arm on 1, 2 and 4 GPUs, in 1, 1/1.8 and 1/3 of the time."""
    arms = []
    for gpus, speed in {1: 1.0, 2: 1.8, 4: 3.0}.items():
        runs = []
        for run in whole.arms[0].runs:
            metrics = [{**row, COLUMN: value / speed} if (value := row.get(COLUMN)) else row for row in run.metrics]
            config = {**run.config, "gpus": gpus, "hardware": {"price_per_hour": 3.0 * gpus}}
            summary = replace(run.summary, audio_hours_per_second=speed * 0.03)
            runs.append(replace(run, config=config, metrics=metrics, summary=summary))
        arms.append(Arm(f"gpus={gpus}", runs))
    return replace(whole, arms=arms, design=replace(whole.design, baseline=arms[0]))


def _run(folder: Path, name: str, rate: float, seed: int, audio: list[Path]) -> Record:
    folder.mkdir(parents=True, exist_ok=True)
    generator = np.random.default_rng([seed, len(name), int(100 * rate)])
    speed = 1 + 0.2 * rate + 0.02 * seed
    metrics = [row for epoch in range(EPOCHS) for row in _epoch(epoch, rate, speed, generator)]
    utterances = [row for name_ in SETS for row in _utterances(name_, rate, audio, generator)]
    _samples(folder / "utilisation.csv", speed, generator)
    sets = {}
    for set_ in SETS:
        texts = [[str(row[key]) for row in utterances if row["set"] == set_] for key in ("reference", "hypothesis")]
        words = word_errors(*map(" . ".join, texts))
        sets[set_] = {"wer": words.rate, "cer": words.rate / 2.6, "words": words.total}
    summary = {
        "sets": sets, "test_sets": list(SETS), "epochs": EPOCHS, "steps": EPOCHS * STEPS, "parameters": 1_000_000,
        "audio_hours_per_second": 0.03 / speed, "train_batch_seconds": 80 * speed,
        "phase_seconds": {"setup": 1.0, "train": 80 * speed, "validate": 10.0, "checkpoint": 2.0, "evaluate": 5.0},
    }  # fmt: skip
    ablation = {
        "question": "Is a GRU as good as an LSTM, and how much worse is a plain RNN?",
        "source": "Ambroszczyk2019 §2.4, figure 2.3", "factor": "rnn", "baseline": "lstm", "claim": "left open",
    }  # fmt: skip
    data = {"root": str(audio[0].parent), "validation": ["dev-clean"], "test": list(SETS)}
    config = {
        "seed": seed, "gpus": 0, "precision": 32, "rnn": {"_target_": name}, "max_epochs": EPOCHS, "data": data,
        "ablation": ablation,
    }  # fmt: skip
    environment = {
        "command": ["src/train.py", "-m", "rnn=lstm,gru,rnn"], "versions": {"python": "3.11.2", "torch": "2.11.0"},
        "hardware": {"processor": "AMD EPYC", "cores": 2, "gpus": []},
        "code": {"commit": "3706529abc", "dirty_diff": ""},
    }  # fmt: skip
    fingerprint = {"sets": {"train": {"utterances": 640, "hours": 2.0, "speakers": 20}}}
    return Record(
        folder, config, [name, f"seed={seed}"], parse(Summary, summary), metrics, utterances,
        parse(Environment, environment), parse(DataRecord, fingerprint),
    )  # fmt: skip


def _epoch(epoch: int, rate: float, speed: float, generator: np.random.Generator) -> list[dict[str, float | None]]:
    fallen = np.exp(-epoch / 5)
    noise = 1 + 0.03 * generator.standard_normal(4)
    step = (epoch + 1) * STEPS - 1
    wer = (rate + (1 - rate) * fallen) * noise[0]
    blank = dict.fromkeys(("train/loss_step", "train/loss_epoch", "validation/dev-clean/wer", "time/seconds"))
    loss_step = {**blank, "epoch": epoch, "train/loss_step": (0.2 + 2.5 * fallen) * noise[3]}
    within = [{**loss_step, "step": epoch * STEPS + k} for k in (9, 19, 29)]
    validated = {
        **blank, "epoch": epoch, "step": step, "validation/dev-clean/wer": wer, "validation/dev-clean/cer": wer / 2.6,
        "validation/dev-clean/loss": (0.4 * rate / 0.2 + 2.4 * fallen) * noise[1],
        "time/seconds": 4.5 * speed * (epoch + 1), "time/audio_hours": 2.0 * (epoch + 1),
    }  # fmt: skip
    trained = {
        **blank, "epoch": epoch, "step": step, "train/loss_epoch": (0.2 + 2.5 * fallen) * noise[2],
        "train/epoch_seconds": (6.0 if epoch == 0 else 4.0) * speed,
        "train/audio_hours_per_second": 0.03 / speed, "train/padding_percent": 6.0, "train/waiting_percent": 1.2,
    }  # fmt: skip
    return [*within, validated, trained]


def _utterances(name: str, rate: float, audio: list[Path], generator: np.random.Generator) -> list[dict[str, object]]:
    rows = []
    rate *= 1 if name == "test-clean" else 1.6
    for number in range(UTTERANCES):
        sentence = np.random.default_rng(number).choice(WORDS, 8 + number % 7)
        reference = [str(word) for word in sentence]
        hypothesis = []
        for word in reference:
            drawn = generator.random() / rate
            hypothesis.append(
                word if drawn > 1 else "" if drawn < 0.2 else f"{word} a" if drawn < 0.35 else f"{word[:-1]}ks"
            )
        texts = " ".join(reference), " ".join(word for word in hypothesis if word)
        words, characters = word_errors(*texts), character_errors(*texts)
        rows.append({
            "set": name, "id": f"{name}-{number:04d}", "speaker": str(1000 + number % 4), "reference": texts[0],
            "hypothesis": texts[1], "words": words.total, "substitutions": words.substitutions,
            "deletions": words.deletions, "insertions": words.insertions, "characters": characters.total,
            "character_substitutions": characters.substitutions, "character_deletions": characters.deletions,
            "character_insertions": characters.insertions, "audio": str(audio[number]), "offset": "0.0",
            "duration": "3.0",
        })  # fmt: skip
    return rows


def _samples(path: Path, speed: float, generator: np.random.Generator) -> None:
    with path.open("w", newline="") as file:
        table = csv.writer(file)
        file.write("seconds,phase,cpu_percent,host_memory_gib,disk_read_mib,gpu_percent,")
        file.write("gpu_memory_gib,gpu_power_watts,audio_hours,gpu_percents\n")
        for second in range(1, 100):
            phase = "evaluate" if second > 95 else "validate" if second % 5 == 0 else "train"
            cpu = 50 + 10 * generator.random() if phase == "train" else 90 * generator.random()
            gpu = 80 + 15 * generator.random() if phase == "train" else 20
            trained = round(0.02 * second / speed, 4)
            per_gpu = f"{gpu + 4:.1f} {gpu - 4:.1f}"
            table.writerow([second, phase, round(cpu, 1), 1.2, 0, round(gpu, 1), 9.5, 250 + gpu, trained, per_gpu])

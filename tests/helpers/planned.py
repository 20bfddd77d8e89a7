"""A comparison of a sweep with a plan, from invented runs: four arms that end better, equivalent, undecided, worse."""

from dataclasses import replace
from pathlib import Path

from asr_ablations.comparison.folders import lay_out
from asr_ablations.runs.sweep_history import arm_content
from asr_verdicts.comparison import Comparison, compare
from asr_verdicts.design import Options
from asr_verdicts.plan import PlannedArm, VerdictPlan
from asr_verdicts.record import Record
from tests.helpers.invented_records import config, diverged, record, records

RATES = {"lstm": 0.20, "gru": 0.10, "rnn": 0.203, "sru": 0.22, "fsmn": 0.35}
LOOKS = [3, 5, 8]
HOURS = 0.5
"""Of training, of every run that has ended."""
MARGIN = 0.03


def plan(names: list[str], looks: list[int] = LOOKS, margin: float = MARGIN) -> VerdictPlan:
    return VerdictPlan(
        arms=[
            PlannedArm({"rnn": name}, [f"rnn={name}"], arm_content(config(f"rnn={name}", 0), ["seed"]))
            for name in names
        ],
        baseline=f"rnn={names[0]}", metric="wer", set="test", contrasts=[f"rnn={name}" for name in names[1:]],
        margin=margin, alpha=0.05, seeds=list(range(looks[-1])), looks=looks, gamma=-1.0, robust=False, paired=False,
        hopeless=0.0, belongs=["seed"], made="2026-01-01T00:00:00Z",
    )  # fmt: skip


def run(name: str, seed: int, folder: Path | None = None) -> Record:
    """A run that took HOURS. folder: where it lies, if it lies anywhere."""
    noise = (0.03 if name == "sru" else 0.005) * (seed % 3 - 1)
    made = record(f"rnn={name}", seed, RATES[name] + noise)
    summary = replace(made.summary, seconds={"train": 3600 * HOURS})
    return replace(made, summary=summary, folder=made.folder if folder is None else folder / made.folder)


def planned(
    seeds: int = LOOKS[-1], *, names: list[str] | None = None, folder: Path | None = None, lost: int = 0
) -> Comparison:
    """So many runs of every arm; lost: how many of those of the last arm diverged."""
    names = names or [*RATES]
    runs = [
        diverged(f"rnn={name}", seed) if name == names[-1] and seed < lost else run(name, seed, folder)
        for name in names
        for seed in range(seeds)
    ]
    found = records(runs)
    return compare(found, Options(), "until", layout=lay_out(found, Options(), plan(names)))

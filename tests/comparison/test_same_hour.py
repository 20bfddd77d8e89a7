"""Times are compared only within an hour and a machine."""

from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path

from asr_ablations.comparison.folders import compare_folders
from asr_ablations.comparison.training_times import WARNING, ran_together
from asr_ablations.report.training_report import sections
from asr_verdicts.arms import Arm
from asr_verdicts.design import Options
from asr_verdicts.record import Environment, Hardware, Record
from tests.helpers.invented_records import record
from tests.helpers.run_folders import edit, write_sweep

NOON = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)


def run(arm: str, seed: int, minutes: float | None, cores: int = 2) -> Record:
    started = None if minutes is None else (NOON + timedelta(minutes=minutes)).isoformat(timespec="seconds")
    return replace(record(arm, seed, 0.2), environment=Environment(started=started, hardware=Hardware(cores=cores)))


def test_each_run_has_one_of_every_other_arm_beside_it_on_one_machine() -> None:
    for lstm, gru, together in (
        ([0, 200], [30, 230], True),  # a pair in each of two hours
        ([0, 10], [70, 80], False),
        ([0, 200], [30, 40], False),  # the second run of one arm has nothing beside it
        ([0, 10], [None, None], True),  # a record that does not say when
    ):
        arms = [
            Arm("lstm", [run("rnn=lstm", seed, minutes) for seed, minutes in enumerate(lstm)]),
            Arm("gru", [run("rnn=gru", seed, minutes) for seed, minutes in enumerate(gru)]),  # type: ignore[arg-type]
        ]
        assert ran_together(arms) is together
        assert ran_together(arms[:1])
    assert not ran_together([Arm("lstm", [run("rnn=lstm", 0, 0)]), Arm("gru", [run("rnn=gru", 0, 1, cores=8)])])


def test_no_table_holds_times_of_different_hours_against_each_other(tmp_path: Path) -> None:
    sweep = write_sweep(tmp_path, {"rnn=lstm": 0.1, "rnn=gru": 0.3}, seeds=2)

    def table(heading: str, column: str) -> tuple[list[str], list[str]]:
        shown = sections(compare_folders([sweep], Options(targets=[0.5], baseline="lstm")))
        (section,) = [one for one in shown if one.heading.startswith(heading)]
        return [row[section.head.index(column)] for row in section.rows], section.lines

    for together in (True, False):
        seconds, lines = table("Training", "train s")
        assert ("–" in seconds, lines) == (not together, [] if together else [f"train s: {WARNING}."])
        ratios, lines = table("Until the median", "time / rnn=lstm")
        assert (ratios == ["–", "–"], lines) == (not together, [] if together else [f"time /: {WARNING}."])
        assert "–" not in table("Until the median", "seconds")[0]
        budgets, _ = table("At equal cost", "after")
        assert any(budget.endswith("seconds") for budget in budgets) is together
        assert any(budget.endswith("steps") for budget in budgets)
        for folder in sweep.glob("*gru*"):
            edit(folder / "environment.json", r'"started": "[^"]*"', '"started": "2020-01-01T00:00:00+00:00"')

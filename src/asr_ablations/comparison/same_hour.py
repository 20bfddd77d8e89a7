"""Whether the times of arms can be compared: runs of one arm have to lie beside the others', in the same hour and on
the same machine. What else a machine does changes a time by far more than most choices do.
"""

from collections.abc import Sequence
from datetime import datetime

from asr_verdicts.arms import Arm
from asr_verdicts.record import Record

HOUR = 3600.0
"""Seconds between the starts of two runs whose times are compared, at most."""
WARNING = "runs of the arms are not of the same hour and machine: their times are not compared"


def of_one_hour(arms: Sequence[Arm]) -> bool:
    """True if every run has one of every other arm that started within an hour of it on the same kind of machine, or if
    the runs do not say when they started, as those of W&B.
    """
    runs = {arm.name: [run for run in arm.runs if run.environment.started] for arm in arms}
    return all(
        any(_beside(run, other) for other in others)
        for name, own in runs.items()
        for run in own
        for rest, others in runs.items()
        if rest != name and others
    )


def _beside(one: Record, other: Record) -> bool:
    if one.environment.resumed or other.environment.resumed:
        return False  # a run that was continued has two starts
    return abs(_start(one) - _start(other)) <= HOUR and _machine(one) == _machine(other)


def _start(run: Record) -> float:
    assert run.environment.started is not None
    return datetime.fromisoformat(run.environment.started).timestamp()


def _machine(run: Record) -> tuple[object, ...]:
    hardware = run.environment.hardware
    return hardware.processor, hardware.cores, hardware.threads, tuple(hardware.gpus)

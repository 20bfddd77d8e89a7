"""A table of what a sweep would cost on this machine. Every arm runs a few steps; nothing is trained."""

from collections.abc import Sequence
from pathlib import Path

from rich.progress import track
from rich.table import Table

from asr_ablations.runs.status import RESULTS, fate_of
from asr_ablations.sweep.arm import FrozenArm
from asr_ablations.sweep.cost import Cost
from asr_ablations.sweep.processes import in_subprocess
from asr_ablations.sweep.slots import Slots
from asr_ablations.sweep.terminal import what_varies
from asr_ablations.tools.machine import available_memory
from asr_ablations.tools.terminal import console


def show_plan(arms: Sequence[FrozenArm], slots: Slots) -> list[Cost | None]:
    """Print time, GPU hours, memory and disk per arm and in total. Returns the costs, None for arms that have ended."""
    ended = [fate_of(arm.folder).state in RESULTS for arm in arms]
    measured = iter(measure_arms([arm for arm, is_ended in zip(arms, ended, strict=True) if not is_ended], slots))
    costs = [None if is_ended else next(measured) for is_ended in ended]
    _print(arms, costs, slots)
    return costs


def measure_arms(arms: Sequence[FrozenArm], slots: Slots) -> list[Cost]:
    """The cost of each arm, from a few steps of it, one arm after the other."""
    threads = slots.threads(len(arms))
    return [
        in_subprocess(_measure, (arm.config, threads)) for arm in track(arms, description="measuring", transient=True)
    ]


def _measure(request: tuple[Path, int]) -> Cost:
    """Runs in a subprocess: torch is imported there, and not in the launcher."""
    from asr_ablations.sweep.measurement import measure

    return measure(*request)


def _print(arms: Sequence[FrozenArm], costs: Sequence[Cost | None], slots: Slots) -> None:
    terminal = console()
    table = Table(title="plan: nothing was trained", title_justify="left")
    for column in ("arm", "steps", "time", "GPU hours", "memory GiB", "disk MiB"):
        table.add_column(column, justify="left" if column == "arm" else "right", overflow="fold")
    for name, arm, cost in zip(what_varies([arm.overrides for arm in arms]), arms, costs, strict=True):
        table.add_row(name, *(_cells(cost) if cost else [fate_of(arm.folder).state, "", "", "", ""]))
    terminal.print(table)
    to_run = [cost for cost in costs if cost is not None]
    terminal.print(_total(to_run, len(arms), slots.jobs), soft_wrap=True)
    if (warning := memory_warning(to_run, slots.jobs, available_memory())) is not None:
        terminal.print(warning, soft_wrap=True)
    if to_run:
        terminal.print("measured with a few steps of each arm on this machine, one arm at a time", soft_wrap=True)


def _total(costs: Sequence[Cost], arms: int, jobs: int) -> str:
    """The costs of all arms that are still to run, in one line."""
    seconds, side_by_side = sum(cost.seconds for cost in costs), max(1, min(jobs, len(costs)))
    return (
        f"to run: {len(costs)} of {arms} arms, {_clock(seconds)} in total, {_clock(seconds / side_by_side)} with "
        f"{side_by_side} at a time; {sum(cost.speech for cost in costs):.3g} hours of speech; "
        f"{sum(cost.gpu_hours for cost in costs):.2f} GPU hours; "
        f"{sum(cost.disk for cost in costs) / 2**20:.0f} MiB of checkpoints"
    )


def memory_warning(costs: Sequence[Cost], jobs: int, free: int | None) -> str | None:
    """One line where the arms on a CPU that run at a time need more than the free bytes of memory; else None."""
    largest = sorted((cost.memory for cost in costs if not cost.gpus), reverse=True)
    if free is None or sum(largest[:jobs]) <= free:
        return None
    fitting = max(1, next(n for n in range(jobs) if sum(largest[: n + 1]) > free))
    return f"too little memory for so many at a time: hydra.launcher.jobs={fitting}"


def _cells(cost: Cost) -> list[str]:
    memory, disk = f"{cost.memory / 2**30:.2f}", f"{cost.disk / 2**20:.0f}"
    return [str(cost.steps), _clock(cost.seconds), f"{cost.gpu_hours:.2f}", memory, disk]


def _clock(seconds: float) -> str:
    """Hours:minutes:seconds."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02d}:{rest:02d}"

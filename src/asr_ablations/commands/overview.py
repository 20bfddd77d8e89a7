"""Show what outputs/ contains: the sweeps, the runs of a sweep on all machines, and how two runs differ."""

import argparse
import time
from collections import Counter
from pathlib import Path

from rich.table import Column, Table

from asr_ablations.commands.console import as_folder, exit_code
from asr_ablations.runs.layout import ARMS, CONFIG, SWEEP, is_run, runs_in
from asr_ablations.runs.reader import UnreadableFileError, read_config, read_standing, read_summary, recorded_id
from asr_ablations.runs.status import RESULTS, Fate, fate_of
from asr_ablations.sweep.live import ArmState, read_words, tabulate_states
from asr_ablations.tools.files import REPOSITORY, typed
from asr_verdicts.config import determining, flatten
from asr_verdicts.confounds import MISSING, value_text
from asr_verdicts.errors import UsageError
from asr_verdicts.record import NO_SUMMARY, Summary
from asr_verdicts.terminal import console

EVERY = 2.0
"""Seconds between updates with --follow."""


def list_sweeps(arguments: list[str] | None = None) -> int:
    options = list_parser().parse_args(arguments)
    return exit_code(lambda: _list(options.outputs))


def list_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="List the sweeps in a folder: runs, states, hours, verdicts so far.")
    parser.add_argument("outputs", nargs="?", type=Path, default=Path("outputs"), help="default: outputs")
    return parser


def list_sweep_files(arguments: list[str] | None = None) -> int:
    sweep_files_parser().parse_args(arguments)
    return exit_code(_list_sweep_files)


def sweep_files_parser() -> argparse.ArgumentParser:
    description = "List the sweep files in sweeps/ with their questions. train.py -m -cd sweeps -cn <name> runs one."
    return argparse.ArgumentParser(description=description)


def show_status(arguments: list[str] | None = None) -> int:
    options = status_parser().parse_args(arguments)
    return exit_code(lambda: _status(Path(options.sweep or _newest(Path("outputs"))), options.follow))


def status_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Show the state, epoch and remaining time of a sweep's runs.")
    help_ = "folder of a sweep, such as outputs/rnn_type; default: the newest sweep in outputs"
    parser.add_argument("sweep", nargs="?", type=as_folder, help=help_)
    parser.add_argument("--follow", action="store_true", help="update every two seconds until all runs have ended")
    return parser


def show_differences(arguments: list[str] | None = None) -> int:
    options = diff_parser().parse_args(arguments)
    return exit_code(lambda: _diff(Path(options.first), Path(options.second)))


def diff_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Show the keys in which two runs differ, and their error rates.")
    parser.add_argument("first", type=as_folder, help="folder of a run")
    parser.add_argument("second", type=as_folder, help="folder of another run")
    return parser


def _list_sweep_files() -> int:
    table = Table("sweep file", Column("question", overflow="fold"))
    for file in sorted((REPOSITORY / "sweeps").glob("*.yaml")):
        table.add_row(file.stem, file.read_text(encoding="utf-8").partition("\n")[0].lstrip("# "))
    console().print(table)
    print(f"to run one: {typed('train', '-m', '-cd', 'sweeps', '-cn')} <name>")
    return 0


def _list(outputs: Path) -> int:
    if not outputs.is_dir():
        raise UsageError(f"{outputs}: there is no such folder; a run or a sweep creates it")
    sweeps = sorted(path for path in outputs.iterdir() if path.is_dir() and ((path / SWEEP).exists() or runs_in(path)))
    if not sweeps:
        raise UsageError(f"{outputs}: contains no runs; expected a folder of sweeps, or {typed('status')} <sweep>")
    table = Table()
    for column in ("sweep", "runs", "states", "hours", "verdict so far"):
        table.add_column(column, justify="right" if column in ("runs", "hours") else "left", overflow="fold")
    for sweep in sweeps:
        folders = _runs(sweep)
        states = Counter(fate_of(folder).state for folder in folders)
        hours = sum(sum(_read_summary(folder).seconds.values()) for folder in folders) / 3600
        counts = ", ".join(f"{number} {_word(state)}" for state, number in sorted(states.items()))
        table.add_row(sweep.name, str(len(folders)), counts, f"{hours:.2f}", _verdict(sweep))
    terminal = console()
    terminal.print(table)
    terminal.print(f"to show the runs of a sweep: {typed('status', sweeps[0])}", soft_wrap=True)
    return 0


def _newest(outputs: Path) -> Path:
    """Return the folder of the sweep that was started last."""
    if not (manifests := list(outputs.glob(f"*/{SWEEP}"))):
        raise UsageError(f"{outputs}: contains no sweeps; {typed('train', '-m', 'rnn=lstm,gru')} starts one")
    return max(manifests, key=lambda manifest: manifest.stat().st_mtime).parent


def _runs(sweep: Path) -> list[Path]:
    """Return the folders of all runs of a sweep, including runs that have not started."""
    started = runs_in(sweep)
    ids = {recorded_id(folder) for folder in started}
    frozen = [sweep / file.stem for file in (sweep / ARMS).glob("*.yaml")]
    return sorted({*started, *(folder for folder in frozen if recorded_id(folder) not in ids)})


def _word(state: str) -> str:
    return "not started" if state == "missing" else state


def _read_summary(folder: Path) -> Summary:
    """Return the summary of a run, or an empty one if it has no result."""
    try:
        return read_summary(folder)
    except (FileNotFoundError, UnreadableFileError):
        return NO_SUMMARY


def _verdict(sweep: Path) -> str:
    """Return the state of each arm of a sweep with planned looks; empty for sweeps without planned looks."""
    try:
        arms = read_standing(sweep)["arms"]
    except (FileNotFoundError, UnreadableFileError):
        return ""
    return ", ".join(f"{arm} {state['state']}" for arm, state in arms.items())


def _status(sweep: Path, follow: bool) -> int:
    if is_run(sweep):
        raise UsageError(f"{sweep}: this is a run; expected the folder of its sweep, {sweep.parent}")
    if not sweep.is_dir() or not _runs(sweep):
        raise UsageError(f"{sweep}: holds no runs; {typed('ls')} lists the sweeps")
    terminal = console()
    while True:
        fates = {folder: fate_of(folder) for folder in _runs(sweep)}
        if follow and terminal.is_terminal:
            terminal.clear()
        terminal.print(tabulate_states([_describe(folder, fate) for folder, fate in fates.items()]))
        if not follow or not any(fate.state == "running" for fate in fates.values()):
            return 0
        time.sleep(EVERY)


def _describe(folder: Path, fate: Fate) -> ArmState:
    reason = fate.reason.removeprefix("still ").removeprefix(f"{fate.state}: ")
    is_plain = fate.state in RESULTS or fate.state == "missing"
    return ArmState(folder, read_words(folder), _word(fate.state), "" if is_plain else reason)


def _diff(first: Path, second: Path) -> int:
    for folder in (first, second):
        if not is_run(folder):
            raise UsageError(f"{folder}: not a run folder (it has no {CONFIG}); expected outputs/<sweep>/<run>")
    contents = [flatten(determining(read_config(folder))) for folder in (first, second)]
    table = Table(*(Column(name, overflow="fold") for name in ("", first.name, second.name)))
    for key in sorted({*contents[0], *contents[1]}):
        values = [content.get(key, MISSING) for content in contents]
        if values[0] != values[1]:
            table.add_row(key, *map(value_text, values))
    differing = table.row_count
    if differing:
        table.add_section()
    table.add_row("state", *(_word(fate_of(folder).state) for folder in (first, second)))
    rates = [{name: counts.wer for name, counts in _read_summary(folder).sets.items()} for folder in (first, second)]
    for name in dict.fromkeys([*rates[0], *rates[1]]):
        table.add_row(f"WER % on {name}", *(f"{100 * rate[name]:.2f}" if name in rate else "" for rate in rates))
    console().print(table)
    keys = "key differs" if differing == 1 else "keys differ"
    print(f"{differing} {keys}" if differing else "their configs are the same")
    return 0

"""Remove and rename runs and sweeps."""

import argparse
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from asr_ablations.commands.console import as_folder, exit_code
from asr_ablations.runs.layout import ARMS, CONFIG, KEPT_ASIDE, LEASES, SWEEP, is_run, runs_in
from asr_ablations.runs.lease import owner
from asr_ablations.runs.reader import recorded_id
from asr_verdicts.errors import UsageError, choices
from asr_verdicts.files import slug


def remove(arguments: list[str] | None = None) -> int:
    options = remove_parser().parse_args(arguments)
    return exit_code(lambda: _remove([Path(folder) for folder in options.folders], options.yes))


def remove_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Remove runs or sweeps, after showing what goes and asking.")
    parser.add_argument("folders", nargs="+", type=as_folder, help="folder of a run or of a sweep")
    parser.add_argument("--yes", action="store_true", help="do not ask")
    return parser


def rename(arguments: list[str] | None = None) -> int:
    options = rename_parser().parse_args(arguments)
    return exit_code(lambda: _rename(Path(options.folder), options.name))


def rename_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Rename a run or a sweep. The same command still finds the run.")
    parser.add_argument("folder", type=as_folder, help="folder of a run or of a sweep")
    parser.add_argument("name", help="new name of the folder, which stays where it is")
    return parser


def _remove(folders: list[Path], is_sure: bool) -> int:
    runs = {folder: _list_runs(folder) for folder in folders}
    links = [link for folder in folders for link in _find_links(folder) if not _lies_in(link, folders)]
    for folder in folders:
        counted = f"{len(runs[folder])} run{'s' * (len(runs[folder]) != 1)}, {_megabytes(folder):.0f} MB"
        logged = any((run / "wandb").exists() for run in runs[folder])
        print(f"{folder}: {counted}{'; W&B keeps its own copy' * logged}")
    for link in links:
        print(f"{link}: a link to one of these runs, which another sweep has taken over")
    if not is_sure:
        if not sys.stdin.isatty():
            raise UsageError("the input is not a terminal; --yes removes without asking")
        if input("remove them for good? [y/N] ").strip().lower() not in ("y", "yes"):
            print("nothing was removed")
            return 1
    for link in links:
        link.unlink()
    for folder in folders:
        frozen = (folder.parent / ARMS).glob(f"*-{recorded_id(folder)}.yaml")
        for file in () if KEPT_ASIDE.search(folder.name) else frozen:
            file.unlink()  # or the run would count as one that has not started
        if folder.is_symlink():
            folder.unlink()
        else:
            shutil.rmtree(folder)
        _forget_leases(folder)
    return 0


def _rename(folder: Path, name: str) -> int:
    _list_runs(folder)
    if name != slug(name):
        raise choices("name", name, f"letters, digits and . _ + -, such as {slug(name)}")
    target = folder.absolute().parent / name
    if target.exists():
        raise UsageError(f"{target}: is there already; expected a new name")
    links = list(_find_links(folder))
    pointed = [link.resolve().relative_to(folder.resolve()) for link in links]
    _forget_leases(folder)
    folder.rename(target)
    for link, below in zip(links, pointed, strict=True):
        place = target if link.parent != folder.absolute() else link.parent
        link.unlink()
        link.symlink_to(os.path.relpath(place / below, link.parent), target_is_directory=True)
    is_sweep = not is_run(target)
    print(f"{folder} is now {folder.parent / name}{f'; its command continues it with sweep={name}' * is_sweep}")
    return 0


def _list_runs(folder: Path) -> list[Path]:
    """Return the runs in a folder. Raise UsageError if it is neither a run nor a sweep, or if a run is in progress."""
    if not folder.is_dir() or not (
        is_run(folder) or (folder / CONFIG).exists() or (folder / SWEEP).exists() or runs_in(folder)
    ):
        raise UsageError(f"{folder}: neither a run nor a sweep; expected outputs/<sweep> or outputs/<sweep>/<run>")
    runs = [folder] if (folder / CONFIG).exists() else runs_in(folder)
    for run in runs:
        if holder := owner(run):
            raise UsageError(f"{run}: {holder}; stop it first")
    return runs


def _find_links(folder: Path) -> Iterator[Path]:
    """Find links in outputs/ to a run, or to the runs of a sweep, which other sweeps have taken over."""
    if folder.is_symlink():  # the run itself stays, and so do other links to it
        return
    outputs = folder.absolute().parents[1 if (folder / CONFIG).exists() else 0]
    for link in (path for path in outputs.glob("*/*") if path.is_symlink()):
        if link.resolve().is_relative_to(folder.resolve()):
            yield link


def _lies_in(link: Path, folders: list[Path]) -> bool:
    return any(link.is_relative_to(folder.absolute()) for folder in folders)


def _megabytes(folder: Path) -> float:
    return sum(file.lstat().st_size for file in folder.rglob("*") if file.is_file()) / 1e6


def _forget_leases(folder: Path) -> None:
    for lease in (folder.parent / LEASES).glob(f"{folder.name}.*"):
        lease.unlink(missing_ok=True)

"""Variants of the user's own, outside this package: folders laid out as conf/, whose files may name the user's classes.

Such a folder is named by -cd, by the environment variable ASR_ABLATIONS_CONF (folders, separated as in PATH), or by an
entry point of an installed package in the group `asr_ablations.components`, whose value is the dotted name of a folder
of configs, as my_package.conf. What a config builds from there carries the hash of its source in a key `_source_`
beside its `_target_`: it belongs to the identity of a run.
"""

import os
import sys
from collections.abc import Iterator
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from pathlib import Path

from asr_ablations.tools.files import CONF
from asr_ablations.tools.source_code import hash_source
from asr_verdicts.errors import UsageError

FOLDERS = "ASR_ABLATIONS_CONF"
"""Environment variable with the user's folders: the processes of arms get it from the command."""
ENTRY_POINTS = "asr_ablations.components"
KNOWN = ("asr_ablations", "asr_benchmarks", "torch", "torchaudio", "pytorch_lightning")
"""Packages whose code the environment of a run records by version and commit: no hash of their source is taken."""


def use_folder(folder: Path) -> None:
    """From now on, in this process and those that it starts, the files of a folder of -cd may name classes of the
    user's: of modules in the folder that holds it, or installed. One without an option of a group changes nothing.
    """
    known = os.environ.get(FOLDERS, "")
    path = str(folder.resolve())
    if path not in known.split(os.pathsep) and _has_options(folder):
        os.environ[FOLDERS] = os.pathsep.join(filter(None, [known, path]))


def own_folders() -> tuple[Path, ...]:
    """The user's folders of configs. Raises UsageError for one that is not there, or hides an option of this package.

    What holds a folder of ASR_ABLATIONS_CONF is on Python's path from then on, at its end.
    """
    return _own_folders(os.environ.get(FOLDERS, ""))


@cache
def _own_folders(paths: str) -> tuple[Path, ...]:
    named = [Path(path) for path in paths.split(os.pathsep) if path]
    for folder in named:
        if not folder.is_dir():
            raise UsageError(f"{FOLDERS}={folder}: there is no such folder")
        if str(folder.resolve().parent) not in sys.path:
            sys.path.append(str(folder.resolve().parent))
    folders = dict.fromkeys([*named, *(_folder_of(point.name, point.value) for point in _points())])
    for file in (file for folder in folders for file in folder.glob("*/*.yaml")):
        if (CONF / file.parent.name / file.name).exists() and not file.samefile(CONF / file.parent.name / file.name):
            # the first file of this name would be taken, which is this package's
            raise UsageError(f"{file}: {file.parent.name}={file.stem} is an option already; give yours another name")
    return tuple(folders)


def _points() -> Iterator[EntryPoint]:
    return iter(entry_points(group=ENTRY_POINTS))


def _folder_of(name: str, value: str) -> Path:
    """The folder that an entry point means, found without importing its package."""
    top, *below = value.split(".")
    spec = find_spec(top)
    for location in (spec.submodule_search_locations or []) if spec else []:
        if (folder := Path(location, *below)).is_dir() and below:
            return folder
    raise UsageError(
        f"entry point {name} = {value} of {ENTRY_POINTS}: expected a folder of configs, as my_package.conf"
    )


def _has_options(folder: Path) -> bool:
    return any(any((folder / group.name).glob("*.yaml")) for group in CONF.iterdir() if group.is_dir())


def source_hash(target: str) -> str | None:
    """The SHA-256 of the source behind a target of the user's, as hash_source has it. None for a target of a package of
    `KNOWN`. Raises UsageError for a target without a module in Python.
    """
    if target.partition(".")[0] in KNOWN:
        return None
    try:
        return hash_source(target)
    except ModuleNotFoundError as error:
        raise UsageError(f"_target_={target}: {error} ({_on_the_path()})") from error


def _on_the_path() -> str:
    places = dict.fromkeys(str(folder.resolve().parent) for folder in own_folders())
    return f"looked at in {', '.join(places)} and among what is installed" if places else "among what is installed"

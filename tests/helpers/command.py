"""Runs the project's command lines as a user would, in a process of their own, on a shrunken corpus."""

import fcntl
import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.helpers.interpreter import REPOSITORY, python


def common_folder(factory: pytest.TempPathFactory, name: str) -> Path:
    """A folder that is the same in all processes of this run of the tests, and no other run's."""
    base = factory.getbasetemp()
    common = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    folder = common / f"common-{name}"
    folder.mkdir(exist_ok=True)
    return folder


def made_once(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], Path]) -> Path:
    """What `make` leaves in such a folder, and returns a path of; who comes while it is made waits. Read only."""
    folder = common_folder(factory, name)
    answer = folder.with_name(f"{folder.name}.path")
    with folder.with_name(f"{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not answer.exists():
            answer.write_text(str(make(folder)), encoding="utf-8")  # not reached by a make that fails
    return Path(answer.read_text(encoding="utf-8"))


SHORT_SPEECH = [
    "data.hours=0.02", "data.words=60", "data.validation_speakers=8", "data.validation_sentences=3",
    "data.test_speakers=8", "data.test_sentences=3",
]  # fmt: skip
"""Overrides that leave 34 training utterances of the built-in corpus, and 24 in each other set."""
SMALL_MODEL = ["max_epochs=2", "width=16", "layers=1", "batch.size=8"]
SHRUNKEN = [*SHORT_SPEECH, *SMALL_MODEL]
"""Overrides that make any training command a matter of seconds."""


def clean_environment(corpora: Path, folder: Path, **more: str) -> dict[str, str]:
    """This environment without accounts and Hydra's own variables; a variable set to "" is taken out."""
    clean = {key: value for key, value in os.environ.items() if not key.startswith(("WANDB", "HYDRA"))}
    settings = {
        "ASR_ABLATIONS_DATA": str(corpora),
        "OMP_NUM_THREADS": "2",  # with one, recurrent layers take another way
        "NETRC": str(folder / "no-netrc"),
        "WANDB_MODE": "offline",
        **more,
    }
    return {key: value for key, value in {**clean, **settings}.items() if value}


def run(
    arguments: list[str], corpora: Path, folder: Path, fresh: bool | None = None, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run `python <arguments>` in the repository, its runs under `folder`, offline, without an account."""
    words = [*arguments, f"outputs={folder}"]
    return python(words, clean_environment(corpora, folder, **environment), fresh=fresh)


def run_folders(folder: Path) -> list[Path]:
    """Folders of runs below `folder`."""
    return sorted(path.parent for path in folder.rglob("status.json"))


def pages() -> list[Path]:
    """The README and the pages of docs/."""
    return [REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").glob("*.md"))]


def documented_lines() -> list[str]:
    """The lines of the pages' blocks of commands without their comments, each once."""
    blocks = [
        block for page in pages() for block in re.findall(r"```bash\n(.*?)```", page.read_text(), flags=re.DOTALL)
    ]
    lines = [line.split("  #")[0].split(" # ")[0].strip() for block in blocks for line in block.splitlines()]
    return list(dict.fromkeys(line for line in lines if line))


def documented_commands() -> list[str]:
    """The documented lines that start `python`, without that word."""
    return [line.removeprefix("python ") for line in documented_lines() if line.startswith("python ")]

"""KenLM's programs, lmplz and build_binary: on the PATH, or where `make lmplz` puts them, beside Python."""

import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from asr_ablations.tools.errors import UsageError


def find(name: str) -> Path | None:
    """The program of this name or path, None where there is none."""
    found = shutil.which(name) or shutil.which(name, path=str(Path(sys.executable).parent))
    return Path(found) if found else None


def lmplz(program: Path, text: Path, arpa: Path, order: int, prune: Sequence[int]) -> None:
    """An ARPA file from a text with a sentence a line. Raises UsageError with the last words of one that fails."""
    with TemporaryDirectory(dir=arpa.parent) as temporary:
        made = Path(temporary) / "lm.arpa"
        _run(
            [str(program), "-o", str(order), "--discount_fallback", "--skip_symbols", "-S", "20%",
             "-T", f"{temporary}/", "--prune", *map(str, prune), "--text", str(text), "--arpa", str(made)]
        )  # fmt: skip
        made.replace(arpa)


def binary(program: Path, arpa: Path, target: Path) -> None:
    """An ARPA file as KenLM's binary, which loads at once."""
    with TemporaryDirectory(dir=target.parent) as temporary:
        made = Path(temporary) / "lm.binary"
        _run([str(program), str(arpa), str(made)])
        made.replace(target)


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        said = [line for line in done.stderr.splitlines() if line.strip()]
        raise UsageError(f"{command[0]} failed: {' '.join(said[-2:]) or f'exit code {done.returncode}'}")

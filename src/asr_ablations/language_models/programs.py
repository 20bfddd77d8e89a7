"""KenLM's programs lmplz and build_binary: on the PATH, or beside Python, where `make lmplz` puts them."""

import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from asr_ablations.tools.errors import UsageError


def find(name: str) -> Path | None:
    """Return the program with this name or path, or None if there is none."""
    program = shutil.which(name) or shutil.which(name, path=str(Path(sys.executable).parent))
    return Path(program) if program else None


def lmplz(program: Path, text: Path, arpa: Path, order: int, prune: Sequence[int]) -> None:
    """Write an ARPA file from a text with one sentence per line. Raises UsageError with the end of lmplz's output if it
    fails.
    """
    with TemporaryDirectory(dir=arpa.parent) as temporary:
        output = Path(temporary) / "lm.arpa"
        _run(
            [str(program), "-o", str(order), "--discount_fallback", "--skip_symbols", "-S", "20%",
             "-T", f"{temporary}/", "--prune", *map(str, prune), "--text", str(text), "--arpa", str(output)]
        )  # fmt: skip
        output.replace(arpa)


def binary(program: Path, arpa: Path, target: Path) -> None:
    """Write an ARPA file as KenLM's binary, which loads immediately. Raises UsageError if build_binary fails."""
    with TemporaryDirectory(dir=target.parent) as temporary:
        output = Path(temporary) / "lm.binary"
        _run([str(program), str(arpa), str(output)])
        output.replace(target)


def _run(command: list[str]) -> None:
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    if process.returncode:
        lines = [line for line in process.stderr.splitlines() if line.strip()]
        raise UsageError(f"{command[0]} failed: {' '.join(lines[-2:]) or f'exit code {process.returncode}'}")

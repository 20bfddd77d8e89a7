"""The native library: which instructions of this processor it uses, and its file, compiled once per machine.

The key `native` chooses: auto takes the best target of this processor, or PyTorch's operations without a compiler.
"""

import ctypes
import os
import platform
import shlex
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

from asr_ablations.tools.content_keys import content_key
from asr_ablations.tools.files import sha256
from asr_ablations.tools.machine import one_at_a_time
from asr_verdicts.errors import UsageError, choices
from asr_verdicts.files import whole_file, write

AUTO, NONE = "auto", "none"
_AVX2 = ("avx", "avx2", "fma", "bmi1", "bmi2", "f16c", "movbe")
_AVX512 = (*_AVX2, "avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl")
TARGETS = {
    "amx_bf16": (*_AVX512, "amx_tile", "amx_bf16"),
    "avx512_bf16": (*_AVX512, "avx512_bf16"),
    "avx512": _AVX512,
    "avx2": _AVX2,
}
"""Sets of instructions, the best first, each with the words that /proc/cpuinfo has for it."""
MULTIPLY_BFLOAT16 = ("amx_bf16", "avx512_bf16")
"""The targets with an instruction for products in bfloat16; the others round operands to it and multiply in float32."""
CHOICES = (AUTO, False, *TARGETS)  # values of the key `native`
MACHINES = {
    "amx_bf16": "-march=x86-64-v4 -mamx-tile -mamx-bf16",
    "avx512_bf16": "-march=x86-64-v4 -mavx512bf16",
    "avx512": "-march=x86-64-v4",
    "avx2": "-march=x86-64-v3",
}
FLAGS = (
    *("-std=c++17", "-O3", "-shared", "-fPIC", "-pthread", "-fopenmp-simd", "-mprefer-vector-width=512"),
    *("-fno-math-errno", "-fno-trapping-math", "-ffp-contract=fast"),
)
"""None of them lets the compiler take a NaN for impossible, or sum in another order than it is written."""
EXTRA: tuple[str, ...] = ()  # further flags, those of a sanitizer
COMPILERS = ("g++", "c++", "clang++")
SECONDS = 600  # for the compiler: one that hangs must not hold up a run for ever
SOURCES = sorted([*Path(__file__).parent.glob("*.cpp"), *Path(__file__).parent.glob("*.h")])
OTHERWISE = "PyTorch's operations do the same work, slower"


class NativeError(Exception):
    """The library cannot be had here; the message says why."""


_active: tuple[str, ctypes.CDLL] | None = None


def active() -> ctypes.CDLL | None:
    """The library that this process uses; None for PyTorch's operations."""
    return None if _active is None else _active[1]


def resolved() -> str:
    """The target that this process uses, as it is recorded; none for PyTorch's operations."""
    return NONE if _active is None else _active[0]


def check(value: object) -> None:
    """Raises UsageError for a value that the key `native` does not have."""
    if not any(value is choice or (isinstance(value, str) and value == choice) for choice in CHOICES):
        raise choices("native", value, [AUTO, "false", *TARGETS])


def use(value: str | bool) -> str:
    """Use what the key `native` says from now on, and return the target, or none; auto never fails.

    Raises UsageError for a named target that this machine cannot run or compile.
    """
    global _active
    check(value)
    if value is False:
        _active = None
    else:
        try:
            _active = best() if value == AUTO else (str(value), load(str(value)))
        except NativeError as reason:
            if value != AUTO:
                raise UsageError(f"native={value}: {reason}") from reason
            _active = None
            _say(f"native: {reason}: {OTHERWISE}")
    return resolved()


@cache
def _say(line: str) -> None:
    """Print a line once per process."""
    print(line, file=sys.stderr, flush=True)


def best() -> tuple[str, ctypes.CDLL]:
    """The best target that this machine can run, and its library. Raises NativeError where it has none."""
    words = processor_words()
    reason = NativeError(f"no target for this processor ({platform.machine()}; {', '.join(TARGETS)} are there)")
    for target in (name for name, needed in TARGETS.items() if words.issuperset(needed)):
        try:
            return target, load(target)
        except NativeError as error:
            reason = error
    raise reason


@cache
def processor_words() -> frozenset[str]:
    """The instructions that this processor has, in Linux's words; none elsewhere."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return frozenset()
    return frozenset(next((line.partition(":")[2] for line in lines if line.startswith("flags")), "").split())


@cache
def load(target: str) -> ctypes.CDLL:
    """The library for a target, compiled where this machine has not yet. Raises NativeError."""
    if not processor_words().issuperset(TARGETS[target]):
        raise NativeError(f"this processor has no {target}")
    if target == "amx_bf16":  # Linux grants tiles to those who ask
        arch_prctl, request, tile_data = 158, 0x1023, 18  # of Linux on x86-64
        if ctypes.CDLL(None).syscall(arch_prctl, request, tile_data) != 0:
            raise NativeError(f"the system does not grant {target}")
    try:
        return ctypes.CDLL(str(built(target)))
    except OSError as error:
        raise NativeError(" ".join(str(error).split())) from error


def folder() -> Path:
    """The folder of compiled libraries, shared by all checkouts of a user."""
    return Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")) / "asr-ablations" / "native"


def compiler() -> list[str]:
    """The command of the C++ compiler: CXX where it is set. Raises NativeError where there is none."""
    if os.environ.get("CXX"):
        words = shlex.split(os.environ["CXX"])
        if words and (path := shutil.which(words[0])):
            return [path, *words[1:]]
        raise NativeError(f"no C++ compiler (CXX={os.environ['CXX']})")
    path = next(filter(None, map(shutil.which, COMPILERS)), None)
    if path is None:
        raise NativeError(f"no C++ compiler ({', '.join(COMPILERS)})")
    return [path]


def built(target: str) -> Path:
    """The file of a target, named by sources, flags and compiler; one process makes it. Raises NativeError, OSError."""
    command = compiler()
    sources = {source.name: sha256(source) for source in [*SOURCES, Path(command[0]).resolve()]}
    key = content_key(command=command, flags=[*FLAGS, *EXTRA, MACHINES[target]], sources=sources)
    path = folder() / f"{target}-{key}.so"
    if _is_whole(path):
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    with one_at_a_time(path.with_suffix(".lock"), f"native: waits for another process, which compiles {target}"):
        if not _is_whole(path):
            _say(f"native: compiles {target} with {command[0]}, once per machine (some 10 s)")
            with whole_file(path) as temporary:
                compile_to(temporary, command, MACHINES[target].split())
            write(path.with_suffix(".sha256"), sha256(path))
    return path


def _is_whole(path: Path) -> bool:
    """Return whether a compiled library has the hash recorded beside it: a cut one would kill the process (SIGBUS)."""
    try:
        return path.with_suffix(".sha256").read_text(encoding="utf-8") == sha256(path)
    except (OSError, UnicodeDecodeError):
        return False


def compile_to(path: Path, command: list[str], options: list[str]) -> None:
    """Compile the library. Raises NativeError with the compiler's first error."""
    source = next(source for source in SOURCES if source.suffix == ".cpp")
    line = [*command, *FLAGS, *EXTRA, *options, str(source), "-o", str(path)]
    try:
        result = subprocess.run(line, capture_output=True, text=True, timeout=SECONDS)
    except subprocess.TimeoutExpired as error:
        raise NativeError(f"{command[0]} had not ended after {SECONDS} s") from error
    if result.returncode:
        errors = [text for text in result.stderr.splitlines() if "error" in text] or result.stderr.splitlines() or ["?"]
        raise NativeError(f"{command[0]} failed: {errors[0]}")


if __name__ == "__main__":  # `make install` compiles ahead of the first run
    use(AUTO)

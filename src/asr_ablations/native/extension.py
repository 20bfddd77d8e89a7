"""The native library: its instruction set and its file, compiled once per machine.

The key `native` chooses: auto uses the best target of this processor, or PyTorch's operations without a compiler.
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
"""Instruction sets, best first, each with its flags in /proc/cpuinfo."""
MULTIPLY_BFLOAT16 = ("amx_bf16", "avx512_bf16")
"""Targets with an instruction for bfloat16 products; the others round operands to bfloat16 and multiply in float32."""
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
"""None of these flags lets the compiler rule out NaNs, or change the order of sums."""
EXTRA: tuple[str, ...] = ()  # additional flags, for a sanitizer
COMPILERS = ("g++", "c++", "clang++")
SOURCES = sorted([*Path(__file__).parent.glob("*.cpp"), *Path(__file__).parent.glob("*.h")])


class NativeError(Exception):
    """The library is not available here; the message gives the reason."""


_active: tuple[str, ctypes.CDLL] | None = None


def active() -> ctypes.CDLL | None:
    """Return the library that this process uses; None for PyTorch's operations."""
    return None if _active is None else _active[1]


def resolved() -> str:
    """Return the target that this process uses, as runs record it; "none" for PyTorch's operations."""
    return NONE if _active is None else _active[0]


def check(value: object) -> None:
    """Raise UsageError if the key `native` cannot have this value."""
    if not any(value is choice or (isinstance(value, str) and value == choice) for choice in CHOICES):
        raise choices("native", value, [AUTO, "false", *TARGETS])


def use(value: str | bool) -> str:
    """Apply a value of the key `native` from now on, and return the target, or "none".

    auto never fails: if the library is not available, it prints the reason. Raises UsageError if this machine cannot
    run or compile the given target.
    """
    global _active
    check(value)
    _active = None
    try:
        if value is not False:
            _active = load_best() if value == AUTO else (str(value), load(str(value)))
    except NativeError as reason:
        if value != AUTO:
            raise UsageError(f"native={value}: {reason}") from reason
        _say(f"native: {reason}; using PyTorch's operations, which are slower")
    return resolved()


@cache
def _say(line: str) -> None:
    """Print a line once per process."""
    print(line, file=sys.stderr, flush=True)


def load_best() -> tuple[str, ctypes.CDLL]:
    """Return the best target that this machine can run, and its library. Raises NativeError if there is none."""
    words = processor_words()
    reason = NativeError(f"no target for this processor ({platform.machine()}; expected {', '.join(TARGETS)})")
    for target in (name for name, needed in TARGETS.items() if words.issuperset(needed)):
        try:
            return target, load(target)
        except NativeError as error:
            reason = error
    raise reason


@cache
def processor_words() -> frozenset[str]:
    """Read the processor's flags from /proc/cpuinfo; empty on other systems than Linux."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return frozenset()
    return frozenset(next((line.partition(":")[2] for line in lines if line.startswith("flags")), "").split())


@cache
def load(target: str) -> ctypes.CDLL:
    """Load the library for a target, and compile it on first use. Raises NativeError."""
    if not processor_words().issuperset(TARGETS[target]):
        raise NativeError(f"this processor lacks {target}")
    if target == "amx_bf16":  # Linux grants tiles on request
        arch_prctl, request, tile_data = 158, 0x1023, 18  # numbers of Linux on x86-64
        if ctypes.CDLL(None).syscall(arch_prctl, request, tile_data) != 0:
            raise NativeError(f"the system does not grant {target}")
    try:
        library = ctypes.CDLL(str(build(target)))
        library.recurrence_floats.restype = ctypes.c_long
        return library
    except OSError as error:
        raise NativeError(" ".join(str(error).split())) from error


def folder() -> Path:
    """Return the folder of compiled libraries, which all checkouts of a user share."""
    return Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")) / "asr-ablations" / "native"


def compiler() -> list[str]:
    """Find the command of the C++ compiler: CXX if it is set. Raises NativeError if there is none."""
    words = shlex.split(os.environ.get("CXX", ""))
    for name in words[:1] or COMPILERS:
        if path := shutil.which(name):
            return [path, *words[1:]]
    raise NativeError(f"no C++ compiler ({f'CXX={shlex.join(words)}' if words else ', '.join(COMPILERS)})")


def build(target: str) -> Path:
    """Return the library file of a target, named by a hash of sources, flags and compiler. If several processes need it
    at once, one compiles and the others wait. A damaged file is compiled again. Raises NativeError or OSError.
    """
    command = compiler()
    sources = {source.name: sha256(source) for source in [*SOURCES, Path(command[0]).resolve()]}
    key = content_key(command=command, flags=[*FLAGS, *EXTRA, MACHINES[target]], sources=sources)
    path = folder() / f"{target}-{key}.so"
    if _is_whole(path):
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    with one_at_a_time(path.with_suffix(".lock"), f"native: waiting for another process that compiles {target}"):
        if not _is_whole(path):
            _say(f"native: compiling {target} with {command[0]}, once per machine (about 10 s)")
            with whole_file(path) as temporary:
                compile_to(temporary, command, MACHINES[target].split())
            write(path.with_suffix(".sha256"), sha256(path))
    return path


def _is_whole(path: Path) -> bool:
    """Return whether a library matches the hash in its .sha256 file; a truncated one kills the process (SIGBUS)."""
    try:
        return path.with_suffix(".sha256").read_text(encoding="utf-8") == sha256(path)
    except (OSError, UnicodeDecodeError):
        return False


def compile_to(path: Path, command: list[str], options: list[str]) -> None:
    """Compile the library. Raises NativeError with the compiler's first error."""
    source = next(source for source in SOURCES if source.suffix == ".cpp")
    line = [*command, *FLAGS, *EXTRA, *options, str(source), "-o", str(path)]
    result = subprocess.run(line, capture_output=True, text=True)
    if result.returncode:
        errors = [text for text in result.stderr.splitlines() if "error" in text] or result.stderr.splitlines() or ["?"]
        raise NativeError(f"{command[0]} failed: {errors[0]}")


if __name__ == "__main__":  # `make install` compiles before the first run
    use(AUTO)

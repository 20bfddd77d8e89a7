"""Choose, compile and load the native library, whose C++ code is compiled once per machine.

The key `native` selects the target. `auto` selects the best target for this processor, or PyTorch's operations if there
is no compiler.
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
"""Instruction sets, best first, each with the flags that /proc/cpuinfo lists for it."""
MULTIPLY_BFLOAT16 = ("amx_bf16", "avx512_bf16")
"""Targets with an instruction for bfloat16 products. Other targets round inputs to bfloat16 and multiply in float32."""
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
"""Compiler flags. None of them allows the compiler to ignore NaNs or to change the order of sums."""
EXTRA: tuple[str, ...] = ()  # additional compiler flags, such as those for sanitizers
COMPILERS = ("g++", "c++", "clang++")
SOURCES = sorted([*Path(__file__).parent.glob("*.cpp"), *Path(__file__).parent.glob("*.h")])


class NativeError(Exception):
    """The native library is not available on this machine. The message gives the reason."""


_active: tuple[str, ctypes.CDLL] | None = None


def active() -> ctypes.CDLL | None:
    """Return the native library if this process uses it, or None if it uses PyTorch's operations."""
    return None if _active is None else _active[1]


def resolved() -> str:
    """Return the target that this process uses, or "none" if it uses PyTorch's operations. Runs record this name."""
    return NONE if _active is None else _active[0]


def check(value: object) -> None:
    """Raise UsageError unless `value` is a valid value of the key `native`."""
    if value is not False and value not in (AUTO, *TARGETS):
        raise choices("native", value, [AUTO, "false", *TARGETS])


def use(value: str | bool) -> str:
    """Let this process use the library for a value of the key `native`. Return the target, or "none".

    auto never fails: it prints the reason if the library is not available. For other values, raise UsageError if this
    machine cannot run or compile the target.
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
    """Print a message to stderr, but only once per process."""
    print(line, file=sys.stderr, flush=True)


def load_best() -> tuple[str, ctypes.CDLL]:
    """Return the best target that this machine can run, and its library. Raise NativeError if there is none."""
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
    """Return the processor's flags from /proc/cpuinfo, or none on systems other than Linux."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return frozenset()
    return frozenset(next((line.partition(":")[2] for line in lines if line.startswith("flags")), "").split())


@cache
def load(target: str) -> ctypes.CDLL:
    """Load the library for a target, and compile it on first use. Raise NativeError if the target cannot be used."""
    if not processor_words().issuperset(TARGETS[target]):
        raise NativeError(f"this processor lacks {target}")
    if target == "amx_bf16":  # Linux allows AMX tiles only to processes that request them
        arch_prctl, request, tile_data = 158, 0x1023, 18  # ARCH_REQ_XCOMP_PERM, on x86-64
        if ctypes.CDLL(None).syscall(arch_prctl, request, tile_data) != 0:
            raise NativeError(f"the system does not grant {target}")
    try:
        library = ctypes.CDLL(str(build(target)))
        library.recurrence_floats.restype = ctypes.c_long
        return library
    except OSError as error:
        raise NativeError(" ".join(str(error).split())) from error


def compiler() -> list[str]:
    """Return the command of the C++ compiler: CXX if set, or the first one found. Raise NativeError if none exists."""
    words = shlex.split(os.environ.get("CXX", ""))
    for name in words[:1] or COMPILERS:
        if path := shutil.which(name):
            return [path, *words[1:]]
    raise NativeError(f"no C++ compiler ({f'CXX={shlex.join(words)}' if words else ', '.join(COMPILERS)})")


def build(target: str) -> Path:
    """Return the library file of a target, and compile it if necessary. Raise NativeError or OSError if that fails.

    The file name contains a hash of sources, flags and compiler. If several processes need the file, one of them
    compiles it and the others wait. A damaged file is compiled again.
    """
    command = compiler()
    sources = {source.name: sha256(source) for source in [*SOURCES, Path(command[0]).resolve()]}
    key = content_key(command=command, flags=[*FLAGS, *EXTRA, MACHINES[target]], sources=sources)
    caches = Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"))
    path = caches / "asr-ablations" / "native" / f"{target}-{key}.so"  # all checkouts of a user share this file
    if _is_whole(path):
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    with one_at_a_time(path.with_suffix(".lock"), f"native: waiting for another process that is compiling {target}"):
        if not _is_whole(path):
            _say(f"native: compiling {target} with {command[0]}, once per machine (about 10 s)")
            with whole_file(path) as temporary:
                compile_to(temporary, command, MACHINES[target].split())
            write(path.with_suffix(".sha256"), sha256(path))
    return path


def _is_whole(path: Path) -> bool:
    """Return whether a library file matches the hash in its .sha256 file. Loading a truncated file raises SIGBUS."""
    try:
        return path.with_suffix(".sha256").read_text(encoding="utf-8") == sha256(path)
    except (OSError, UnicodeDecodeError):
        return False


def compile_to(path: Path, command: list[str], options: list[str]) -> None:
    """Compile the library to a file. Raise NativeError with the compiler's first error if that fails."""
    source = next(source for source in SOURCES if source.suffix == ".cpp")
    line = [*command, *FLAGS, *EXTRA, *options, str(source), "-o", str(path)]
    result = subprocess.run(line, capture_output=True, text=True)
    if result.returncode:
        errors = [text for text in result.stderr.splitlines() if "error" in text] or result.stderr.splitlines() or ["?"]
        raise NativeError(f"{command[0]} failed: {errors[0]}")


if __name__ == "__main__":  # `make install` compiles the library before the first run
    use(AUTO)

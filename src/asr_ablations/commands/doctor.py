"""Show what this machine can do, and what to do about the rest."""

import argparse
import os
import platform
import re
import shutil
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from asr_ablations.commands.console import exit_code
from asr_ablations.language_models.ngram import find_program
from asr_ablations.native import extension
from asr_ablations.runs.wandb_run import mode
from asr_ablations.tools.errors import installs
from asr_ablations.tools.files import typed
from asr_ablations.tools.machine import available_memory, cores, gpu_memory, gpu_names

NEEDED = ("torch", "torchaudio", "pytorch-lightning", "hydra-core", "torchmetrics", "wandb")
EXTRAS = {
    "decode": ("pyctcdecode", "kenlm"), "units": ("sentencepiece",), "parquet": ("pyarrow",), "search": ("optuna",),
    "lexicon": ("flashlight",), "export": ("onnx", "onnxruntime"), "serve": ("fastapi", "uvicorn"), "ray": ("ray",),
}  # fmt: skip
"""For each extra, the modules that show that it is installed."""
LEAST_DISK = 5
"""Gigabytes: what an epoch of the built-in corpus, its cache and checkpoints of a sweep need."""


class Finding(NamedTuple):
    """A line of the report. lacks: what to do about what is missing, or "". stops: whether nothing can run."""

    text: str
    lacks: str = ""
    stops: bool = False


def main(arguments: list[str] | None = None) -> int:
    doctor_parser().parse_args(arguments)
    return exit_code(_report)


def doctor_parser() -> argparse.ArgumentParser:
    return argparse.ArgumentParser(
        description="Show versions, processor, GPUs, disk and programs, and how to get more."
    )


def _report() -> int:
    findings = [*_packages(), *_processor(), *_gpus(), _disk(), *_programs(), _logger(), *_extras()]
    for finding in findings:
        mark = "!!" if finding.stops else "--" if finding.lacks else "ok"
        print(f"{mark}  {finding.text}{f': {finding.lacks}' if finding.lacks else ''}")
    return 1 if any(finding.stops for finding in findings) else 0


def _packages() -> Iterator[Finding]:
    yield Finding(f"Python {platform.python_version()} in {sys.prefix}")
    for name in NEEDED:
        try:
            yield Finding(f"{name} {version(name)}")
        except PackageNotFoundError:
            yield Finding(f"{name} is missing", "make install (or pip install ./src/asr_verdicts .)", stops=True)


def _processor() -> Iterator[Finding]:
    memory = available_memory()
    available = f", {memory / 1e9:.0f} GB of memory available" if memory else ""
    yield Finding(f"{cores()} cores of {platform.machine()}{available}")
    try:
        target, _ = extension.load_best()
        yield Finding(f"native library for training on the CPU: {target}")
    except extension.NativeError as error:
        yield Finding(f"no native library for training on the CPU ({error})", "install g++; training is slower without")
    if os.environ.get("OMP_WAIT_POLICY", "PASSIVE").upper() != "PASSIVE":
        yield Finding("OMP_WAIT_POLICY is not PASSIVE", "unset it; threads that spin slow each other down")


def _gpus() -> Iterator[Finding]:
    names = gpu_names()
    if names:
        yield Finding(
            f"{len(names)} GPU{'s' * (len(names) > 1)}: {', '.join(dict.fromkeys(names))}, {gpu_memory() / 1e9:.0f} GB"
        )
    else:
        yield Finding("no GPU", "runs use the CPU; if there is one, see nvidia-smi and CUDA_VISIBLE_DEVICES")
    if names and not _is_built_with_cuda():
        yield Finding("torch is built without CUDA", "make install TORCH_INDEX=<address of a CUDA build>")


def _is_built_with_cuda() -> bool:
    """Read torch's version file, because the import of torch would take seconds."""
    spec = find_spec("torch")
    folders = (spec.submodule_search_locations if spec else None) or []
    files = [Path(folder) / "version.py" for folder in folders]
    return any(re.search(r"^cuda.*= '\d", file.read_text(encoding="utf-8"), re.MULTILINE) for file in files)


def _disk() -> Finding:
    free = shutil.disk_usage(Path("outputs") if Path("outputs").exists() else Path()).free / 1e9
    return Finding(f"{free:.0f} GB free for outputs", "" if free >= LEAST_DISK else "free some, or outputs=<folder>")


def _programs() -> Iterator[Finding]:
    if find_spec("espeakng_loader"):
        yield Finding("espeak-ng, which speaks the built-in corpus")
    else:
        yield Finding("espeak-ng is missing", "pip install espeakng-loader; the built-in corpus needs it")
    lmplz = find_program("lmplz")
    yield Finding("KenLM's lmplz", "" if lmplz else f"make lmplz; {typed('lm')} estimates in Python without it")
    sbatch = shutil.which("sbatch")
    yield Finding("Slurm's sbatch", "" if sbatch else "only hydra/launcher=slurm needs it, on a machine that has it")


def _logger() -> Finding:
    chosen = mode()
    return Finding(f"W&B: {chosen}", "" if chosen == "online" else "wandb login, or keep runs here with logger=csv")


def _extras() -> Iterator[Finding]:
    for extra, modules in EXTRAS.items():
        absent = [module for module in modules if find_spec(module) is None]
        yield Finding(f"extra {extra}", f"{', '.join(absent)} missing; {installs(extra)}" if absent else "")

"""Record a run's environment: versions, hardware, command and code."""

import hashlib
import itertools
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from hydra.core.hydra_config import HydraConfig

import asr_verdicts
from asr_ablations.native import extension as native
from asr_ablations.tools.files import PACKAGE, REPOSITORY
from asr_ablations.tools.machine import cores, gpu_names, iso
from asr_verdicts.record import Code, Composed, Environment, Hardware

PACKAGES = (
    *("torch", "torchaudio", "pytorch-lightning", "hydra-core", "omegaconf", "wandb", "torchmetrics", "numpy"),
    *("soundfile", "pyctcdecode", "kenlm", "espeakng-loader"),
)


def environment() -> Environment:
    """Return the versions, hardware, command and code of this process."""
    composed = None  # Hydra does not compose frozen configs
    if HydraConfig.initialized():
        hydra = HydraConfig.get()
        folders = [source.path for source in hydra.runtime.config_sources if source.provider == "command-line"]
        composed = Composed(config_name=hydra.job.config_name, config_dir=folders[0] if folders else None)
    versions = {"python": platform.python_version(), **dict.fromkeys(PACKAGES, "not installed")}
    for package in PACKAGES:
        with suppress(PackageNotFoundError):
            versions[package] = version(package)
    return Environment(
        started=iso(time.time()),
        command=list(sys.argv),
        composed=composed,
        versions=versions,
        hardware=hardware(),
        code=code(),
    )


def hardware() -> Hardware:
    """Return the processor, its cores, the GPUs and their links, PyTorch's threads, and the native library in use."""
    import torch

    gpus, processor = gpu_names(), platform.processor()
    with suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        processor = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown")
    addresses, pairs = topology() if gpus else (None, None)
    return Hardware(
        machine=platform.machine(),
        processor=processor,
        cores=cores(),
        threads=torch.get_num_threads(),
        native=native.resolved(),
        gpus=gpus,
        buses=addresses,
        links=pairs,
    )


def code() -> Code:
    """Return the commit, the uncommitted changes, and a hash of each source file.

    File names are relative to the package asr_ablations, or begin with the name of the package asr_verdicts.
    """
    verdicts = Path(asr_verdicts.__file__).parent
    named = {str(path.relative_to(PACKAGE)): path for path in [*PACKAGE.rglob("*.py"), *native.SOURCES]}
    named |= {str(path.relative_to(verdicts.parent)): path for path in verdicts.rglob("*.py")}
    hashes = {name: hashlib.blake2b(named[name].read_bytes(), digest_size=8).hexdigest() for name in sorted(named)}
    return Code(**commit(REPOSITORY), files=hashes)


CODE = ("src/asr_verdicts", "src/asr_ablations", "conf")
NEW_FILES = (
    "src/asr_verdicts/*.py",
    *(f"src/asr_ablations/*.{ending}" for ending in ("py", "cpp", "h")),
    "conf/*.yaml",
)
"""Patterns of source files that are recorded with the uncommitted changes even if git does not track them."""
DIFF = (
    *("diff", "HEAD", "--binary", "-U3", "--no-ext-diff", "--no-textconv", "--no-color"),
    *("--src-prefix=a/", "--dst-prefix=b/"),
)
"""Git arguments for a diff that `git apply` accepts, regardless of the user's git settings."""


def commit(repository: Path) -> dict[str, str]:
    """Return a checkout's commit and uncommitted changes. Bytes that are not UTF-8 become surrogates.

    The result is empty outside a checkout. It is also empty, with a warning, if git fails.
    """
    if not (repository / ".git").exists():
        return {}
    with tempfile.TemporaryDirectory() as temporary:
        # git writes to a temporary index and object folder, because the checkout may belong to another user
        variables = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
        variables["GIT_INDEX_FILE"] = f"{temporary}/index"

        def git(*arguments: str) -> str:
            command = ["git", "-C", str(repository), "-c", "safe.directory=*", *arguments]
            done = subprocess.run(command, capture_output=True, env=variables, timeout=SECONDS, check=True)
            return done.stdout.decode(errors="surrogateescape")

        try:
            head, objects = git("rev-parse", "HEAD", "--git-path", "objects").splitlines()
            variables["GIT_ALTERNATE_OBJECT_DIRECTORIES"] = json.dumps(str(repository / objects), ensure_ascii=False)
            variables["GIT_OBJECT_DIRECTORY"] = temporary
            git("read-tree", "HEAD")
            git("add", "--intent-to-add", "--", *NEW_FILES)
            return {"commit": head, "dirty_diff": git(*DIFF, "--", *CODE)}
        except (OSError, subprocess.SubprocessError) as error:
            reason = getattr(error, "stderr", None) or str(error).encode()
            print(f"the code's commit is not recorded: {reason.decode(errors='replace').strip()}", file=sys.stderr)
            return {}


SECONDS = 20  # time limit for git and nvidia-smi, because a driver that hangs must not block a run


def topology() -> tuple[list[str], dict[str, str]]:
    """Return each GPU's bus and the link between each pair of GPUs; both empty if nvidia-smi is missing or fails."""
    bus = ("--query-gpu=pci.bus_id,pcie.link.gen.max,pcie.link.width.max", "--format=csv,noheader")
    try:
        answers = [
            subprocess.run(["nvidia-smi", *words], capture_output=True, text=True, timeout=SECONDS, check=True).stdout
            for words in (bus, ("topo", "-m"))
        ]
    except (OSError, subprocess.SubprocessError):
        return [], {}
    return buses(answers[0]), links(answers[1])


def buses(answer: str) -> list[str]:
    """Return each GPU's bus, such as `PCIe 3 x16 at 00000000:06:00.0`, or only its address if the link is unknown."""
    rows = [re.split(r",\s*", line) for line in answer.splitlines()]
    return [f"PCIe {row[1]} x{row[2]} at {row[0]}" if row[1].isdecimal() else row[0] for row in rows]


def links(answer: str) -> dict[str, str]:
    """Return the link between each pair of GPUs in the output of `nvidia-smi topo -m`; empty for a single GPU.

    NV2 means two NVLinks. PIX, PXB, PHB, NODE and SYS mean increasingly long routes over PCIe.
    """
    rows = [line.split() for line in re.sub(r"\x1b\[[\d;]*m", "", answer).splitlines()]
    cells = {row[0]: row[1:] for row in rows if len(row) > 1 and re.fullmatch(r"GPU\d+", row[0]) and "X" in row}
    return {
        f"{first}-{second}": cells[first][place]
        for (_, first), (place, second) in itertools.combinations(enumerate(cells), 2)
    }

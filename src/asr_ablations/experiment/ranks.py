"""Run several ranks: one process each, under torchrun."""

import sys
import tempfile
from pathlib import Path

from omegaconf import DictConfig, OmegaConf

from asr_ablations.config.build import build
from asr_ablations.experiment.finished import compute_fingerprint
from asr_ablations.runs.folder import Run
from asr_ablations.runs.process import command, wait_for
from asr_ablations.runs.status import Diverged, fate_of
from asr_ablations.training.assembly import assemble, device_count
from asr_verdicts.config import ranks


def run_in_ranks(cfg: DictConfig) -> Path:
    """Run a config in a process per rank, after `assemble` has checked it; exit if one fails. Return its folder."""
    device_count(cfg)
    assemble(cfg, build(cfg.data))
    with tempfile.NamedTemporaryFile("w", suffix=".yaml", delete=False) as file:
        file.write(OmegaConf.to_yaml(cfg, resolve=True))
    try:
        code = wait_for(command(Path(sys.argv[0]), Path(file.name), ranks(cfg)))
    finally:
        Path(file.name).unlink()
    if code:
        sys.exit(code)
    folder = Run(cfg, compute_fingerprint(cfg)).folder
    ended = fate_of(folder)
    if ended.diverged_at is not None:
        raise Diverged(ended.diverged_at, ended.reason)
    return folder

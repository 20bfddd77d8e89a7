"""Finished runs with checkpoints, of weights that were never trained."""

from pathlib import Path
from typing import Any

import torch
from omegaconf import OmegaConf

from asr_ablations.config.build import build
from asr_ablations.runs.folder import Run
from asr_ablations.training.assembly import assemble
from tests.helpers.support import compose, tiny_overrides

SMALL = ("width=8", "layers=1", "logger=csv")


def write_trained(outputs: Path, root: Path, *overrides: str) -> Path:
    """The folder of such a run on the corpus at `root`, which need not be there."""
    asked = [*tiny_overrides(root), *SMALL, *overrides]
    cfg = compose(*asked)
    cfg.outputs, cfg.sweep, cfg.overrides = str(outputs), "single", asked
    OmegaConf.resolve(cfg)
    task, _ = assemble(cfg, build(cfg.data))
    with Run(cfg) as record:
        (record.folder / "checkpoints").mkdir()
        for number, name in enumerate(("last", "best")):
            checkpoint: dict[str, Any] = {"state_dict": task.state_dict(), "epoch": number}
            task.on_save_checkpoint(checkpoint)
            torch.save(checkpoint, record.folder / "checkpoints" / f"{name}.ckpt")
    return record.folder

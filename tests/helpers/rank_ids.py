"""Run under torchrun: trains two epochs and writes the ids that this rank saw, in batches, as JSON.

python rank_ids.py <root of a corpus> <folder for the answer> <workers>
"""

import json
import os
import sys
from pathlib import Path

import pytorch_lightning as pl

from asr_ablations.config.build import build
from asr_ablations.training.assembly import assemble, trainer
from tests.helpers.support import compose, tiny_overrides


class Ids(pl.Callback):
    def __init__(self):
        self.seen = {}

    def on_train_batch_start(self, trainer, pl_module, batch, batch_idx):
        self.seen.setdefault(trainer.current_epoch, []).append(batch.ids)


if __name__ == "__main__":
    root, folder, workers = sys.argv[1:]
    small = ["width=8", "layers=1", "gpus=0", "norm=none", "max_epochs=2", f"workers={workers}"]
    cfg = compose(*small, *tiny_overrides(Path(root)), "batch.size=2")
    task, data = assemble(cfg, build(cfg.data))
    ids = Ids()
    trainer(cfg, 0, [], [ids]).fit(task, data)
    Path(folder, f"{os.environ['RANK']}.json").write_text(json.dumps(ids.seen))

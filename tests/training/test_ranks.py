"""Two ranks on the CPU: they validate one model, and each utterance is validated and transcribed once."""

import json
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from asr_ablations.config.build import build
from asr_ablations.experiment.utterances import transcribe_set
from asr_ablations.training.assembly import assemble
from tests.helpers.fits import SMALL
from tests.helpers.ranks import run_ranks
from tests.helpers.support import REPOSITORY, compose, tiny_overrides

OPTIONS = ("max_epochs=2", "batch.size=2", "norm=batch", "dropout=0")

WORKER = """
import json, os, sys, warnings
warnings.simplefilter("ignore")
sys.path[:0] = [{source!r}, {tests!r}]
from contextlib import nullcontext
from pathlib import Path
from pytorch_lightning import Callback
from asr_ablations.config.build import build
from asr_ablations.experiment.utterances import transcribe_set
from asr_ablations.training.assembly import assemble
from tests.helpers.fits import SMALL, fit
from tests.helpers.support import compose, tiny_overrides

class Validated(Callback):
    def __init__(self):
        self.ids, self.statistics, self.metrics = [], [], {{}}

    def on_validation_batch_start(self, trainer, module, batch, batch_idx, dataloader_idx=0):
        self.ids.append([trainer.current_epoch, batch.ids])
        self.statistics.append([trainer.current_epoch, [float(b.double().sum()) for b in module.model.buffers()]])

    def on_validation_end(self, trainer, module):
        self.metrics = {{key: float(value) for key, value in trainer.callback_metrics.items()}}

root, folder, options = Path({root!r}), Path({folder!r}), {options!r}
seen = Validated()
task = fit(root, folder, *options, callbacks=(seen,))
cfg = compose(*SMALL, *tiny_overrides(root), *options)
data = assemble(cfg, build(cfg.data))[1]
data.setup()
data.trainer = task.trainer
transcribed = transcribe_set(task, data, "dev", nullcontext)
(folder / (os.environ["RANK"] + ".json")).write_text(json.dumps(
    {{"ids": seen.ids, "statistics": seen.statistics, "metrics": seen.metrics,
      "rows": transcribed.rows, "loss": transcribed.loss}}))
"""


@pytest.mark.slow
def test_two_ranks_share_one_validation_and_one_evaluation(tiny_corpus: Path, tmp_path: Path) -> None:
    """The figures are those of one process with the model that was saved."""
    paths = {"source": str(REPOSITORY / "src"), "tests": str(REPOSITORY)}
    script = tmp_path / "worker.py"
    script.write_text(WORKER.format(root=str(tiny_corpus), folder=str(tmp_path), options=OPTIONS, **paths))
    done = run_ranks(script)
    assert done.returncode == 0, done.stderr[-2000:]
    first, second = (json.loads((tmp_path / f"{rank}.json").read_text()) for rank in range(2))
    cfg = compose(*SMALL, *tiny_overrides(tiny_corpus), *OPTIONS)
    task, data = assemble(cfg, build(cfg.data))
    data.setup()
    dev = sorted(u.id for u in data.sets["dev"].utterances)
    for epoch in range(cfg.max_epochs):
        shares = [[id_ for e, ids in rank["ids"] if e == epoch for id_ in ids] for rank in (first, second)]
        assert sorted(shares[0] + shares[1]) == dev, "each once"
        assert all(shares)
        statistics = [value for rank in (first, second) for e, value in rank["statistics"] if e == epoch]
        assert statistics.count(statistics[0]) == len(statistics), "one model"
    last = torch.load(tmp_path / "epoch=1.ckpt", weights_only=True)["state_dict"]
    task.load_state_dict({key: value for key, value in last.items() if key.startswith("model.")}, strict=False)
    alone = transcribe_set(task, data, "dev", nullcontext)
    assert first["rows"] == second["rows"] == alone.rows
    assert first["loss"] == second["loss"] == pytest.approx(alone.loss, rel=1e-5)
    assert first["metrics"]["validation/dev/loss"] == pytest.approx(alone.loss, rel=1e-5)
    errors = sum(row["substitutions"] + row["deletions"] + row["insertions"] for row in alone.rows)
    assert first["metrics"]["validation/dev/wer"] == pytest.approx(errors / sum(row["words"] for row in alone.rows))


def test_where_a_rank_would_have_nothing_to_validate_each_takes_the_whole_set(tiny_corpus: Path) -> None:
    cfg = compose(*SMALL, *tiny_overrides(tiny_corpus))
    data = assemble(cfg, build(cfg.data))[1]
    data.setup()
    everything = {u.id for u in data.sets["dev"].utterances}
    for ranks in (1, 2, len(everything), len(everything) + 1):
        seen = []
        for rank in range(ranks):
            place = SimpleNamespace(global_rank=rank, world_size=ranks)
            data.trainer = place  # type: ignore[assignment]
            (loader,) = data.val_dataloader()
            seen.append([id_ for batch in loader for id_ in batch.ids])
        assert {id_ for ids in seen for id_ in ids} == everything
        assert all(seen)
        assert len(seen[0]) == (len(everything) if ranks > len(everything) else -(-len(everything) // ranks))

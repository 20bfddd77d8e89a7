"""All that a config can change, seen in a real fit on the corpus of tones: set-up, batches, every step, validation."""

import hashlib
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytorch_lightning as pl
import torch
from omegaconf import DictConfig

from asr_ablations.config.build import build
from asr_ablations.config.checks import check
from asr_ablations.experiment.utterances import transcribe_set
from asr_ablations.training.assembly import assemble, device_count, trainer
from asr_ablations.training.callbacks.best_checkpoint import best_checkpoint

Seen = dict[str, Any]
"""Aspects by name, each comparable with ==."""


def observe(cfg: DictConfig) -> Seen:
    """Build, fit and evaluate as experiment.run does, without a folder. Raises UsageError as that would."""
    check(cfg)
    devices = device_count(cfg)
    corpus = build(cfg.data)
    task, data = assemble(cfg, corpus)
    corpus.prepare()
    data.setup()
    steps = Steps()
    kept_best = TemporaryDirectory()
    best = best_checkpoint(Path(kept_best.name), corpus.validation[0], cfg.best)
    fitter = trainer(cfg, devices, [], [steps, best])
    seen: Seen = {
        "devices": devices,
        "rounding": (torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32),
        "data": data.describe(),
        "modules": [type(part).__qualname__ for part in (*task.modules(), *fitter.callbacks, data.cache)],  # type: ignore[attr-defined]
        "first weights": _weights(task.model),
        "decoding": task.decoder(*_uncertain(task.alphabet.outputs)),
    }
    fitter.fit(task, data)
    kept_best.cleanup()
    sets = dict.fromkeys([*corpus.validation, *corpus.test])
    precision = fitter.precision_plugin.forward_context
    rows = [row for name in sets for row in transcribe_set(task, data, name, precision).rows]
    return {
        **seen,
        **steps.seen,
        "best checkpoint": None if best.best_model_score is None else float(best.best_model_score),
        "figures": {k: float(v) for k, v in sorted(fitter.callback_metrics.items())},
        "transcripts": [(row["set"], row["id"], row["reference"], row["hypothesis"]) for row in rows],
    }


class Steps(pl.Callback):
    """What every step is given and does."""

    def __init__(self) -> None:
        self.seen: Seen = {"batches": [], "learning rates": [], "losses": [], "weights": [], "validation": []}

    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        self.seen["batches"].append(batch.ids)
        self.seen["learning rates"].append(trainer.optimizers[0].param_groups[0]["lr"])
        self.seen["losses"].append(float(outputs["loss"]))
        self.seen["weights"].append(_weights(pl_module.model))  # type: ignore[arg-type]

    def on_validation_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        figures = {k: float(v) for k, v in trainer.callback_metrics.items() if k.startswith("validation")}
        self.seen["validation"].append(dict(sorted(figures.items())))


def differing(one: Seen, other: Seen, tolerance: float = 0.0) -> list[str]:
    """The aspects that are not the same: to the bit, or losses to a relative tolerance and nothing said of weights."""
    if not tolerance:
        return [aspect for aspect in one if one[aspect] != other[aspect]]
    near = np.allclose(one["losses"], other["losses"], rtol=tolerance, atol=0)
    return [] if near and one["losses"] else ["losses"]


def kept(folder: Path) -> Seen:
    """What a finished run's folder says of its numbers."""
    last = torch.load(folder / "checkpoints" / "last.ckpt", weights_only=True)
    rows, losses = ((folder / name).read_text(encoding="utf-8") for name in ("utterances.csv", "losses.csv"))
    return {
        "weights": _digest(value for key, value in last["state_dict"].items() if isinstance(value, torch.Tensor)),
        "losses": [float(line.split(",")[1]) for line in losses.splitlines()[1:]],
        "transcripts": rows,
    }


def _weights(model: Any) -> str:
    return _digest(value for value in model.state_dict().values() if isinstance(value, torch.Tensor))


def _digest(tensors: Any) -> str:
    digest = hashlib.sha256()
    for value in tensors:
        digest.update(repr((value.dtype, value.shape)).encode())
        digest.update(np.ascontiguousarray(value.detach().float().numpy()).tobytes())
    return digest.hexdigest()


def _uncertain(symbols: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Log-probabilities (B, T, V) of a model that is not sure, so that each choice of a search shows."""
    logits = 2 * torch.randn(4, 60, symbols, generator=torch.Generator().manual_seed(0))
    return logits.log_softmax(dim=-1), torch.tensor([60, 40, 1, 0])

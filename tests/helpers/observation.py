"""All that a config can change, seen in a real fit on the corpus of tones: set-up, batches, every step, validation."""

import hashlib
import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytorch_lightning as pl
import torch
from hydra.utils import get_object
from omegaconf import DictConfig, OmegaConf

from asr_ablations.config.build import build
from asr_ablations.config.plain_keys import check
from asr_ablations.experiment.utterances import transcribe_set
from asr_ablations.runs.identity import refuse_changed_files, weights_file
from asr_ablations.tools.files import CONF
from asr_ablations.training.assembly import assemble, device_count, trainer
from asr_ablations.training.checkpoints import best_checkpoint
from asr_ablations.training.task import CTCTask
from asr_ablations.training.trained_model import start_from

GREEDY = OmegaConf.load(CONF / "decoder" / "greedy.yaml")
Seen = dict[str, Any]
"""Aspects by name, each comparable with ==."""


def observe(cfg: DictConfig, unlike: Seen | None = None) -> Seen:
    """Build, fit and evaluate as experiment.run does, without a folder. Raises UsageError as that would.

    unlike: what another config was seen to do. The first difference from it ends the fit, and is all that is returned.
    """
    check(cfg)
    refuse_changed_files(OmegaConf.to_container(cfg))
    devices = device_count(cfg)
    corpus = build(cfg.data)
    rescores = hasattr(get_object(cfg.decoder._target_), "rescore")
    task, data = assemble(OmegaConf.merge(cfg, {"decoder": None}, {"decoder": GREEDY}) if rescores else cfg, corpus)
    if cfg.weights is not None:
        start_from(task, weights_file(cfg.weights), cfg.weights_sha256, cfg.weights_parts)
    corpus.prepare()
    data.setup()
    steps = Steps(unlike)
    with TemporaryDirectory() as folder:
        best = best_checkpoint(Path(folder), corpus.validation[0], cfg.best)
        fitter = trainer(cfg, devices, [], [steps, best])
        set_up: Seen = {
            "devices": devices,
            "rounding": (torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32),
            "data": data.describe(),
            "modules": [type(part).__qualname__ for part in (*task.modules(), *fitter.callbacks, data.cache)],  # type: ignore[attr-defined]
            "first weights": _weights(task.model),
            "decoding": _rescored(cfg, task) if rescores else task.decoder(*_uncertain(task.alphabet.outputs)),
        }
        if unlike and (different := _different(set_up, unlike)):
            return different
        try:
            fitter.fit(task, data)
        except Different as difference:
            return difference.seen
    sets = dict.fromkeys([*corpus.validation, *corpus.test])
    precision = fitter.precision_plugin.forward_context
    rows = [row for name in sets for row in transcribe_set(task, data, name, precision, advance=lambda done: None).rows]
    seen = {
        **set_up,
        **steps.seen,
        "best checkpoint": None if best.best_model_score is None else float(best.best_model_score),
        "figures": {k: float(v) for k, v in sorted(fitter.callback_metrics.items())},
        "transcripts": [(row["set"], row["id"], row["reference"], row["hypothesis"]) for row in rows],
    }
    return as_kept(seen)


def _rescored(cfg: DictConfig, task: CTCTask) -> list[str]:
    """What a decoder of evaluations makes of outputs and of noise in the place of a layer's."""
    decoder, (log_probs, lengths) = build(cfg.decoder)(task.alphabet), _uncertain(task.alphabet.outputs)
    decoder.attach(task.model)
    size = task.model.get_submodule("auxiliary").size  # type: ignore[attr-defined]
    noise = torch.randn(*log_probs.shape[:2], size, generator=torch.Generator().manual_seed(0))
    rows = zip(log_probs, noise, lengths.tolist(), strict=True)
    return [decoder.rescore(row[:length], layer[:length]) for row, layer, length in rows]


class Different(Exception):  # noqa: N818
    """Ends a fit. seen: what was done otherwise than by another config, up to there."""

    def __init__(self, seen: Seen) -> None:
        super().__init__(*seen)
        self.seen = seen


class Steps(pl.Callback):
    """What every step is given and does. Raises Different at the first one that `unlike` has otherwise."""

    def __init__(self, unlike: Seen | None) -> None:
        self.unlike = unlike
        self.seen: Seen = {"batches": [], "learning rates": [], "losses": [], "weights": [], "validation": []}

    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        self.seen["batches"].append(batch.ids)
        self.seen["learning rates"].append(trainer.optimizers[0].param_groups[0]["lr"])
        self.seen["losses"].append(float(outputs["loss"]))
        self.seen["weights"].append(_weights(pl_module.model))  # type: ignore[arg-type]
        self._compare()

    def on_validation_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        figures = {k: float(v) for k, v in trainer.callback_metrics.items() if k.startswith("validation")}
        self.seen["validation"].append(dict(sorted(figures.items())))
        self._compare()

    def _compare(self) -> None:
        if self.unlike is not None:
            as_far = {aspect: self.unlike[aspect][: len(values)] for aspect, values in self.seen.items()}
            if different := _different(self.seen, as_far):
                raise Different(different)


def as_kept(seen: Seen) -> Seen:
    """As JSON keeps it, where a process of its own has observed."""
    return json.loads(json.dumps(seen))  # type: ignore[no-any-return]


def _different(seen: Seen, unlike: Seen) -> Seen:
    return {aspect: value for aspect, value in as_kept(seen).items() if value != unlike[aspect]}


def differing(one: Seen, other: Seen, tolerance: float = 0.0) -> list[str]:
    """The aspects that are not the same: to the bit, or losses to a relative tolerance and nothing said of weights.
    `other` may lack aspects.
    """
    if not tolerance:
        return [aspect for aspect in other if one[aspect] != other[aspect]]
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

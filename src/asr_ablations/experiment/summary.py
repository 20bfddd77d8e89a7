"""What a run found, in one mapping and for its loggers."""

import os
from typing import Any

import pytorch_lightning as pl
import torch
from omegaconf import DictConfig

from asr_ablations.data.datamodule import SpeechData
from asr_ablations.experiment.utterances import rates
from asr_ablations.runs.folder import Run
from asr_ablations.runs.process import LAUNCHED
from asr_ablations.tools.machine import peak_memory
from asr_ablations.training.assembly import STREAMS, seed_of
from asr_ablations.training.callbacks.throughput import Throughput
from asr_ablations.training.task import CTCTask


def summarise(
    cfg: DictConfig,
    record: Run,
    fitter: pl.Trainer,
    task: CTCTask,
    data: SpeechData,
    rows: list[dict[str, Any]],
    throughput: Throughput,
) -> dict[str, Any]:
    """summary.json: rates of every set of `rows`, counts, times, memory."""
    sets = dict.fromkeys(row["set"] for row in rows)
    best = fitter.checkpoint_callback.best_model_score  # type: ignore[union-attr]
    return {
        "id": record.id,
        "name": record.name,
        "sets": {name: rates([row for row in rows if row["set"] == name]) for name in sets},
        "test_sets": list(data.corpus.test),
        "best_validation_wer": None if best is None else float(best),
        "parameters": sum(p.numel() for p in task.model.parameters()),
        "epochs": fitter.current_epoch,
        "steps": fitter.global_step,
        "train_utterances": len(data.sets["train"]),
        "train_hours": float(data.sets["train"].durations.sum()) / 3600,
        "left_out": data.left_out,
        "precision": fitter.precision,
        "seed_streams": {name: seed_of(cfg, name) for name in STREAMS},
        "ranks": fitter.world_size,
        "launch_seconds": throughput.first_step - float(os.environ[LAUNCHED]) if LAUNCHED in os.environ else None,
        "peak_memory_bytes": _peak_memory(fitter),
        "seconds": record.phases,
        **throughput.totals(),
    }


def _peak_memory(fitter: pl.Trainer) -> int:
    """Of the device's memory on a GPU, of this process on the CPU."""
    if fitter.strategy.root_device.type == "cuda":
        return int(torch.cuda.max_memory_reserved())
    return peak_memory()


def log_result(logger: Any, summary: dict[str, Any], rows: list[dict[str, Any]]) -> None:
    """Final rates for every logger, and example transcripts where the logger has tables."""
    if logger is None:
        return
    for name, found in summary["sets"].items():
        logger.log_metrics({f"final/{name}/{key}": found[key] for key in ("wer", "cer")})
    if hasattr(logger, "log_table"):
        examples = [row for name in summary["test_sets"] for row in [r for r in rows if r["set"] == name][:10]]
        columns = ["set", "id", "reference", "hypothesis"]
        logger.log_table("examples", columns=columns, data=[[row[c] for c in columns] for row in examples])


def finish(logger: Any, exit_code: int) -> None:
    """End W&B's run: it shows a crashed run as finished unless it is told otherwise."""
    if logger is not None and type(logger).__name__ == "WandbLogger":
        logger.experiment.finish(exit_code=exit_code)

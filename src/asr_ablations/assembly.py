"""From a config to the task, the data and the Trainer."""

import os
from collections.abc import Sequence
from typing import Any

import pytorch_lightning as pl
import torch
from omegaconf import DictConfig
from pytorch_lightning.callbacks import ModelCheckpoint
from pytorch_lightning.loggers import Logger

from asr_ablations.config import build
from asr_ablations.data.alphabet import Alphabet
from asr_ablations.data.module import SpeechData
from asr_ablations.errors import UsageError
from asr_ablations.run import rank
from asr_ablations.seeds import stream
from asr_ablations.task import CTCTask


def assemble(cfg: DictConfig, corpus: Any) -> tuple[CTCTask, SpeechData]:
    """Task and data of a config. Weights depend on (seed, model) only, whatever was drawn before."""
    alphabet = Alphabet(corpus.characters)
    torch.manual_seed(stream(cfg.seed, "init"))
    features = build(cfg.features)
    model = build(cfg.model, features=features.size, outputs=alphabet.outputs, rnn=build(cfg.rnn), norm=build(cfg.norm))
    build(cfg.init)(model)
    _try_optimizer(cfg, model)
    torch.manual_seed(stream(cfg.seed, "dropout", rank()))
    augment = build(cfg.augment)
    task = CTCTask(
        model=model,
        features=features,
        augment=augment,
        decoder=build(cfg.decoder)(alphabet),
        optimizer=build(cfg.optimizer),
        schedule=build(cfg.schedule),
        alphabet=alphabet,
        validation_sets=corpus.validation,
        gradient_clip=cfg.gradient_clip,
        seed=cfg.seed,
    )
    data = SpeechData(
        corpus,
        alphabet,
        build(cfg.order),
        task.output_frames,
        batch_count=cfg.batch.size,
        batch_seconds=cfg.batch.seconds,
        seed=cfg.seed,
        workers=cfg.workers,
        cache=build(cfg.cache),
        augment=augment,
    )
    return task, data


def _try_optimizer(cfg: DictConfig, model: torch.nn.Module) -> None:
    """Raise now, as a UsageError, what Lightning would raise from the middle of its set-up."""
    try:
        build(cfg.schedule)(build(cfg.optimizer)(model.parameters()), total_steps=10)
    except (ValueError, TypeError) as error:
        raise UsageError(f"optimizer or schedule: {error}") from error


def trainer(
    cfg: DictConfig, devices: int, loggers: Sequence[Logger], callbacks: list[Any], **limits: Any
) -> pl.Trainer:
    """Lightning's Trainer without anything that would print, shuffle or relaunch on its own."""
    ranks = int(os.environ.get("WORLD_SIZE", 1))
    return pl.Trainer(
        accelerator="gpu" if devices else "cpu",
        devices=ranks,
        strategy="ddp" if ranks > 1 else "auto",
        precision=lightning_precision(cfg.precision, devices),  # type: ignore[arg-type]
        max_epochs=limits.pop("max_epochs", cfg.max_epochs),
        logger=list(loggers),
        callbacks=callbacks,
        enable_progress_bar=False,
        enable_model_summary=False,
        enable_checkpointing=any(isinstance(c, ModelCheckpoint) for c in callbacks),
        num_sanity_val_steps=0,
        log_every_n_steps=10,
        use_distributed_sampler=False,
        **limits,
    )


def lightning_precision(precision: int | str, devices: int) -> str:
    """Lightning's name for the key `precision`; on a CPU, 16 is bfloat16."""
    return {32: "32-true", 16: "16-mixed" if devices else "bf16-mixed", "bf16": "bf16-mixed"}[precision]


def device_count(cfg: DictConfig) -> int:
    """GPUs that the key `gpus` asks for; 0 is the CPU. auto never takes several: that would change the batch of an
    update with the machine. Raises UsageError for more than there are.
    """
    there = torch.cuda.device_count()
    wanted = min(there, 1) if cfg.gpus == "auto" else cfg.gpus
    if wanted > there:
        raise UsageError(f"gpus={cfg.gpus}: this machine has {there}; expected auto, or 0 to {there}")
    return int(wanted)

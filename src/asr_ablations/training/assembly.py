"""From a config to the task, the data and the Trainer."""

import os
from collections.abc import Sequence
from typing import Any

import pytorch_lightning as pl
import torch
from omegaconf import DictConfig
from pytorch_lightning.callbacks import ModelCheckpoint
from pytorch_lightning.loggers import Logger

from asr_ablations.config.build import build
from asr_ablations.data.alphabet import Alphabet
from asr_ablations.data.datamodule import SpeechData
from asr_ablations.runs.identity import ranks
from asr_ablations.tools.errors import UsageError
from asr_ablations.tools.machine import rank
from asr_ablations.tools.seeds import stream
from asr_ablations.training.callbacks.loss_scale import LossScale
from asr_ablations.training.callbacks.step_on_validation import StepOnValidation
from asr_ablations.training.precision import check_fused, set_tf32, trainer_options
from asr_ablations.training.task import CTCTask

STREAMS = ("init", "order", "augment", "dropout")
"""What draws on a seed of its own, or on `seed`."""


def assemble(cfg: DictConfig, corpus: Any, alphabet: Alphabet | None = None) -> tuple[CTCTask, SpeechData]:
    """Task and data of a config. Weights depend on (seed, model) only, whatever was drawn before.

    alphabet: of a trained model, which may have been derived from a corpus that is not at hand.
    """
    alphabet = alphabet or build(cfg.alphabet)(corpus)
    set_tf32(cfg.tf32)
    torch.manual_seed(stream(seed_of(cfg, "init"), "init"))
    features = build(cfg.features)
    model = build(cfg.model, features=features.size, outputs=alphabet.outputs, rnn=build(cfg.rnn), norm=build(cfg.norm))
    build(cfg.init)(model)
    _try_training(cfg, model)
    torch.manual_seed(stream(seed_of(cfg, "dropout"), "dropout", rank()))
    augment = build(cfg.augment)
    task = CTCTask(
        model=model,
        features=features,
        augment=augment,
        decoder=build(cfg.decoder)(alphabet),
        optimizer=build(cfg.optimizer),
        schedule=build(cfg.schedule),
        gradient=build(cfg.gradient),
        loss=build(cfg.loss),
        alphabet=alphabet,
        validation_sets=corpus.validation,
        seed=cfg.seed,
        augment_seed=seed_of(cfg, "augment"),
    )
    data = SpeechData(
        corpus,
        alphabet,
        build(cfg.order),
        task.output_frames,
        batch_count=cfg.batch.size,
        batch_seconds=cfg.batch.seconds,
        seed=seed_of(cfg, "order"),
        augment_seed=seed_of(cfg, "augment"),
        workers=cfg.workers,
        cache=build(cfg.cache),
        augment=augment,
    )
    return task, data


def seed_of(cfg: DictConfig, name: str) -> int:
    """The seed of one stream: its own where seeds.<name> gives one, else `seed`."""
    own = cfg.seeds[name]
    return int(cfg.seed if own is None else own)


def _try_training(cfg: DictConfig, model: torch.nn.Module) -> None:
    """Raise now, as a UsageError, what would be raised from the middle of the set-up, after the corpus is made."""
    _training_callbacks(cfg)
    try:
        optimizer = build(cfg.optimizer)(model.parameters())
        check_fused(optimizer, cfg.precision)
        build(cfg.schedule)(optimizer, total_steps=10)
    except (ValueError, TypeError) as error:
        raise UsageError(f"optimizer or schedule: {error}") from error


def trainer(
    cfg: DictConfig, devices: int, loggers: Sequence[Logger], callbacks: list[Any], **limits: Any
) -> pl.Trainer:
    """Lightning's Trainer without anything that would print, shuffle or relaunch on its own."""
    ranks = int(os.environ.get("WORLD_SIZE", 1))
    parallel, pretrain, averaging = _training_callbacks(cfg)
    return pl.Trainer(
        accelerator="gpu" if devices else "cpu",
        devices=ranks // cfg.nodes,
        num_nodes=cfg.nodes,
        strategy=parallel.strategy(pretrain.leaves_weights_out) if ranks > 1 else "auto",
        max_epochs=limits.pop("max_epochs", cfg.max_epochs),
        logger=list(loggers),
        # the first of the others saves what was before a batch, the last restores: ours stand between
        callbacks=[*callbacks[:1], parallel, pretrain, averaging, StepOnValidation(), LossScale(), *callbacks[1:]],
        enable_progress_bar=False,
        enable_model_summary=False,
        enable_checkpointing=any(isinstance(c, ModelCheckpoint) for c in callbacks),
        num_sanity_val_steps=0,
        log_every_n_steps=10,
        use_distributed_sampler=False,
        **trainer_options(cfg.precision, devices),
        **limits,
    )


def _training_callbacks(cfg: DictConfig) -> list[Any]:
    # in this order: workers agree on weights before these are averaged
    return [build(cfg.trainer), build(cfg.pretrain), build(cfg.averaging)]


def device_count(cfg: DictConfig) -> int:
    """GPUs that the key `gpus` asks for; 0 is the CPU. auto takes one a rank: all that there are would change the batch
    of an update with the machine. Raises UsageError for more than there are.
    """
    _check_nodes(cfg.nodes)
    there = torch.cuda.device_count()
    wanted = min(there, 1) * ranks(cfg) if cfg.gpus == "auto" else cfg.gpus
    if wanted > there:
        many = f"ranks={ranks(cfg)}" if cfg.gpus == "auto" else f"gpus={cfg.gpus}"
        raise UsageError(f"{many}: this machine has {there}; expected auto, or 0 to {there}")
    return int(wanted)


def _check_nodes(nodes: int) -> None:
    """Raises UsageError unless torchrun has started as many machines as the key `nodes` says."""
    ranks, here = (int(os.environ.get(name, 1)) for name in ("WORLD_SIZE", "LOCAL_WORLD_SIZE"))
    if ranks // here != nodes:
        raise UsageError(
            f"nodes={nodes}: this run was started on {ranks // here}; start it on each of N machines with "
            "torchrun --nnodes=N --nproc-per-node=<GPUs of one> src/train.py nodes=N gpus=<GPUs of one>"
        )

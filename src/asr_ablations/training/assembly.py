"""Build the task, the data and the Trainer from a config."""

import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytorch_lightning as pl
import torch
from omegaconf import DictConfig
from pytorch_lightning.callbacks import Callback, ModelCheckpoint
from pytorch_lightning.loggers import Logger
from pytorch_lightning.plugins.environments import LightningEnvironment, TorchElasticEnvironment

from asr_ablations.config.build import build, read_content, reword_error
from asr_ablations.data.alphabet import Alphabet
from asr_ablations.data.batch import Count
from asr_ablations.data.corpus import Corpus
from asr_ablations.data.datamodule import SpeechData
from asr_ablations.native import extension as native
from asr_ablations.tools.machine import rank
from asr_ablations.tools.random_streams import stream
from asr_ablations.training.contracts import AcousticModel, Features, TrainingCallbacks
from asr_ablations.training.learning_rate import StepOnValidation
from asr_ablations.training.optimizer_steps import build_optimizer
from asr_ablations.training.precision import MASTER, SCALED, set_tf32, trainer_options
from asr_ablations.training.task import CTCTask
from asr_ablations.training.utterance_chunks import find_cutting_order
from asr_verdicts.config import ranks
from asr_verdicts.errors import UsageError

STREAMS = ("init", "order", "augment", "dropout")
"""Random streams. Each uses its seed in `seeds`, or `seed` if that is null."""


def assemble(cfg: DictConfig, corpus: Corpus, alphabet: Alphabet | None = None) -> tuple[CTCTask, SpeechData]:
    """Build task and data; `alphabet` replaces the config's. Initial weights depend on the seed and the model only."""
    alphabet = alphabet or build(cfg.alphabet)(corpus)
    set_tf32(cfg.tf32)
    torch.manual_seed(stream(get_seed(cfg, "init"), "init"))
    features: Features = build(cfg.features)
    model = _initialised_model(cfg, features.size, alphabet.outputs)
    callbacks = build_callbacks(cfg)
    # refuses wrong values before the corpus is prepared; the real calls need the device and the steps of an epoch
    assert isinstance(model, torch.nn.Module)
    _called(cfg.schedule, _called(cfg.optimizer, model.parameters()), total_steps=10)
    torch.manual_seed(stream(get_seed(cfg, "dropout"), "dropout", rank()))
    augment = build(cfg.augment)
    task = CTCTask(
        model=model,
        features=features,
        augment=augment,
        decoder=build(cfg.decoder)(alphabet),
        optimizer=partial(build_optimizer, build(cfg.optimizer), scaled=cfg.precision in SCALED),
        schedule=build(cfg.schedule),
        gradient=build(cfg.gradient),
        loss=build(cfg.loss),
        penalty=_build_optional(cfg.penalty),
        alphabet=alphabet,
        validation_sets=corpus.validation,
        seed=cfg.seed,
        augment_seed=get_seed(cfg, "augment"),
    )
    order = build(cfg.order)
    order(np.ones(1), Count(1, 1), 1, np.random.default_rng(0))  # a function checks its values when it is called
    task.cutting = find_cutting_order(order, task.loss)
    task.sixteen_bit_copies = cfg.precision == MASTER
    task.callbacks = callbacks
    data = SpeechData(
        corpus,
        alphabet,
        order,
        task.output_frames,
        batch_count=cfg.batch.size,
        batch_seconds=cfg.batch.seconds,
        seed=get_seed(cfg, "order"),
        augment_seed=get_seed(cfg, "augment"),
        workers=cfg.workers,
        cache=build(cfg.cache),
        augment=augment,
        batches=None if callbacks.debug is None else callbacks.debug.batches,
    )
    return task, data


def _initialised_model(cfg: DictConfig, features: int, outputs: int) -> AcousticModel:
    parts = {"rnn": build(cfg.rnn), "norm": build(cfg.norm)}
    model: AcousticModel = build(cfg.model, features=features, outputs=outputs, **parts)
    for word in cfg.get("overrides") or []:
        if (group := str(word).lstrip("+").partition("=")[0].partition(".")[0]) in getattr(model, "unread", ()):
            raise UsageError(f"{word}: this model has no {group}, so it would change nothing")
    build(cfg.init)(model)
    return model


def get_seed(cfg: DictConfig, name: str) -> int:
    """Return the seed of a random stream: seeds.<name> if set, else `seed`."""
    stream_seed = cfg.seeds[name]
    return int(cfg.seed if stream_seed is None else stream_seed)


def build_callbacks(cfg: DictConfig) -> TrainingCallbacks:
    """Build the callbacks that the config names."""
    optional = (cfg.pretrain, cfg.averaging, cfg.stopping, cfg.debug)
    return TrainingCallbacks(build(cfg.trainer), *map(_build_optional, optional))


def _build_optional(node: DictConfig | None) -> Any:
    """Build the object of a config node; None if the group has no choice (null)."""
    return None if node is None else build(node)


def _called(node: DictConfig, *positional: object, **keywords: object) -> Any:
    """Call a group's partial. Raise UsageError for values that its class refuses."""
    try:
        return build(node)(*positional, **keywords)
    except UsageError:
        raise
    except (ValueError, TypeError) as error:
        raise UsageError(reword_error(node._key(), read_content(node), {}, error)) from error


def trainer(
    cfg: DictConfig,
    devices: int,
    loggers: Sequence[Logger],
    callbacks: Sequence[Callback],
    *,
    configured: TrainingCallbacks | None = None,
    folder: Path | None = None,
    **limits: Any,
) -> pl.Trainer:
    """Build a Lightning Trainer that does not print, shuffle or relaunch by itself.

    devices: GPUs to use on this machine; 0 means the CPU.
    configured: the task's callbacks; None builds them from the config.
    limits: Lightning's, such as max_epochs (-1: no limit), which defaults to the config's.
    """
    use_native(cfg, devices)
    ranks = int(os.environ.get("WORLD_SIZE", 1))
    parallel, pretrain, averaging, stopping, debug = configured or build_callbacks(cfg)
    if debug is not None:
        debug.folder = folder
    each = [parallel, pretrain, averaging, StepOnValidation(), stopping, debug]
    ours = [callback for callback in each if callback is not None]
    options = trainer_options(cfg.precision, devices)
    # in a Slurm job, Lightning would expect ranks started by srun, and refuse other variables of Slurm
    environment = TorchElasticEnvironment() if TorchElasticEnvironment.detect() else LightningEnvironment()
    return pl.Trainer(
        accelerator="gpu" if devices else "cpu",
        devices=ranks // cfg.nodes,
        num_nodes=cfg.nodes,
        strategy=parallel.strategy(pretrain is not None and pretrain.leaves_weights_out) if ranks > 1 else "auto",
        accumulate_grad_batches=cfg.batch.accumulate,
        **{"max_epochs": cfg.max_epochs, **limits},
        logger=list(loggers),
        # the first callback saves the state before a batch, the last one restores it; ours go in between
        callbacks=[*callbacks[:1], *ours, *callbacks[1:]],
        enable_progress_bar=False,
        enable_model_summary=False,
        enable_checkpointing=any(isinstance(c, ModelCheckpoint) for c in callbacks),
        num_sanity_val_steps=0,
        log_every_n_steps=10,
        use_distributed_sampler=False,
        **{**options, "plugins": [environment, *options.get("plugins", [])]},
    )


def use_native(cfg: DictConfig, devices: int) -> str:
    """Use the native library on a CPU, as the key `native` asks; return its target, or none."""
    return native.use(False if devices else cfg.native)


def device_count(cfg: DictConfig) -> int:
    """Return the GPUs to use, 0 for the CPU. auto: one per rank, so that batches do not depend on the machine."""
    check_nodes(cfg.nodes)
    if cfg.gpus == 0:
        return 0
    available = torch.cuda.device_count()
    wanted = min(available, 1) * ranks(cfg) if cfg.gpus == "auto" else cfg.gpus
    if wanted > available:
        request = f"ranks={ranks(cfg)}" if cfg.gpus == "auto" else f"gpus={cfg.gpus}"
        raise UsageError(f"{request}: this machine has {available} GPUs; expected auto, or at most {available}")
    return int(wanted)


def check_nodes(nodes: int) -> None:
    """Raise UsageError unless torchrun has started this run on `nodes` machines."""
    ranks, local_ranks = (int(os.environ.get(name, 1)) for name in ("WORLD_SIZE", "LOCAL_WORLD_SIZE"))
    if ranks // local_ranks != nodes:
        raise UsageError(
            f"nodes={nodes}: this run was started on {ranks // local_ranks}; start it on each of N machines with "
            "torchrun --nnodes=N --nproc-per-node=<GPUs per machine> src/train.py nodes=N gpus=<GPUs per machine>"
        )

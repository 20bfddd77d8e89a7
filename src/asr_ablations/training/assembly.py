"""From a config to the task, the data and the Trainer."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
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
from torch.nn.modules.module import register_module_parameter_registration_hook

from asr_ablations.config.build import build, by_key, content_of
from asr_ablations.data.alphabet import Alphabet
from asr_ablations.data.batch import Count
from asr_ablations.data.corpus import Corpus
from asr_ablations.data.datamodule import SpeechData
from asr_ablations.native import extension as native
from asr_ablations.runs.checkpoint import first_line
from asr_ablations.tools.checks import is_whole
from asr_ablations.tools.errors import is_lack_of_memory
from asr_ablations.tools.files import amount
from asr_ablations.tools.machine import available_memory, rank
from asr_ablations.tools.random_streams import stream
from asr_ablations.training.contracts import (
    AcousticModel,
    Debugging,
    Features,
    OptimizerFactory,
    ParallelTraining,
    Pretraining,
    Stopping,
    WeightAveraging,
)
from asr_ablations.training.learning_rate import StepOnValidation
from asr_ablations.training.optimizer_steps import LossScale, optimizer_of
from asr_ablations.training.precision import MASTER, SCALED, TrainerOptions, set_tf32, trainer_options
from asr_ablations.training.task import CTCTask
from asr_ablations.training.utterance_chunks import cutting_order
from asr_verdicts.config import ranks
from asr_verdicts.errors import UsageError

STREAMS = ("init", "order", "augment", "dropout")
"""Random streams: each has a seed of its own in `seeds`, or takes `seed`."""


def assemble(cfg: DictConfig, corpus: Corpus, alphabet: Alphabet | None = None) -> tuple[CTCTask, SpeechData]:
    """Task and data of a config. The weights depend on (seed, model) only, whatever was drawn before.

    alphabet: of a trained model, which may have been derived from a corpus that is not available; None for the
    one that the config describes.
    """
    alphabet = alphabet or build(cfg.alphabet)(corpus)
    set_tf32(cfg.tf32)
    torch.manual_seed(stream(seed_of(cfg, "init"), "init"))
    features: Features = build(cfg.features)
    model = _initialised_model(cfg, features.size, alphabet.outputs)
    _try_training(cfg, model)
    torch.manual_seed(stream(seed_of(cfg, "dropout"), "dropout", rank()))
    augment = build(cfg.augment)
    task = CTCTask(
        model=model,
        features=features,
        augment=augment,
        decoder=build(cfg.decoder)(alphabet),
        optimizer=_optimizer(cfg),
        schedule=build(cfg.schedule),
        gradient=build(cfg.gradient),
        loss=build(cfg.loss),
        penalty=_build_optional(cfg.penalty),
        alphabet=alphabet,
        validation_sets=corpus.validation,
        seed=cfg.seed,
        augment_seed=seed_of(cfg, "augment"),
    )
    order = build(cfg.order)
    order(np.ones(1), Count(1, 1), 1, np.random.default_rng(0))  # a function checks its values when it is called
    task.cutting = cutting_order(order, task.loss)
    task.sixteen_bit_copies = cfg.precision == MASTER
    debugging = _debugging(cfg, None)
    data = SpeechData(
        corpus,
        alphabet,
        order,
        task.output_frames,
        batch_count=cfg.batch.size,
        batch_seconds=cfg.batch.seconds,
        seed=seed_of(cfg, "order"),
        augment_seed=seed_of(cfg, "augment"),
        workers=cfg.workers,
        cache=build(cfg.cache),
        augment=augment,
        batches=None if debugging is None else debugging.batches,
    )
    return task, data


def _initialised_model(cfg: DictConfig, features: int, outputs: int) -> AcousticModel:
    parts = {"rnn": build(cfg.rnn), "norm": build(cfg.norm)}
    with _within_memory(cfg.model):
        model: AcousticModel = build(cfg.model, features=features, outputs=outputs, **parts)
    for word in cfg.get("overrides") or []:
        if (group := str(word).lstrip("+").partition("=")[0].partition(".")[0]) in getattr(model, "unread", ()):
            raise UsageError(f"{word}: this model has no {group}, so it would change nothing")
    build(cfg.init)(model)
    return model


@contextmanager
def _within_memory(node: DictConfig) -> Iterator[None]:
    """Raises MemoryError, with the sizes of the model, where the free memory cannot hold its weights, and before they
    are filled: the system would end the process without a word.
    """
    free, total = available_memory(), 0
    sizes = " ".join(f"model.{key}={value}" for key, value in content_of(node).items() if is_whole(value))

    def add(_: torch.nn.Module, name: str, weights: torch.nn.Parameter | None) -> None:
        nonlocal total
        total += 0 if weights is None or weights.is_meta else weights.nbytes
        if free is not None and total > free:
            raise MemoryError(f"{sizes}: the weights take more than the {amount(free)} of memory that are free")

    added = register_module_parameter_registration_hook(add)
    try:
        yield
    except RuntimeError as error:
        if is_lack_of_memory(error):
            raise MemoryError(f"{sizes}: {first_line(error)}") from error
        raise
    finally:
        added.remove()


def _optimizer(cfg: DictConfig) -> OptimizerFactory:
    make: OptimizerFactory = build(cfg.optimizer)
    return partial(optimizer_of, make, scaled=cfg.precision in SCALED)


def seed_of(cfg: DictConfig, name: str) -> int:
    """The seed of a random stream: seeds.<name> where it is set, else `seed`."""
    own = cfg.seeds[name]
    return int(cfg.seed if own is None else own)


def _try_training(cfg: DictConfig, model: AcousticModel) -> None:
    """Build what training needs once, so that a wrong value is reported before the corpus is prepared.

    Raises UsageError for what would otherwise be raised in the middle of the set-up.
    """
    _training_callbacks(cfg)
    assert isinstance(model, torch.nn.Module)
    optimizer = _called(cfg.optimizer, model.parameters())
    _called(cfg.schedule, optimizer, total_steps=10)


def _build_optional(node: DictConfig | None) -> Any:
    """The object that a node describes; None for a group without a choice (null)."""
    return None if node is None else build(node)


def _called(node: DictConfig, *positional: object, **keywords: object) -> Any:
    """Call a group's partial. Raises UsageError for values that its class refuses."""
    try:
        return build(node)(*positional, **keywords)
    except UsageError:
        raise
    except (ValueError, TypeError) as error:
        raise UsageError(by_key(node._key(), content_of(node), {}, error)) from error


def trainer(
    cfg: DictConfig,
    devices: int,
    loggers: Sequence[Logger],
    callbacks: Sequence[Callback],
    *,
    folder: Path | None = None,
    max_epochs: int | None = None,
    max_steps: int = -1,
    limit_train_batches: int | None = None,
    limit_val_batches: int | None = None,
) -> pl.Trainer:
    """Lightning's Trainer without anything that would print, shuffle or relaunch on its own.

    devices: GPUs that the run uses on this machine; 0 is the CPU. folder: the run's, None without one. The
    limits are Lightning's: max_epochs is the config's by default, and -1 stands for no limit.
    """
    use_native(cfg, devices)
    ranks = int(os.environ.get("WORLD_SIZE", 1))
    parallel, pretrain, averaging, stopping = _training_callbacks(cfg)
    each = [parallel, pretrain, averaging, StepOnValidation(), LossScale(), stopping, _debugging(cfg, folder)]
    ours = [callback for callback in each if callback is not None]
    return pl.Trainer(
        accelerator="gpu" if devices else "cpu",
        devices=ranks // cfg.nodes,
        num_nodes=cfg.nodes,
        strategy=parallel.strategy(pretrain is not None and pretrain.leaves_weights_out) if ranks > 1 else "auto",
        max_epochs=cfg.max_epochs if max_epochs is None else max_epochs,
        max_steps=max_steps,
        accumulate_grad_batches=cfg.batch.accumulate,
        limit_train_batches=limit_train_batches,
        limit_val_batches=limit_val_batches,
        logger=list(loggers),
        # the first callback saves the state before a batch, the last one restores it: ours stand between them
        callbacks=[*callbacks[:1], *ours, *callbacks[1:]],
        enable_progress_bar=False,
        enable_model_summary=False,
        enable_checkpointing=any(isinstance(c, ModelCheckpoint) for c in callbacks),
        num_sanity_val_steps=0,
        log_every_n_steps=10,
        use_distributed_sampler=False,
        **_with_environment(trainer_options(cfg.precision, devices)),
    )


def _with_environment(options: TrainerOptions) -> TrainerOptions:
    """The options with torchrun's environment, or that of a single process. Lightning would take a job of Slurm's for
    ranks that srun started, and refuse the variables of any other.
    """
    environment = TorchElasticEnvironment() if TorchElasticEnvironment.detect() else LightningEnvironment()
    return {**options, "plugins": [environment, *options.get("plugins", [])]}


def use_native(cfg: DictConfig, devices: int) -> str:
    """Use the native library as the key `native` says, on a CPU; returns its target, or none."""
    return native.use(False if devices else cfg.native)


def _training_callbacks(
    cfg: DictConfig,
) -> tuple[ParallelTraining, Pretraining | None, WeightAveraging | None, Stopping | None]:
    # in this order: workers agree on weights before these are averaged
    return build(cfg.trainer), *(_build_optional(node) for node in (cfg.pretrain, cfg.averaging, cfg.stopping))


def _debugging(cfg: DictConfig, folder: Path | None) -> Debugging | None:
    debugging: Debugging | None = None if cfg.debug is None else build(cfg.debug)(folder)
    return debugging


def device_count(cfg: DictConfig) -> int:
    """Number of GPUs that the key `gpus` asks for; 0 is the CPU. auto takes one per rank: with all GPUs of the machine
    the batch of an update would change with the machine. Raises UsageError for more than the machine has.
    """
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
    """Raises UsageError unless torchrun has started as many machines as the key `nodes` says."""
    ranks, local_ranks = (int(os.environ.get(name, 1)) for name in ("WORLD_SIZE", "LOCAL_WORLD_SIZE"))
    if ranks // local_ranks != nodes:
        raise UsageError(
            f"nodes={nodes}: this run was started on {ranks // local_ranks}; start it on each of N machines with "
            "torchrun --nnodes=N --nproc-per-node=<GPUs per machine> src/train.py nodes=N gpus=<GPUs per machine>"
        )

"""Build the task, the data and the Trainer from a config."""

import inspect
import os
from collections.abc import Callable, Iterable, Sequence
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
from torch import nn
from torch.optim import Adam, AdamW, Optimizer

from asr_ablations.config.build import build, read_content, reword_error
from asr_ablations.data.alphabet import Alphabet
from asr_ablations.data.batch import Augmentation, Count
from asr_ablations.data.corpus import Corpus
from asr_ablations.data.datamodule import SpeechData
from asr_ablations.native import extension as native
from asr_ablations.tools.machine import rank
from asr_ablations.tools.random_streams import stream
from asr_ablations.training.auxiliary import add_auxiliary
from asr_ablations.training.contracts import (
    AcousticModel,
    Checkpoint,
    CuttingOrder,
    Decoder,
    Features,
    FrameLoss,
    Loss,
    MaskingModel,
    OptimizerFactory,
    RescoringDecoder,
    TrainingCallbacks,
)
from asr_ablations.training.parameter_groups import RATE, group_parameters
from asr_ablations.training.precision import MASTER, SCALED, set_tf32, trainer_options
from asr_ablations.training.task import CTCTask, StepOnValidation, view_seeds
from asr_verdicts.config import ranks
from asr_verdicts.errors import UsageError, choices

STREAMS = ("init", "order", "augment", "dropout")
"""Names of the random streams, which are the keys of `seeds` in a config."""
FUSED = (Adam, AdamW)
"""Optimizers whose fused version is used. It updates all weights at once and skips an overflowed step on the GPU. SGD
is excluded because its fused version cannot initialise the momentum of weights that start training later, and Adagrad
because torch 2.11 fuses it only on CPUs.
"""
WAYS = ("fused", "foreach", "capturable", "differentiable")
"""Optimizer options that change how a step is computed but not its result."""


def build_decoder(node: DictConfig, alphabet: Alphabet) -> Decoder:
    """Build a decoder that needs only log-probabilities. Raise UsageError for any other decoder."""
    decoder: Decoder = build(node)(alphabet)
    if isinstance(decoder, RescoringDecoder):
        raise UsageError(f"decoder: {type(decoder).__name__} rescores transcripts, which only src/evaluate.py can do")
    return decoder


def assemble(cfg: DictConfig, corpus: Corpus, alphabet: Alphabet | None = None) -> tuple[CTCTask, SpeechData]:
    """Build a run's task and data. If given, `alphabet` replaces the config's alphabet."""
    alphabet = alphabet or build(cfg.alphabet)(corpus)
    set_tf32(cfg.tf32)
    torch.manual_seed(stream(get_seed(cfg, "init"), "init"))
    features: Features = build(cfg.features)
    parts = {"rnn": build(cfg.rnn), "norm": build(cfg.norm)}
    model: AcousticModel = build(cfg.model, features=features.size, outputs=alphabet.outputs, **parts)
    for word in cfg.get("overrides") or []:
        if (group := str(word).lstrip("+").partition("=")[0].partition(".")[0]) in getattr(model, "unread", ()):
            raise UsageError(f"{word}: this model has no {group}, so it would change nothing")
    assert isinstance(model, nn.Module)
    if (auxiliary := _build_optional(cfg.auxiliary)) is not None:
        with torch.random.fork_rng([]):  # so that the model's other weights are the same as without an auxiliary loss
            add_auxiliary(model, auxiliary(model, features.size, alphabet.outputs))
    build(cfg.init)(model)
    callbacks = build_callbacks(cfg)
    # a trial call reports wrong values before the slow preparation; the real one needs the device and the step count
    make_optimizer = optimizer_factory(cfg.optimizer, cfg.precision in SCALED)
    trial = _called(cfg.optimizer, make_optimizer, model.named_parameters())
    _called(cfg.schedule, build(cfg.schedule), trial, total_steps=10)
    torch.manual_seed(stream(get_seed(cfg, "dropout"), "dropout", rank()))
    augment = build(cfg.augment)
    task = CTCTask(
        model=model,
        features=features,
        augment=augment,
        decoder=build_decoder(cfg.decoder, alphabet),
        optimizer=make_optimizer,
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
    order(np.ones(1), Count(1, 1), 1, np.random.default_rng(0))  # a trial call that reports wrong values
    if getattr(features, "samples", False):
        if _changes_features(augment):
            raise UsageError(
                "features=waveform: augment would change samples as if they were frames of a spectrum: expected "
                "augment=none, speed, noise, reverb or measured_reverb; model.masks masks frames inside the model"
            )
        if isinstance(order, CuttingOrder):
            raise UsageError(
                "order=chunked: it cuts feature frames, but features=waveform has samples: expected order=bucketed, "
                "shuffled, sortagrad or sorted"
            )
    if isinstance(order, CuttingOrder):
        if auxiliary is not None:
            raise UsageError(
                "order=chunked: an auxiliary loss needs whole utterances: expected auxiliary=none, or order=bucketed, "
                "shuffled, sortagrad or sorted"
            )
        if not isinstance(task.loss, FrameLoss):
            raise UsageError(
                "order=chunked: CTC cannot train on chunks, because its labels belong to a whole utterance and not to "
                "frames: expected a loss with a label for each frame (loss=framewise, loss=aligned), or "
                "order=bucketed, shuffled, sortagrad or sorted"
            )
        task.cutting = order
    masked = isinstance(model, MaskingModel) and model.masks_frames
    if getattr(task.loss, "views", 1) > 1 and not (masked or _differs_between_views(augment, features.size, task.loss)):
        raise UsageError(
            "loss=cr_ctc: both views of an utterance would be equal, because augment does not change features: "
            "expected augment=specaugment, speed_specaugment or warp_specaugment, or model.masks with features=waveform"
        )
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


def _differs_between_views(augment: Augmentation, size: int, loss: Loss) -> bool:
    """Return whether `augment` gives each view of a batch different features. size: number of features per frame."""
    ids, features = [f"view {i}" for i in range(16)], torch.linspace(-1, 1, 200 * size).reshape(1, 200, size)
    lengths = torch.full((len(ids),), 200)
    first, *others = (
        augment(features.expand(len(ids), -1, -1), lengths, ids, seed, 0)
        for seed in view_seeds(0, getattr(loss, "views", 1))
    )
    return not any(torch.equal(first, other) for other in others)


def _changes_features(augment: Augmentation) -> bool:
    """Return whether `augment` changes features, tried on frames with as many features as any spectrum has."""
    ids, features = [f"utterance {i}" for i in range(16)], torch.linspace(-1, 1, 200 * 80).reshape(1, 200, 80)
    try:
        changed = augment(features.expand(len(ids), -1, -1), torch.full((len(ids),), 200), ids, 0, 0)
    except UsageError:  # a value that these frames do not allow, so they would be changed
        return True
    return not torch.equal(changed, features.expand(len(ids), -1, -1))


def get_seed(cfg: DictConfig, name: str) -> int:
    """Return the seed of the random stream `name`: seeds.<name> if set, otherwise `seed`."""
    stream_seed = cfg.seeds[name]
    return int(cfg.seed if stream_seed is None else stream_seed)


def build_callbacks(cfg: DictConfig) -> TrainingCallbacks:
    """Build the callbacks chosen in the config, in the order in which they run."""
    pretrain, averaging, stopping, debug = map(_build_optional, (cfg.pretrain, cfg.averaging, cfg.stopping, cfg.debug))
    own = tuple(map(build, cfg.callbacks.values()))
    callbacks = TrainingCallbacks(build(cfg.trainer), pretrain, averaging, stopping, debug, own)
    averaging = getattr(getattr(build(cfg.optimizer), "func", None), "averaging", None)
    if averaging is not None and callbacks.averaging is not None:
        raise UsageError("averaging: this optimizer averages the weights itself; expected averaging=none")
    return callbacks if averaging is None else callbacks._replace(averaging=averaging())


def _build_optional(node: DictConfig | None) -> Any:
    """Build the object that a config node describes. Return None if the node is null (no option chosen)."""
    return None if node is None else build(node)


def _called(node: DictConfig, function: Callable[..., Any], *positional: object, **keywords: object) -> Any:
    """Call the function that a config node describes. Raise UsageError if it rejects its arguments."""
    try:
        return function(*positional, **keywords)
    except UsageError:
        raise
    except (ValueError, TypeError) as error:
        raise UsageError(reword_error(node._key(), read_content(node), {}, error)) from error


def optimizer_factory(node: DictConfig, scaled: bool) -> OptimizerFactory:
    """Return the function that builds a run's optimizer. A user's own option may lack the keys of groups."""
    options = read_content(node)
    rates, decays = options.get("rates"), options.get("decay_norms_and_biases", True)
    if not decays and not options.get("weight_decay"):
        raise choices("optimizer.decay_norms_and_biases", "false", "true, because optimizer.weight_decay=0")
    return partial(build_optimizer, build(node), rates=rates, decay_norms_and_biases=decays, scaled=scaled)


def build_optimizer(
    make: OptimizerFactory, parameters: Iterable[tuple[str, nn.Parameter]], *, scaled: bool, **grouping: Any
) -> Optimizer:
    """Build the optimizer. On a CPU, use its fused version if possible, whose steps take a third of the time.

    On a GPU, if the loss is scaled, the optimizer is also fused or, if that is not possible, counts its steps on the
    device if torch supports it. Options in WAYS keep the values set in the config, and loading a checkpoint from a
    different device does not change them. grouping: further arguments of group_parameters.
    """
    named = list(parameters)
    way = _way(make, named[0][1].device.type, scaled=scaled)
    optimizer = partial(make, **way)(group_parameters(named, **grouping))
    for group in optimizer.param_groups:
        group["lr"] *= group.get(RATE, 1)
    optimizer.register_load_state_dict_pre_hook(_keep_way)
    return optimizer


def _way(make: OptimizerFactory, device: str, *, scaled: bool) -> dict[str, bool]:
    kind, given = getattr(make, "func", make), getattr(make, "keywords", {})
    if device != "cpu" and not scaled:
        return {}
    if kind in FUSED and not given.keys() & set(WAYS):
        return {"fused": True}
    can_count = "capturable" in inspect.signature(kind).parameters and not given.get("fused")
    return {"capturable": True} if device != "cpu" and can_count and "capturable" not in given else {}


def _keep_way(optimizer: Optimizer, state: Checkpoint) -> Checkpoint:
    """Return a checkpoint's optimizer state with the values that `optimizer` itself uses for the options in WAYS."""
    groups = [
        {**saved, **{way: group[way] for way in WAYS if way in group}}
        for saved, group in zip(state["param_groups"], optimizer.param_groups, strict=True)
    ]
    return {**state, "param_groups": groups}


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
    """Build a Lightning Trainer that does not print, shuffle data or start processes on its own.

    devices: number of GPUs to use on this machine; 0 means the CPU.
    configured: the task's callbacks; None builds them from the config.
    limits: further Trainer arguments, such as max_epochs (-1 means no limit; the default is the config's value).
    """
    use_native(cfg, devices)
    ranks = int(os.environ.get("WORLD_SIZE", 1))
    parallel, pretrain, averaging, stopping, debug, own = configured or build_callbacks(cfg)
    if debug is not None:
        debug.folder = folder
    each = [parallel, pretrain, averaging, StepOnValidation(), stopping, debug, *own]
    ours = [callback for callback in each if callback is not None]
    options = trainer_options(cfg.precision, devices)
    # otherwise, inside a Slurm job, Lightning would assume that srun has started the ranks
    environment = TorchElasticEnvironment() if TorchElasticEnvironment.detect() else LightningEnvironment()
    return pl.Trainer(
        accelerator="gpu" if devices else "cpu",
        devices=ranks // cfg.nodes,
        num_nodes=cfg.nodes,
        strategy=parallel.strategy(pretrain is not None and pretrain.leaves_weights_out) if ranks > 1 else "auto",
        accumulate_grad_batches=cfg.batch.accumulate,
        **{"max_epochs": cfg.max_epochs, **limits},
        logger=list(loggers),
        # our callbacks go in between, because the first one saves the state before a batch and the last one restores it
        callbacks=[*callbacks[:1], *ours, *callbacks[1:]],
        enable_progress_bar=False,
        enable_model_summary=False,
        enable_checkpointing=any(isinstance(c, ModelCheckpoint) for c in callbacks),
        num_sanity_val_steps=0,
        log_every_n_steps=10,
        default_root_dir=folder,  # where a callback of the user's may write
        use_distributed_sampler=False,
        **{**options, "plugins": [environment, *options.get("plugins", [])]},
    )


def use_native(cfg: DictConfig, devices: int) -> str:
    """Load the native library if the run uses a CPU and the key `native` allows it. Return its target, or "none"."""
    return native.use(False if devices else cfg.native)


def device_count(cfg: DictConfig) -> int:
    """Return the number of GPUs to use; 0 means the CPU. gpus=auto uses one GPU per rank on machines with GPUs."""
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

"""Train a config to measure its speed, either in a bare loop or for a few steps in Lightning's Trainer."""

import copy
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from tempfile import TemporaryDirectory
from typing import Any, TypeAlias, TypeVar, cast

import pytorch_lightning as pl
import torch
from omegaconf import DictConfig
from pytorch_lightning.loggers import CSVLogger

from asr_ablations import SAMPLE_RATE
from asr_ablations.config.build import build
from asr_ablations.data.batch import Batch
from asr_ablations.data.corpus import Corpus
from asr_ablations.data.datamodule import SpeechData
from asr_ablations.training.assembly import assemble, device_count, trainer
from asr_ablations.training.callbacks.progress import ProgressBar
from asr_ablations.training.callbacks.utilisation import Throughput

B = TypeVar("B")

Context: TypeAlias = Callable[[], AbstractContextManager[object]]
"""Function that returns the autocast context for a forward pass."""

Features: TypeAlias = Callable[[B], tuple[torch.Tensor, torch.Tensor]]
"""Function that computes a batch's features (B, T, D) and their lengths (B,)."""


def prepare_corpus(cfg: DictConfig) -> Corpus:
    """Build a config's corpus, and prepare it for reading."""
    corpus: Corpus = build(cfg.data)
    corpus.prepare()
    return corpus


def name_device(device: torch.device) -> str:
    """Return the name of a GPU, or "CPU"."""
    return torch.cuda.get_device_name(device) if device.type == "cuda" else "CPU"


def sum_hours(batches: Sequence[Batch]) -> float:
    """Return the total hours of audio in the batches, without padding."""
    return sum(int(batch.lengths.sum()) for batch in batches) / SAMPLE_RATE / 3600


class BareTraining:
    """Trains a config's task in a bare loop with its device and precision. features: feature extraction on the CPU."""

    def __init__(self, cfg: DictConfig, corpus: Corpus) -> None:
        self.cfg, self.device = cfg, torch.device("cuda" if device_count(cfg) else "cpu")
        self.task, self.data = assemble(cfg, corpus)
        self.data.setup()
        self.features = copy.deepcopy(self.task.features)
        plugin = trainer(cfg, device_count(cfg), [], []).precision_plugin
        plugin.convert_module(self.task)
        self.task.to(self.device).train()
        self.precision: Context = plugin.forward_context
        self.scaler: torch.amp.GradScaler | None = getattr(plugin, "scaler", None)

    def make_step(
        self,
        model: torch.nn.Module,
        features: Features[B] | None = None,
        optimizer: torch.optim.Optimizer | None = None,
    ) -> Callable[[B], None]:
        """Return a function that trains `model` on one batch with the task's loss.

        features: function that computes a batch's features. For `features` and `optimizer`, None uses the task's own.
        """
        parameters = list(model.parameters())
        stepped = optimizer or self.task.make_optimizer(model.named_parameters())
        weights = next(iter(parameters)).dtype
        compute = features or cast(Features[B], self.task.normalised_features)

        def step(batch: B) -> None:
            with self.precision():
                x, lengths = compute(batch)
                if model is self.task.model:
                    log_probs, lengths = self.task.log_probs(x, lengths)
                else:
                    logits, lengths = model(x.to(weights), lengths)
                    log_probs = logits.float().log_softmax(dim=-1)
                with torch.autocast(x.device.type, enabled=False):
                    # the loss reads only the targets, which the port's batches also have
                    loss = self.task.loss(log_probs, lengths, cast(Batch, batch))
            treat = partial(self.task.gradient.before_step, parameters, step=0, seed=0, log=drop_figures)
            update(loss, stepped, treat, self.scaler)

        return step


def drop_figures(*arguments: object, **options: object) -> None:
    """Do nothing. This replaces the function that logs a step's values."""


def update(
    loss: torch.Tensor, optimizer: torch.optim.Optimizer, treat: Callable[[], None], scaler: torch.amp.GradScaler | None
) -> None:
    """Run the backward pass, call `treat` to modify the gradients, and take an optimizer step."""
    optimizer.zero_grad()
    if scaler is None:
        loss.backward()
        treat()
        optimizer.step()
    else:
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        treat()
        scaler.step(optimizer)
        scaler.update()


def fit_steps(
    cfg: DictConfig,
    corpus: Corpus,
    steps: int,
    callbacks: Sequence[pl.Callback],
    before: Callable[[SpeechData], object] | None = None,
) -> None:
    """Train the first `steps` batches in Lightning's Trainer. before: function called with the data before training."""
    task, data = assemble(cfg, corpus)
    data.setup()
    with TemporaryDirectory() as folder:
        every = [Throughput(), ProgressBar(False, quiet=True), *callbacks]
        limits: Any = {"max_epochs": 1, "limit_train_batches": steps, "limit_val_batches": 0}
        fitter = trainer(cfg, device_count(cfg), [CSVLogger(folder, name="", version="")], every, **limits)
        if before is not None:
            before(data)
        fitter.fit(task, data)

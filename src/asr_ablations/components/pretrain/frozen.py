"""Frozen parts: some parts of a model keep their weights, always or in the first epochs (Baevski et al. 2020)."""

from collections.abc import Sequence

import pytorch_lightning as pl

from asr_ablations.tools.checks import whole
from asr_ablations.training.contracts import Pretraining
from asr_ablations.training.parameter_groups import is_within, list_parts
from asr_ablations.training.task import task_of
from asr_verdicts.errors import choices


class FrozenParts(Pretraining):
    """Trains the model without `parts` in the epochs before `until`, or in all epochs if `until` is None.

    Frozen parameters get no gradient, so the optimizer skips them, and neither weight decay, penalty=l2 nor
    gradient=constraint changes them. Frozen normalisation uses its running statistics, as in recognition, and does not
    update them. Dropout stays on, as in fairseq and in Hugging Face's trainer.

    Raises UsageError if a part is not in the model, nothing would be trained, or `until` is not before `max_epochs`.
    """

    leaves_weights_out = True

    def __init__(self, *, parts: Sequence[str] | None, until: int | None, max_epochs: int) -> None:
        if not (isinstance(parts, list) and parts):
            raise choices("pretrain.parts", parts, "a list of parts of the model, such as [convolutions, recurrent.0]")
        if until is not None:
            whole("pretrain.until", until, 1, max_epochs - 1, also="null: always frozen")
        self.parts, self.until = parts, until

    def setup(self, trainer: pl.Trainer, pl_module: pl.LightningModule, stage: str) -> None:
        names = [name for name, _ in task_of(pl_module).model.named_parameters()]
        for part in self.parts:
            if not any(is_within(name, part) for name in names):
                raise choices("pretrain.parts", part, list_parts(names))
        if all(self._is_frozen(name) for name in names):
            raise choices("pretrain.parts", self.parts, "a part that remains to be trained")

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        # Lightning does not call on_train_epoch_start if a run resumes in the middle of an epoch
        trained = self.until is not None and trainer.current_epoch >= self.until
        model = task_of(pl_module).model
        for name, parameter in model.named_parameters():
            if self._is_frozen(name):
                parameter.requires_grad_(trained)
        for name, module in model.named_modules():
            has_statistics = any(buffer.is_floating_point() for buffer in module.buffers(recurse=False))
            if self._is_frozen(name) and has_statistics:
                module.training = trained  # without module.eval(), because cuDNN has no gradients in evaluation

    on_train_epoch_start = on_train_start

    def _is_frozen(self, name: str) -> bool:
        return any(is_within(name, part) for part in self.parts)

"""A copy of callbacks=weight_norms: say here what it changes."""

from collections import defaultdict

import pytorch_lightning as pl
import torch

from asr_ablations.tools.checks import whole
from asr_ablations.training.task import task_of


class Mine(pl.Callback):
    """Logs the L2 norm of the weights of each layer after every epoch, as weight_norm/<layer>.

    A layer is named by the first `depth` parts of its parameters' names. Biases and norms count as weights. Raises
    UsageError if `depth` is below 1.
    """

    def __init__(self, *, depth: int) -> None:
        self.depth = whole("callbacks.mine.depth", depth, 1)

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        layers: dict[str, list[torch.Tensor]] = defaultdict(list)
        for name, weight in task_of(pl_module).model.named_parameters():
            layers[".".join(name.split(".")[: self.depth])].append(weight.detach().float().flatten())
        for layer, weights in layers.items():
            pl_module.log(f"weight_norm/{layer}", torch.linalg.vector_norm(torch.cat(weights)), batch_size=1)

"""Handle a model's auxiliary loss: a submodule that only training calls, unless it conditions later layers."""

import copy
from typing import Any, cast

import torch
from torch import nn

from asr_ablations.data.batch import Batch
from asr_ablations.training.contracts import Auxiliary

AUXILIARY = "auxiliary"
"""Name of the auxiliary loss within the model. A submodule is trained, averaged and saved together with the model."""
CONDITIONING = "conditioning"
"""Name of the auxiliary loss if it also conditions the model's later layers. It is then part of recognition."""


def auxiliary_of(model: object) -> Auxiliary | None:
    """Return the auxiliary loss of a model, or None if it has none."""
    return cast(Auxiliary | None, getattr(model, AUXILIARY, getattr(model, CONDITIONING, None)))


def add_auxiliary(model: nn.Module, auxiliary: nn.Module) -> None:
    """Add an auxiliary loss to a model. If the loss has a `condition`, this hook changes the output of its layer."""
    condition = getattr(auxiliary, "condition", None)
    model.add_module(AUXILIARY if condition is None else CONDITIONING, auxiliary)
    if condition is not None:
        model.get_submodule(cast(Auxiliary, auxiliary).layer).register_forward_hook(condition)


def without_auxiliary(model: object) -> nn.Module:
    """Copy a model, but leave out an auxiliary loss that recognition does not use."""
    copied = copy.deepcopy(cast(nn.Module, model))
    copied._modules.pop(AUXILIARY, None)
    return copied


def count_parameters(model: object) -> int:
    """Count the parameters used in recognition. Those of an auxiliary loss count only if it conditions later layers."""
    return sum(p.numel() for name, p in cast(nn.Module, model).named_parameters() if not is_auxiliary(name))


def is_auxiliary(name: str) -> bool:
    """Return whether only the auxiliary loss uses the parameter or layer of this name."""
    return name.partition(".")[0] == AUXILIARY


def is_head(name: str) -> bool:
    """Return whether the parameter or layer of this name belongs to an auxiliary loss of either kind."""
    return name.partition(".")[0] in (AUXILIARY, CONDITIONING)


class Activations:
    """Records the output of the layer on which the auxiliary loss is computed, for forward passes within the context.

    The hook is removed at the end of the context, so later passes are not recorded. `loss` and `take` release the
    recorded output, so it does not stay in memory for the next step. Without an auxiliary loss, nothing is recorded.
    """

    def __init__(self, model: object) -> None:
        self.model, self.auxiliary = cast(nn.Module, model), auxiliary_of(model)
        self._output: torch.Tensor | None = None

    def __enter__(self) -> "Activations":
        if self.auxiliary is not None:
            layer = self.model.get_submodule(self.auxiliary.layer)
            self._hook = layer.register_forward_hook(self._keep, prepend=True)  # before the layer is conditioned
        return self

    def _keep(self, _module: nn.Module, _inputs: object, output: torch.Tensor) -> None:
        self._output = output

    def __exit__(self, *_: Any) -> None:
        if self.auxiliary is not None:
            self._hook.remove()

    def take(self) -> torch.Tensor | None:
        """Return the layer's latest output (B, T', D) and forget it. Return None if nothing was recorded."""
        output, self._output = self._output, None
        return output

    def loss(self, lengths: torch.Tensor, batch: Batch) -> torch.Tensor | None:
        """Return the auxiliary loss () in nats. Return None if the model has none or did not run its layer.

        lengths: number of output frames of each utterance, (B,).
        """
        output = self.take()
        if self.auxiliary is None or output is None:
            return None
        weight = next(cast(nn.Module, self.auxiliary).parameters())
        return self.auxiliary(output.to(weight.dtype), lengths, batch)

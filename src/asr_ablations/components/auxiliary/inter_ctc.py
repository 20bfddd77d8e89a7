"""CTC on an intermediate layer (Lee & Watanabe 2021), with optional self-conditioning (Nozaki & Komatsu 2021)."""

import inspect

import torch
from torch import nn

from asr_ablations.components.auxiliary.head import Head
from asr_ablations.components.loss.ctc import CTC
from asr_ablations.data.batch import Batch
from asr_ablations.tools.masks import valid_frames
from asr_verdicts.errors import choices


class InterCTC(Head):
    """Computes the CTC loss of a linear layer on the output of `layer`, in nats per label, averaged over utterances.

    self_conditioned: whether the later layers also see the probabilities of the linear layer, through a second linear
    layer whose output is added to that of `layer`. Recognition then also uses both linear layers.
    """

    name = "inter_ctc"

    def __init__(
        self, model: nn.Module, features: int, outputs: int, *, layer: str, weight: float, self_conditioned: bool
    ) -> None:
        super().__init__(model, features, layer=layer, weight=weight)
        self.output = nn.Linear(self.size, outputs)
        self.loss = CTC(reduction="label")
        if self_conditioned:
            if "lengths" not in inspect.signature(model.get_submodule(layer).forward).parameters:
                raise choices("auxiliary.layer", layer, "a layer that gets lengths, such as recurrent.0 or layers.1")
            self.back = nn.Linear(outputs, self.size)
            self.condition = self._condition

    def forward(self, activations: torch.Tensor, lengths: torch.Tensor, batch: Batch) -> torch.Tensor:
        logits = self.output(activations)
        with torch.autocast(logits.device.type, enabled=False):
            return self.loss(logits.float().log_softmax(dim=-1), lengths, batch)

    def _condition(
        self, _layer: nn.Module, inputs: tuple[torch.Tensor, torch.Tensor], output: torch.Tensor
    ) -> torch.Tensor:
        """Add a linear function of the probabilities to the layer's output (B, T', D), except in padding frames."""
        valid = valid_frames(inputs[1], output.shape[1], output.device)[..., None]
        probabilities = self.output(output.to(self.output.weight.dtype)).softmax(dim=-1)
        return output + (self.back(probabilities.to(self.back.weight.dtype)) * valid).to(output.dtype)

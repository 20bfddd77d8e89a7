"""Prefix beam search whose best transcripts are rescored by the run's attention decoder (Watanabe et al. 2017)."""

import copy
from typing import Any

import numpy as np
import torch
from torch import nn

from asr_ablations.components.auxiliary.attention import AttentionDecoder
from asr_ablations.components.decoder.beam import Beam, split_batch
from asr_ablations.data.alphabet import Alphabet
from asr_ablations.tools.checks import number
from asr_ablations.training.auxiliary import auxiliary_of
from asr_verdicts.errors import UsageError


class AttentionRescored(Beam):
    """Selects the transcript in a beam with the largest (1 - weight) · log P_ctc + weight · log P_attention, in nats.

    The attention decoder is the one that was trained in the run (auxiliary=attention). search: arguments of Beam.
    Raises UsageError for values out of range.
    """

    tuned = ("weight", "prune_beams")

    def __init__(self, alphabet: Alphabet, *, weight: float, **search: Any) -> None:
        super().__init__(alphabet, **search)
        self.weight = number("decoder.weight", weight, least=0, most=1)

    def attach(self, model: nn.Module) -> None:
        auxiliary = auxiliary_of(model)
        if not isinstance(auxiliary, AttentionDecoder):
            raise UsageError("decoder=attention_rescored: expected a run with auxiliary=attention")
        self.attention = copy.deepcopy(auxiliary).float().cpu().eval()

    def rescore(self, log_probs: torch.Tensor, activations: torch.Tensor) -> str:
        (row,) = split_batch(log_probs[None], torch.tensor([len(log_probs)]), self.alphabet)
        texts = self.best_texts(row)
        if len(texts) == 1:
            return next(iter(texts))
        attention = self.attention.score(activations, [self.alphabet.encode(text) for text in texts])
        scores = (1 - self.weight) * np.array([*texts.values()]) + self.weight * np.array(attention)
        return [*texts][int(scores.argmax())]

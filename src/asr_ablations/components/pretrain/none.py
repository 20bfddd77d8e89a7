"""No pretraining."""

from asr_ablations.training.contracts import Pretraining


class NoPretraining(Pretraining):
    """Trains the whole model from the first step on."""

    leaves_weights_out = False

"""No pretraining."""

import pytorch_lightning as pl


class NoPretraining(pl.Callback):
    """The whole model from the first step on."""

    leaves_weights_out = False

"""No averaging."""

import pytorch_lightning as pl


class NoAveraging(pl.Callback):
    """The weights as they are trained."""

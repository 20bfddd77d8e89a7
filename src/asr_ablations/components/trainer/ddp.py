"""Synchronous data parallelism: gradients are averaged at every step (papers/003 §2.5, papers/004 §2.2.4)."""

import pytorch_lightning as pl
from pytorch_lightning.strategies import DDPStrategy


class Synchronous(pl.Callback):
    """What Lightning and torch do by themselves."""

    def strategy(self, leaves_weights_out: bool) -> DDPStrategy:
        """For several ranks. leaves_weights_out: some parameters have no gradient for a while."""
        return DDPStrategy(find_unused_parameters=leaves_weights_out)

"""Synchronous data parallelism: gradients are averaged at every step (Baunsgaard2020 §4.4.1)."""

from pytorch_lightning.strategies import DDPStrategy

from asr_ablations.training.contracts import ParallelTraining
from asr_ablations.training.ddp import UnhurriedRanks


class Synchronous(ParallelTraining):
    """Trains with DDP, which averages the gradients of all ranks and exchanges nothing else in a training step."""

    def strategy(self, leaves_weights_out: bool) -> DDPStrategy:
        return UnhurriedRanks(find_unused_parameters=leaves_weights_out)

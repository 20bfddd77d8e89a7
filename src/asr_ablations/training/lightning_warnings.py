"""Lightning's warnings about choices that are deliberate here."""

import logging
import warnings


def silence_lightning() -> None:
    """Silence Lightning's warnings about choices that are deliberate here, each by its words."""
    logging.getLogger("pytorch_lightning").setLevel(logging.WARNING)
    for message in (
        ".*does not have many workers.*",  # audio is in a cache after the first epoch
        ".*lr_scheduler.step.*before.*optimizer.step.*",  # a step with overflowed 16-bit gradients is skipped
        ".*GPU available but not used.*",
        ".*srun. command is available on your system but is not used.*",  # a launcher asks Slurm for it
        ".*Checkpoint directory .* exists.*",  # a run that continues
        ".*your dataloader is not resumable.*",  # its order is: data/datamodule.py
        ".*smaller than the logging interval.*",  # epochs are logged too
        ".*recommended to use .*sync_dist=True.*",  # values of the first rank: the others would wait for it
        ".*not part of single contiguous chunk of memory.*",  # weights in 16 bits are copies, made anew in each step
        ".*isinstance.treespec, LeafSpec.*",  # Lightning 2.6 under torch 2.11
    ):
        warnings.filterwarnings("ignore", message)

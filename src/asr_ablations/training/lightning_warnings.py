"""Silence Lightning's warnings about choices that are deliberate here."""

import logging
import warnings


def silence_lightning() -> None:
    """Silence each warning in this list, and Lightning's messages below the level WARNING."""
    logging.getLogger("pytorch_lightning").setLevel(logging.WARNING)
    for message in (
        ".*does not have many workers.*",  # audio is in a cache after the first epoch
        ".*lr_scheduler.step.*before.*optimizer.step.*",  # a step with overflowed 16-bit gradients is skipped
        ".*GPU available but not used.*",
        ".*srun. command is available on your system but is not used.*",  # a launcher uses Slurm instead
        ".*Checkpoint directory .* exists.*",  # the run is resumed
        ".*your dataloader is not resumable.*",  # data/datamodule.py resumes its order
        ".*smaller than the logging interval.*",  # epochs are logged too
        ".*recommended to use .*sync_dist=True.*",  # the first rank's values suffice, so that no rank waits for another
        ".*not part of single contiguous chunk of memory.*",  # 16-bit weights are copied anew in each step
        ".*isinstance.treespec, LeafSpec.*",  # Lightning 2.6 with torch 2.11
    ):
        warnings.filterwarnings("ignore", message)

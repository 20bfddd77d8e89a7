"""Silence Lightning's warnings about deliberate choices."""

import logging
import warnings


def silence_lightning() -> None:
    """Silence the listed warnings and all of Lightning's log messages below the level WARNING."""
    logging.getLogger("pytorch_lightning").setLevel(logging.WARNING)
    for message in (
        ".*does not have many workers.*",  # audio is cached after the first epoch, so few workers suffice
        ".*lr_scheduler.step.*before.*optimizer.step.*",  # a step is skipped if its 16-bit gradients overflow
        ".*GPU available but not used.*",
        ".*srun. command is available on your system but is not used.*",  # a separate launcher uses Slurm
        ".*Checkpoint directory .* exists.*",  # the run is resumed
        ".*your dataloader is not resumable.*",  # data/datamodule.py resumes its order
        ".*smaller than the logging interval.*",  # values are also logged once per epoch
        ".*recommended to use .*sync_dist=True.*",  # the first rank's values suffice, and no rank needs to wait
        ".*not part of single contiguous chunk of memory.*",  # the 16-bit weights are new copies in each step
        ".*isinstance.treespec, LeafSpec.*",  # raised by Lightning 2.6 with torch 2.11
    ):
        warnings.filterwarnings("ignore", message)

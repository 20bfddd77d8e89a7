"""What Lightning says of choices that are ours."""

import logging
import warnings


def quiet() -> None:
    """Silence what Lightning says of choices that are ours."""
    logging.getLogger("pytorch_lightning").setLevel(logging.WARNING)
    for message in (
        ".*does not have many workers.*",  # audio is remembered after the first epoch
        ".*lr_scheduler.step.*before.*optimizer.step.*",  # a step whose 16-bit gradients overflowed is skipped
        ".*GPU available but not used.*",
        ".*Checkpoint directory .* exists.*",  # a run that goes on
        ".*your dataloader is not resumable.*",  # its order is: data/module.py
        ".*smaller than the logging interval.*",  # epochs are logged too
        ".*recommended to use .*sync_dist=True.*",  # figures of the first rank: the others would wait for it
        ".*isinstance.treespec, LeafSpec.*",  # Lightning 2.6 under torch 2.11
    ):
        warnings.filterwarnings("ignore", message)

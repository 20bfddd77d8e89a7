"""What W&B's client raises."""


def refusals() -> tuple[type[Exception], ...]:
    """The exceptions of W&B's client for a server that refuses something, does not answer, or is not reached."""
    import wandb
    from wandb.sdk.lib.service.service_connection import WandbApiFailedError  # no subclass of wandb.errors.Error

    return wandb.errors.Error, WandbApiFailedError, OSError

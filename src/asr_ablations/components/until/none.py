"""The runs are those that the sweep names."""


def none() -> None:
    """No runs are added."""

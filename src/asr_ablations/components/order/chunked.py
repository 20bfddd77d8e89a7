"""RETURNN's overlapping chunks of utterances (Doetsch2016 §4), which CTC cannot train on."""

from asr_ablations.tools.errors import UsageError


class Chunked:
    """Raises UsageError: no loss of this project can be trained on chunks."""

    def __init__(self) -> None:
        raise UsageError(
            "order=chunked: CTC cannot train on chunks, since its labels belong to a whole utterance and nothing says "
            "in which chunk one is spoken: chunks need a label for each frame; expected bucketed, shuffled, sortagrad "
            "or sorted"
        )

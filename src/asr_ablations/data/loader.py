"""The DataLoader of speech: batches, or one line that names the utterance that went wrong."""

import re
from collections.abc import Iterator

import torch
from torch.utils.data import DataLoader, Sampler

from asr_ablations.data.speech import Speech, Unreadable, collate
from asr_ablations.data.utterance import Batch
from asr_ablations.errors import UsageError


class SpeechLoader(DataLoader):
    """Batches of one set in the order of `sampler`, read by `workers` processes of one thread each, or in this one.

    It asks the sampler for the batches only when the first is wanted: Lightning makes the first iterator of a fit
    before it tells the sampler the epoch, which matters after a resume.
    """

    dataset: Speech

    def __init__(self, speech: Speech, sampler: Sampler[list[int]], workers: int) -> None:
        if workers:
            speech.watch(workers)
        super().__init__(
            speech,
            batch_sampler=sampler,
            collate_fn=collate,
            num_workers=workers,
            persistent_workers=workers > 0,
            pin_memory=torch.cuda.is_available(),
            # of its own: a loader draws a seed at each pass, and torch's global stream belongs to dropout
            generator=torch.Generator(),
        )

    def __iter__(self) -> Iterator[Batch]:  # type: ignore[override]
        """Raises UsageError for an utterance that cannot be read, and for a worker that died over one."""
        try:
            for batch in super().__iter__():
                if isinstance(batch, Unreadable):
                    raise UsageError(batch)
                yield batch
        except RuntimeError as error:
            raise explained(error, self.dataset) from error


def explained(error: BaseException, speech: Speech) -> BaseException:
    """torch's error of a worker that died, as one that names the utterance; any other error itself."""
    told = re.search(r"DataLoader worker \(pid(?:\(s\))? ([\d, ]+)\) (.*)", str(error))
    died = speech.died([int(pid) for pid in re.findall(r"\d+", told[1])]) if told else []
    if not told or not died:
        return error
    names = ", ".join(f"utterance {u.id} ({u.audio})" for u in died)
    return UsageError(f"a process that reads audio {told[2].split('. ')[0].rstrip('.')}; it was at {names}")

"""Which recordings a report may read: only those of the corpus that the run's config names. The record can be a
stranger's, and what a page holds is sent on with it.
"""

import os
from pathlib import Path

from asr_ablations.runs.record import RunRecord
from asr_ablations.tools.errors import UsageError
from asr_ablations.tools.files import Json


class OutsideCorpusError(UsageError):
    """A record names a file that is no part of its corpus."""


def recorded_audio(run: RunRecord, row: Json) -> Path:
    """The audio file of an utterance, links resolved. Raises OutsideCorpusError for one that does not lie in the
    folder data.root of the run's config, and where that folder holds everything of this user.
    """
    path = Path(row["audio"]).resolve()
    data = run.config.get("data")
    named = data.get("root") if isinstance(data, dict) else None
    root = Path(os.path.expanduser(str(named or "."))).resolve()  # a Path refuses an unknown ~user
    if not path.is_relative_to(root):
        raise OutsideCorpusError(f"{path}: lies outside of data.root={root}, the corpus of the run: not read")
    if Path(os.path.expanduser("~")).resolve().is_relative_to(root):
        raise OutsideCorpusError(f"{path}: data.root={root} holds more than a corpus: not read")
    return path

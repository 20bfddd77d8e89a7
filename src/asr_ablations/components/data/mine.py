"""A copy of data=kaldi: say here what it changes."""

import math
from collections.abc import Callable
from pathlib import Path

from asr_ablations.data.audio import AVERAGED, MOST_CHANNELS
from asr_ablations.data.corpus import Paths, entries, faulty, indexed, text_of
from asr_ablations.data.utterances import Utterance
from asr_verdicts.errors import UsageError
from asr_verdicts.text import clean, spelled_on_disk


class Mine(Paths):
    """A corpus of Kaldi data directories.

    - train, validation and test are one or more directories each. Their paths and the audio paths in wav.scp are
      relative to `root`, by default the current folder, as in Kaldi's recipes. Sets are named after their directories.
    - If the file `segments` is missing, each recording is one utterance. A fifth column of `segments` is the channel,
      counted from 0, as in Kaldi's extract-segments. If this column is missing, channels are averaged.
    - If the file `utt2spk` is missing, speakers are unknown unless `speaker_of` extracts them from the utterance ids.
    - Commands in wav.scp (`sph2pipe … |`) are refused, because reading a corpus must not execute programs.
    """

    needed = ("wav.scp", "text")
    layout = "a Kaldi data directory with wav.scp and text"

    @indexed("path", "speaker_of")
    def find(self, split: str) -> list[Utterance]:
        return self.add_speakers(*read_directory(self.path(split), self.root))


def read_directory(folder: Path, root: Path) -> tuple[list[Utterance], Callable[[Utterance], str]]:
    """Return the utterances of a data directory, and a function that returns the name of an utterance's recording.

    Utterances with faults are included. root: folder to which audio paths are relative
    """
    recordings = {id_: _resolve_audio(folder, root, id_, path) for id_, path in _read_table(folder / "wav.scp").items()}
    texts = _read_table(folder / "text")
    entries(folder)  # makes the index notice if segments or utt2spk appear later
    speakers = _read_table(folder / "utt2spk") if (folder / "utt2spk").exists() else {}
    if not (segments := _read_segments(folder, recordings)):
        raise UsageError(f"no utterances in {folder}")
    utterances = []
    for id_, (recording, start, end, channel) in segments.items():
        if recording not in recordings:
            utterances.append(faulty(id_, folder / "segments", f"missing file: no recording {recording} in wav.scp"))
            continue
        if (text := texts.pop(id_, None)) is None:
            utterances.append(faulty(id_, folder / "text", "audio without a transcript: no line in text"))
            continue
        if not (math.isfinite(start) and start >= 0 and end > start):
            utterances.append(faulty(id_, folder / "segments", f"wrong times: {start:g} to {end:g} s"))
            continue
        speaker = speakers.get(id_, "")
        utterances.append(Utterance(id_, speaker, recordings[recording], start, end - start, text, channel=channel))
    unspoken = [faulty(id_, folder / "text", "missing file: a transcript without audio") for id_ in texts]
    return utterances + unspoken, lambda u: segments[u.id][0]


def _resolve_audio(folder: Path, root: Path, recording: str, path: str) -> Path:
    if path.endswith("|"):
        raise UsageError(
            f"{folder / 'wav.scp'}: recording {recording} is the command {path!r}, and commands are refused; "
            "write its output to audio files and list these instead"
        )
    return spelled_on_disk(root / path)


def _read_segments(folder: Path, recordings: dict[str, Path]) -> dict[str, tuple[str, float, float, int]]:
    """Return (recording, start in s, end in s, channel) by utterance id.

    An infinite end, which is -1 in Kaldi, means the end of the recording.
    """
    path = folder / "segments"
    if not path.exists():
        return {id_: (id_, 0.0, math.inf, AVERAGED) for id_ in recordings}
    segments = {}
    for number, (id_, rest) in enumerate(_read_table(path).items(), start=1):
        try:
            recording, start, end, *last = rest.split()
            (channel,) = [int(field) for field in last] or [AVERAGED]  # -1 means no channel, as in Kaldi
            if channel not in range(AVERAGED, MOST_CHANNELS):
                raise ValueError("no such channel")
            segments[id_] = (clean(recording), float(start), math.inf if float(end) < 0 else float(end), channel)
        except ValueError as error:
            raise UsageError(
                f"{path}:{number}: {id_} {rest}: expected utterance, recording, start, end[, channel]"
            ) from error
    return segments


def _read_table(path: Path) -> dict[str, str]:
    """Return a dict from the first word of each line to the rest of the line. Raises UsageError for a repeated word."""
    rows: dict[str, str] = {}
    for number, line in enumerate(text_of(path).split("\n"), start=1):
        key, rest = [*line.strip().split(maxsplit=1), "", ""][:2]
        key = clean(key)
        if key in rows:
            raise UsageError(f"{path}:{number}: duplicate id {key}")
        if key:
            rows[key] = rest
    return rows

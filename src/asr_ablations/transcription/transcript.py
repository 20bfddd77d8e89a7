"""A transcript as text, JSON or subtitles."""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from asr_ablations.transcription.recogniser import Piece
from asr_ablations.transcription.word_times import Word

ENDINGS = {"text": ".txt", "json": ".json", "srt": ".srt"}
SUBTITLE_LETTERS, SUBTITLE_SECONDS, SUBTITLE_GAP = 80, 6.0, 1.0
"""A subtitle holds two lines of some 40 letters, and ends before a pause of a second."""


@dataclass(frozen=True)
class Transcript:
    """What was said in one file."""

    file: str
    seconds: float
    pieces: list[Piece]

    @property
    def words(self) -> list[Word]:
        return [word for piece in self.pieces for word in piece.words]

    @property
    def text(self) -> str:
        return " ".join(word.word for word in self.words)

    def content(self) -> dict[str, Any]:
        """As JSON has it; times in seconds, to the millisecond."""
        words = [{key: _rounded(value) for key, value in asdict(word).items()} for word in self.words]
        pieces = [{"start": round(p.start, 3), "end": round(p.end, 3), "text": p.text} for p in self.pieces]
        return {
            "file": self.file, "seconds": round(self.seconds, 3), "text": self.text, "words": words, "pieces": pieces,
        }  # fmt: skip


def _rounded(value: Any) -> Any:
    return round(value, 3) if isinstance(value, float) else value


def as_text(transcript: Transcript) -> str:
    return transcript.text + "\n"


def as_json(transcript: Transcript) -> str:
    return json.dumps(transcript.content(), ensure_ascii=False, indent=2) + "\n"


def as_line(transcript: Transcript, form: str) -> str:
    """One line of many: a path, a tab and the text; or an object of JSON Lines."""
    if form == "json":
        return json.dumps(transcript.content(), ensure_ascii=False) + "\n"
    return f"{transcript.file}\t{transcript.text}\n"


def as_srt(transcript: Transcript) -> str:
    """Subtitles, SubRip's numbered blocks."""
    blocks = []
    for number, words in enumerate(subtitles(transcript.words), start=1):
        times = f"{_clock(words[0].start)} --> {_clock(words[-1].end)}"
        blocks.append(f"{number}\n{times}\n{' '.join(word.word for word in words)}\n")
    return "\n".join(blocks)


def subtitles(words: Iterable[Word]) -> list[list[Word]]:
    """The words in groups that are read at once."""
    groups: list[list[Word]] = []
    for word in words:
        if groups and _goes_on(groups[-1], word):
            groups[-1].append(word)
        else:
            groups.append([word])
    return groups


def _goes_on(group: list[Word], word: Word) -> bool:
    letters = sum(len(one.word) + 1 for one in group) + len(word.word)
    near = word.start - group[-1].end < SUBTITLE_GAP
    return near and letters <= SUBTITLE_LETTERS and word.end - group[0].start <= SUBTITLE_SECONDS


def _clock(seconds: float) -> str:
    milliseconds = round(1000 * seconds)
    hours, rest = divmod(milliseconds, 3_600_000)
    minutes, rest = divmod(rest, 60_000)
    return f"{hours:02}:{minutes:02}:{rest // 1000:02},{rest % 1000:03}"


WRITERS = {"text": as_text, "json": as_json, "srt": as_srt}

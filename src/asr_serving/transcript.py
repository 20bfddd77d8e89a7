"""A transcript as text, JSON or subtitles."""

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from asr_serving.recogniser import Piece, Word

ENDINGS = {"text": ".txt", "json": ".json", "srt": ".srt"}
SUBTITLE_LETTERS, SUBTITLE_SECONDS, SUBTITLE_GAP = 80, 6.0, 1.0
"""A subtitle has at most two lines of about 40 letters and 6 s, and ends before a pause of 1 s."""


@dataclass(frozen=True)
class Transcript:
    """The recognised text of a file; seconds: its duration."""

    file: str
    seconds: float
    pieces: list[Piece]

    @property
    def words(self) -> list[Word]:
        return [word for piece in self.pieces for word in piece.words]

    @property
    def text(self) -> str:
        return " ".join(word.word for word in self.words)

    def content(self) -> dict[str, object]:
        """Return the content of the JSON output, with times in seconds to the millisecond."""
        words = [
            {"word": w.word, "start": round(w.start, 3), "end": round(w.end, 3), "confidence": round(w.confidence, 3)}
            for w in self.words
        ]
        pieces = [{"start": round(p.start, 3), "end": round(p.end, 3), "text": p.text} for p in self.pieces]
        return {
            "file": self.file, "seconds": round(self.seconds, 3), "text": self.text, "words": words, "pieces": pieces,
        }  # fmt: skip


def as_line(transcript: Transcript, form: str) -> str:
    """Return the transcript as one line: path, tab and text, or a JSON object."""
    if form == "json":
        return json.dumps(transcript.content(), ensure_ascii=False) + "\n"
    return f"{transcript.file}\t{transcript.text}\n"


def as_srt(transcript: Transcript) -> str:
    """Return the transcript as subtitles in SubRip's numbered blocks."""
    blocks = []
    for number, words in enumerate(subtitles(transcript.words), start=1):
        times = f"{_clock(words[0].start)} --> {_clock(words[-1].end)}"
        blocks.append(f"{number}\n{times}\n{' '.join(word.word for word in words)}\n")
    return "\n".join(blocks)


def subtitles(words: Iterable[Word]) -> list[list[Word]]:
    """Group the words into subtitles."""
    groups: list[list[Word]] = []
    for word in words:
        group = groups[-1] if groups else []
        letters = sum(len(previous.word) + 1 for previous in group) + len(word.word)
        near = bool(group) and word.start - group[-1].end < SUBTITLE_GAP
        if near and letters <= SUBTITLE_LETTERS and word.end - group[0].start <= SUBTITLE_SECONDS:
            group.append(word)
        else:
            groups.append([word])
    return groups


def _clock(seconds: float) -> str:
    milliseconds = round(1000 * seconds)
    hours, rest = divmod(milliseconds, 3_600_000)
    minutes, rest = divmod(rest, 60_000)
    return f"{hours:02}:{minutes:02}:{rest // 1000:02},{rest % 1000:03}"


WRITERS: dict[str, Callable[[Transcript], str]] = {
    "text": lambda transcript: transcript.text + "\n",
    "json": lambda transcript: json.dumps(transcript.content(), ensure_ascii=False, indent=2) + "\n",
    "srt": as_srt,
}


SURE = 0.75
"""Mean confidence below which the speech is unlike the training data. A model of the built-in corpus has 0.90 for new
speakers of that corpus, and nine of ten utterances are above 0.83. For AN4, which is real speech, it has 0.64, and
nine of ten are below 0.70.
"""
FEWEST = 5  # shorter texts are not judged, because one unusual name makes them uncertain


def doubt(words: Iterable[Word]) -> str | None:
    """Return a warning if the mean confidence is low, or else None."""
    confidences = [word.confidence for word in words]
    mean = sum(confidences) / max(1, len(confidences))
    if len(confidences) < FEWEST or mean >= SURE:
        return None
    return (
        f"low confidence throughout: {mean:.2f} on average over {len(confidences)} words, expected {SURE:g} or more. "
        "The text is probably wrong, because a model only recognises speech like its training data (docs/models.md)"
    )

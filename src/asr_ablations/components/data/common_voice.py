"""Common Voice (Ardila et al. 2020): tables such as train.tsv, and a folder clips with the recordings in them."""

from pathlib import Path

from typing_extensions import Unpack

from asr_ablations.data.corpus import CorpusOptions, Paths, faulty, file_utterance, indexed, text_of
from asr_ablations.data.utterances import Utterance
from asr_verdicts.errors import UsageError
from asr_verdicts.text import spelled_on_disk

COLUMNS = ("client_id", "path", "sentence")


class CommonVoice(Paths):
    """A release of Common Voice, with one or more tables for each of train, validation and test.

    The clips of a table are in the folder clips next to it. A clip that is missing is replaced by a WAV file with the
    same name, because many users convert the MP3 files. The speaker is the client_id. Quotes are ordinary characters.
    """

    licence = "CC0 1.0 (terms of Common Voice)"
    layout = "a table of Common Voice, next to the folder clips"

    def __init__(self, **options: Unpack[CorpusOptions]) -> None:
        super().__init__(speaker_of=None, **options)

    @indexed("path")
    def find(self, split: str) -> list[Utterance]:
        table = self.path(split)
        head, *lines = text_of(table).split("\n")
        header = head.split("\t")
        if absent := [name for name in COLUMNS if name not in header]:
            raise UsageError(
                f"{table}:1: no column {', '.join(absent)}: expected Common Voice's columns, separated by tabs"
            )
        utterances = [_parse_line(table, number, header, line) for number, line in enumerate(lines, start=2) if line]
        if not utterances:
            raise UsageError(f"no utterances in {table}")
        return self.add_speakers(utterances, lambda u: u.id)


def _parse_line(table: Path, number: int, header: list[str], line: str) -> Utterance:
    where, fields = f"{table.name}:{number}", line.split("\t")
    if len(fields) != len(header):
        return faulty(where, table, f"wrong number of columns: expected {len(header)}, found {len(fields)}")
    speaker, name, sentence = (fields[header.index(column)] for column in COLUMNS)
    clip = spelled_on_disk(table.parent / "clips" / name)
    converted = clip.with_suffix(".wav")
    return file_utterance(clip.stem, speaker, clip if clip.exists() or not converted.exists() else converted, sentence)

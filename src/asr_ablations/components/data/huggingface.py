"""Folders of Hugging Face `datasets`: Parquet files, folders that save_to_disk writes, and folders of audio files."""

import csv
import io
import json
import re
from collections.abc import Iterator
from pathlib import Path

from typing_extensions import Unpack

from asr_ablations.components.data.manifest import IMPOSSIBLE, add_ids
from asr_ablations.data.corpus import CorpusOptions, Paths, entries, faulty, file_utterance, indexed, text_of
from asr_ablations.data.index import note
from asr_ablations.data.tables import SUFFIXES, check_columns, read_columns
from asr_ablations.data.utterances import Utterance
from asr_verdicts.errors import UsageError, choices
from asr_verdicts.files import Json
from asr_verdicts.text import spelled_on_disk


class HuggingFace(Paths):
    """A data set of Hugging Face `datasets`, with one or more splits for each of train, validation and test.

    A split is a path relative to `root`, by default the current folder:

    - the name of Parquet files as on the Hub: `train` for train-*.parquet or train.parquet, next to it or in data/
    - a folder written by save_to_disk
    - a folder of audio files with metadata.csv or metadata.jsonl
    - one Parquet, Arrow or metadata file

    - audio_column: column of the audio, by default `audio` in tables and `file_name` in metadata files
    - text_column, speaker_column: columns of the transcript and the speaker. Without speaker_column, speakers are
      unknown unless `speaker_of` extracts them from the ids
    - ids: names of the audio files, or row numbers if the files have no names
    """

    layout = "a folder of save_to_disk or with metadata.csv, or files such as train-00000-of-00001.parquet"

    def __init__(
        self,
        *,
        audio_column: str | None,
        text_column: str,
        speaker_column: str | None,
        speaker_of: str | None,
        **options: Unpack[CorpusOptions],
    ) -> None:
        self.audio_column, self.text_column, self.speaker_column = audio_column, text_column, speaker_column
        for key in ("audio_column", "text_column", "speaker_column"):
            value, also = getattr(self, key), ", or null" * (key != "text_column")
            if not ((isinstance(value, str) and value) or (value is None and also)):
                raise choices(f"data.{key}", value, f"the name of a column{also}")
        self.columns = [text_column, *([] if speaker_column is None else [speaker_column])]
        super().__init__(speaker_of=speaker_of, **options)

    def prepare(self) -> None:
        for split in self.paths:
            self.files(split)

    def files(self, split: str) -> list[Path]:
        """Return the tables of a split in order, or its metadata file. Raises UsageError if there are none."""
        path = self.path(split)
        if path.is_file():
            return [path]
        names = {file.name: file for file in (entries(path) if path.is_dir() else [])}
        if "state.json" in names:
            return _list_saved(names["state.json"])
        if metadata := [names[name] for name in ("metadata.csv", "metadata.jsonl") if name in names]:
            return metadata[:1]
        shards = re.compile(rf"{re.escape(path.name)}(-\d+-of-(\d+).*)?\.parquet")
        for folder in (path.parent, path.parent / "data"):
            files = entries(folder) if folder.is_dir() else []
            if matches := [match for file in files if (match := shards.fullmatch(file.name))]:
                if len(matches) != (count := int(matches[0][2] or len(matches))):
                    raise UsageError(f"{folder}: {len(matches)} of {count} Parquet files of {path.name}: expected all")
                return [folder / match[0] for match in matches]
        if files := [file for name, file in names.items() if name.endswith(".parquet")]:
            return files
        raise self.missing(path)

    @indexed("path", "audio_column", "text_column", "speaker_column", "speaker_of")
    def find(self, split: str) -> list[Utterance]:
        files = self.files(split)
        utterances = [u for file in files for u in (self._read_table if file.suffix in SUFFIXES else self._list)(file)]
        if not utterances:
            raise UsageError(f"no utterances in {self.path(split)}")
        return self.add_speakers(utterances, lambda u: u.id)

    def _read_table(self, table: Path) -> Iterator[Utterance]:
        note(table)
        column = self.audio_column or "audio"
        for row, (name, values) in enumerate(zip(*read_columns(table, column, self.columns), strict=True)):
            audio, id_ = table / column / str(row), Path(name).stem if name else f"{table.stem}-{row}"
            yield self._build(f"{table.name}:{row}", audio, values, id_)

    def _list(self, metadata: Path) -> list[Utterance]:
        """Return the utterances of the audio files that a metadata file lists."""
        column = self.audio_column or "file_name"
        rows = _read_rows(metadata)
        check_columns(metadata, {str(name) for row in rows for name in row}, [column, *self.columns] if rows else [])
        utterances = []
        for number, row in enumerate(rows, start=1):
            where, audio = f"{metadata.name}: row {number}", metadata.parent / str(row.get(column) or "")
            utterances.append(self._build(where, spelled_on_disk(audio), row, ""))
        return add_ids(utterances, metadata.parent)

    def _build(self, where: str, audio: Path, row: Json, id_: str) -> Utterance:
        text, speaker = row.get(self.text_column), row.get(self.speaker_column or "")
        if not isinstance(text, str) or IMPOSSIBLE.search(text):
            return faulty(where, audio, f"no text: expected a string in {self.text_column}, found {text!r}")
        return file_utterance(id_, "" if speaker is None else IMPOSSIBLE.sub("?", str(speaker)), audio, text)


def _list_saved(state: Path) -> list[Path]:
    """Return the Arrow files of a folder that save_to_disk wrote."""
    try:
        content = json.loads(text_of(state))
        files = [state.parent / entry["filename"] for entry in content["_data_files"]]
    except (ValueError, KeyError, TypeError) as error:
        raise UsageError(f"{state}: expected what save_to_disk writes: {type(error).__name__}: {error}") from error
    if content.get("_indices_data_files"):
        raise UsageError(f"{state}: expected all rows, but indices select some; save the result of flatten_indices()")
    return files


def _read_rows(metadata: Path) -> list[Json]:
    """Return the values of each row of a metadata file, by column."""
    text = text_of(metadata)
    try:
        if metadata.suffix == ".csv":
            return [*csv.DictReader(io.StringIO(text))]
        return [dict(json.loads(line)) for line in text.split("\n") if line.strip()]
    except (csv.Error, ValueError, TypeError, RecursionError) as error:
        raise UsageError(f"{metadata}: expected a table with a header, or JSON objects: {error}") from error

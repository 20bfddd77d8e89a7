"""Where transcripts go: standard output, one file, or a file a recording in a folder."""

import sys
from collections.abc import Sequence
from pathlib import Path

from asr_ablations.tools.errors import UsageError
from asr_ablations.tools.files import write
from asr_ablations.transcription.sources import Source
from asr_ablations.transcription.transcript import ENDINGS, WRITERS, Transcript, as_line


class Stream:
    """To standard output, each as it comes; to a file, all at the end, so that a file that is there is whole."""

    def __init__(self, file: Path | None, form: str, single: bool) -> None:
        self.file, self.form, self.single = file, form, single
        self.parts: list[str] = []

    def add(self, source: Source, transcript: Transcript) -> None:
        text = WRITERS[self.form](transcript) if self.single else as_line(transcript, self.form)
        if self.file is None:
            sys.stdout.write(text)
            sys.stdout.flush()
        else:
            self.parts.append(text)

    def close(self) -> None:
        if self.file is not None and self.parts:
            self.file.parent.mkdir(parents=True, exist_ok=True)
            write(self.file, "".join(self.parts))


class Folder:
    """A file a recording: <folder>/<its path below the folder that was asked for>.txt, .json or .srt."""

    def __init__(self, folder: Path, form: str, sources: Sequence[Source]) -> None:
        self.folder, self.form = folder, form
        taken: dict[Path, Path] = {}
        for source in sources:
            if (other := taken.setdefault(source.name, source.path)) != source.path:
                raise UsageError(
                    f"output={folder}: {other} and {source.path} would both become {source.name}{ENDINGS[form]}; "
                    "expected files of different names, or the folder above them"
                )

    def add(self, source: Source, transcript: Transcript) -> None:
        file = self.folder / source.name.with_name(source.name.name + ENDINGS[self.form])
        file.parent.mkdir(parents=True, exist_ok=True)
        write(file, WRITERS[self.form](transcript))

    def close(self) -> None:
        """Everything is written already."""


def writer(output: str | None, form: str, sources: Sequence[Source], single: bool) -> Stream | Folder:
    """single: one file was asked for by its own name. Raises UsageError for what cannot be written there."""
    path = None if output is None else Path(output)
    if path is not None and (str(output).endswith("/") or path.is_dir()):
        return Folder(path, form, sources)
    if form == "srt" and not single:
        raise UsageError(f"format=srt with several files: expected output=<folder>/, not output={output}")
    return Stream(path, form, single)

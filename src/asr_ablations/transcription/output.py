"""Output of transcripts: to standard output, to one file, or to a folder with one file per recording."""

import sys
from collections.abc import Sequence
from pathlib import Path

from asr_ablations.tools.errors import UsageError
from asr_ablations.tools.files import is_regular, write
from asr_ablations.transcription.sources import Source
from asr_ablations.transcription.transcript import ENDINGS, WRITERS, Transcript, as_line


class Stream:
    """Output to standard output, at once, or to a file, at the end, so that an existing file is complete."""

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
            target = self.file.resolve()  # a link stays one
            if target.exists() and not is_regular(target):  # a pipe or a device is written to, and not replaced
                target.write_text("".join(self.parts), encoding="utf-8", errors="backslashreplace")
            else:
                write(target, "".join(self.parts))


class Folder:
    """Output of one file per recording: <folder>/<path below the requested folder>.txt, .json or .srt.

    Raises UsageError for recordings that would get the same file.
    """

    def __init__(self, folder: Path, form: str, sources: Sequence[Source]) -> None:
        self.folder, self.form = folder, form
        owners: dict[Path, Path] = {}
        for source in sources:
            if (other := owners.setdefault(source.name, source.path)) != source.path:
                raise UsageError(
                    f"output={folder}: {other} and {source.path} would both become {source.name}{ENDINGS[form]}; "
                    "expected files of different names, or the folder above them"
                )

    def add(self, source: Source, transcript: Transcript) -> None:
        file = self.folder / source.name.with_name(source.name.name + ENDINGS[self.form])
        file.parent.mkdir(parents=True, exist_ok=True)
        write(file, WRITERS[self.form](transcript))

    def close(self) -> None:
        """Do nothing: everything is already written."""


def writer(output: str | None, form: str, sources: Sequence[Source], single: bool) -> Stream | Folder:
    """Return the output that the key `output` selects. single: the request was one file, by its own name.

    Raises UsageError for subtitles of several files in one stream, and for recordings that would get the same file.
    """
    path = None if output is None else Path(output)
    if path is not None and (str(output).endswith("/") or path.is_dir()):
        return Folder(path, form, sources)
    if form == "srt" and not single:
        raise UsageError(f"format=srt with several files: expected output=<folder>/, not output={output}")
    return Stream(path, form, single)

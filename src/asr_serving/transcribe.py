"""Transcription of recordings to standard output, to one file, or to a folder with a file per recording."""

import io
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import soundfile
from omegaconf import DictConfig, OmegaConf
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from asr_ablations import SAMPLE_RATE
from asr_ablations.config.build import build
from asr_ablations.config.resolvers import look_up_in
from asr_ablations.data.audio import duration, header, read
from asr_ablations.tools.files import CONF
from asr_ablations.training.lightning_warnings import silence_lightning
from asr_ablations.training.trained_model import load_run
from asr_serving.recogniser import Recogniser, Word
from asr_serving.requests import requested_audio
from asr_serving.transcript import ENDINGS, WRITERS, Transcript, as_line, doubt
from asr_verdicts.errors import UsageError
from asr_verdicts.files import is_regular, write
from asr_verdicts.terminal import console, harmless_line

AUDIO_ENDINGS = {f".{name.lower()}" for name in soundfile.available_formats()} | {".aif", ".oga", ".opus"}
BLOCK = 30
"""Seconds that are read and resampled at once, a whole number; fewer for rates above PLAIN_RATE. Resampling needs about
forty times the memory of its result: 1.2 GB for ten minutes.
"""
PLAIN_RATE = 48_000


class Source(NamedTuple):
    """A file and its path below the requested folder; only its name if the file itself was requested."""

    path: Path
    name: Path


def find_sources(requested: Sequence[str]) -> list[Source]:
    """Return the audio files in the requested paths without repetitions; "-" is a list on stdin. Raises UsageError."""
    sources: dict[Path, Source] = {}
    if isinstance(sys.stdin, io.TextIOWrapper):
        sys.stdin.reconfigure(errors="surrogateescape")  # file names are bytes
    for text in requested:
        paths = [line.rstrip("\r\n") for line in sys.stdin] if text == "-" else [text]
        for path in (Path(p) for p in paths if p.strip()):
            files = [path]
            if os.path.isdir(path):
                files = sorted(p for p in path.rglob("*") if p.suffix.lower() in AUDIO_ENDINGS and p.is_file())
            if not files:
                raise UsageError(f"audio={path}: no audio in this folder ({', '.join(sorted(AUDIO_ENDINGS))})")
            for file in files:
                sources.setdefault(file, Source(file, Path(path.name) if file == path else file.relative_to(path)))
    if not sources:
        raise UsageError(f"audio={','.join(requested)}: no paths on standard input, expected one per line")
    return list(sources.values())


def read_whole(path: Path) -> np.ndarray:
    """Return a recording as int16 samples (S,) at 16 kHz; stereo is averaged.

    It is read in blocks of up to half a minute. At other sampling rates, the result equals a single resampling,
    because blocks start at whole seconds and one more second is resampled on both sides.
    Raises AudioError with the file's name if it is missing, damaged or empty.
    """
    count, rate = header(path)
    total, parts = count / rate, []
    block = max(1, BLOCK * PLAIN_RATE // max(rate, PLAIN_RATE))
    for first in range(0, max(1, int(np.ceil(total))), block):
        begin, end = max(0, first - 1), min(total, first + block + 1)
        samples = read(path, begin, end - begin)[(first - begin) * SAMPLE_RATE :]
        parts.append(samples[: block * SAMPLE_RATE] if end > first + block else samples)
    return np.concatenate(parts)


REPLACED = (".txt", ".json", ".jsonl", ".srt")
"""Endings of files that a transcription may replace; other files are kept unless they are empty."""


def _refuse_replacing(files: Iterable[Path], sources: Sequence[Source]) -> None:
    """Raise UsageError if a file is one of the recordings, under any name, or is not a transcript."""
    recordings = {os.stat(path)[1:3]: path for path, _ in sources if os.path.exists(path)}  # inode and device
    for file in filter(os.path.isfile, files):
        if (recording := recordings.get(file.stat()[1:3])) is not None:
            raise UsageError(f"output={file}: is the recording {recording}; expected another file")
        if file.stat().st_size and file.resolve().suffix.lower() not in REPLACED:
            raise UsageError(f"output={file}: is not a transcript; expected a new file, or {', '.join(REPLACED)}")


class Stream:
    """Output to standard output immediately, or to a file at the end, so that the file is always complete."""

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
            target = self.file.resolve()  # a link is kept
            if target.exists() and not is_regular(target):  # pipes and devices are written to, not replaced
                target.write_text("".join(self.parts), encoding="utf-8", errors="backslashreplace")
            else:
                write(target, "".join(self.parts))


class Folder:
    """Output to a file per recording. Raises UsageError if recordings share a file or would be replaced."""

    def __init__(self, folder: Path, form: str, sources: Sequence[Source]) -> None:
        self.folder, self.form = folder, form
        owners: dict[Path, Path] = {}
        for source in sources:
            if (other := owners.setdefault(source.name, source.path)) != source.path:
                raise UsageError(
                    f"output={folder}: {other} and {source.path} would both become {source.name}{ENDINGS[form]}; "
                    "expected files with different names, or their common folder"
                )
        _refuse_replacing(map(self.place, sources), sources)

    def place(self, source: Source) -> Path:
        return self.folder / source.name.with_name(source.name.name + ENDINGS[self.form])

    def add(self, source: Source, transcript: Transcript) -> None:
        file = self.place(source)
        file.parent.mkdir(parents=True, exist_ok=True)
        write(file, WRITERS[self.form](transcript))

    def close(self) -> None:
        """Do nothing, because everything is already written."""


def choose_output(output: str | None, form: str, sources: Sequence[Source], single: bool) -> Stream | Folder:
    """Return the output selected by the key `output`. single: one file was requested. Raises UsageError."""
    path = None if output is None else Path(output)
    if path is not None and (str(output).endswith("/") or path.is_dir()):
        return Folder(path, form, sources)
    if form == "srt" and not single:
        raise UsageError(f"format=srt with several files: expected output=<folder>/, not output={output}")
    _refuse_replacing([path] if path is not None else [], sources)
    return Stream(path, form, single)


def transcribe(cfg: DictConfig) -> int:
    """Transcribe the requested recordings and return the number of failures. Failures and low confidences are reported.

    Raises UsageError for an invalid request.
    """
    requested = requested_audio(cfg)
    sources = find_sources(requested)
    single = len(sources) == 1 and sources[0].path == Path(requested[0])
    write = choose_output(cfg.output, cfg.format, sources, single)
    words: list[Word] = []
    recognise, terminal = load_recogniser(cfg), console(stderr=True, soft_wrap=True)
    columns = TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn()
    with Progress(*columns, transient=True, console=terminal, disable=not terminal.is_terminal) as progress:
        reader = _Reader(progress)
        sound = list(reader.sound(sources))
        task = progress.add_task("transcribing", total=sum(seconds for _, seconds in sound))
        recordings = reader.recordings(source for source, _ in sound)
        transcribed = recognise(recordings, lambda seconds: progress.advance(task, seconds))
        for number, pieces in enumerate(transcribed):
            source, length = reader.lengths[number]
            transcript = Transcript(str(source.path), length / SAMPLE_RATE, pieces)
            write.add(source, transcript)
            words += transcript.words
    write.close()
    if (sentence := doubt(words)) is not None:
        print(sentence, file=sys.stderr)
    if reader.failed:
        print(f"{reader.failed} of {len(sources)} files could not be transcribed", file=sys.stderr)
    return reader.failed


def load_recogniser(cfg: DictConfig) -> Recogniser:
    """Load the config's model and decoder. Raises UsageError if that fails."""
    silence_lightning()
    trained = load_run(str(cfg.run), cfg.checkpoint)
    OmegaConf.update(trained.cfg, "gpus", cfg.gpus)
    decoder = build(cfg.decoder)(trained.task.alphabet)
    return Recogniser(trained, decoder, longest=cfg.longest, batch_seconds=cfg.batch_seconds)


class Model:
    """A trained run that recognises speech, as returned by `load`."""

    def __init__(self, recognise: Recogniser) -> None:
        self.recognise = recognise

    def transcribe(self, audio: str | Path) -> Transcript:
        """Return a recording's transcript: text, and words with start and end in seconds and a confidence from 0 to 1.
        Raises UsageError for a file that is not audio.
        """
        samples = read_whole(Path(audio))
        (pieces,) = self.recognise([samples])
        return Transcript(str(audio), len(samples) / SAMPLE_RATE, pieces)


def load(run: str | Path, checkpoint: str = "last") -> Model:
    """Load a trained run, with greedy decoding and the settings of conf/transcribe.yaml. Raises UsageError."""
    look_up_in(CONF)  # today's config completes the run's
    settings = OmegaConf.load(CONF / "transcribe.yaml")
    assert isinstance(settings, DictConfig)
    decoder = OmegaConf.load(CONF / "decoder" / "greedy.yaml")
    options = {key: settings[key] for key in ("gpus", "longest", "batch_seconds")}
    request = {**options, "decoder": decoder, "run": str(run), "checkpoint": checkpoint}
    return Model(load_recogniser(OmegaConf.create(request)))


class _Reader:
    """Reads recordings and reports those that fail. lengths: samples of each recording read so far, in order."""

    def __init__(self, progress: Progress) -> None:
        self.progress = progress
        self.lengths: list[tuple[Source, int]] = []
        self.failed = 0

    def sound(self, sources: Iterable[Source]) -> Iterator[tuple[Source, float]]:
        """Yield the files with readable headers, and their durations in seconds."""
        for source in sources:
            try:
                yield source, duration(source.path)
            except UsageError as error:
                self._report(error)

    def recordings(self, sources: Iterable[Source]) -> Iterator[np.ndarray]:
        """Yield the samples of each file."""
        for source in sources:
            try:
                samples = read_whole(source.path)
            except UsageError as error:
                self._report(error)
            else:
                self.lengths.append((source, len(samples)))
                yield samples

    def _report(self, error: UsageError) -> None:
        self.failed += 1
        message = harmless_line(f"error: {error}")
        if self.progress.disable:
            print(message, file=sys.stderr)
        else:
            self.progress.console.print(message, markup=False)

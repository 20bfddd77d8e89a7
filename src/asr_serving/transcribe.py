"""Transcribe recordings as text, JSON or subtitles, to standard output, one file, or one file per recording."""

import io
import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import soundfile
from omegaconf import DictConfig, OmegaConf
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from asr_ablations import SAMPLE_RATE
from asr_ablations.config.compose import look_up_in
from asr_ablations.data.audio import duration, header, read
from asr_ablations.tools.files import CONF
from asr_ablations.training.assembly import build_decoder
from asr_ablations.training.lightning_warnings import silence_lightning
from asr_ablations.training.trained_model import load_run
from asr_serving.recogniser import Piece, Recogniser, Word
from asr_serving.requests import requested_audio
from asr_verdicts.errors import UsageError
from asr_verdicts.files import is_regular, write
from asr_verdicts.terminal import console, harmless_line

ENDINGS = {"text": ".txt", "json": ".json", "srt": ".srt"}
SUBTITLE_LETTERS, SUBTITLE_SECONDS, SUBTITLE_GAP = 80, 6.0, 1.0
"""A subtitle has at most 80 characters (two lines) and lasts at most 6 s. A pause of 1 s or more starts a new one."""


@dataclass(frozen=True)
class Transcript:
    """The transcript of an audio file, in pieces. seconds: duration of the file."""

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
        """Return the object to write as JSON, with times in seconds rounded to milliseconds."""
        words = [
            {"word": w.word, "start": round(w.start, 3), "end": round(w.end, 3), "confidence": round(w.confidence, 3)}
            for w in self.words
        ]
        pieces = [{"start": round(p.start, 3), "end": round(p.end, 3), "text": p.text} for p in self.pieces]
        return {
            "file": self.file, "seconds": round(self.seconds, 3), "text": self.text, "words": words, "pieces": pieces,
        }  # fmt: skip


def as_line(transcript: Transcript, form: str) -> str:
    """Return the transcript as one line: a JSON object if `form` is json, else path, tab and text."""
    if form == "json":
        return json.dumps(transcript.content(), ensure_ascii=False) + "\n"
    return f"{transcript.file}\t{transcript.text}\n"


def as_srt(transcript: Transcript) -> str:
    """Return the transcript as subtitles in the SubRip format (.srt)."""
    blocks = []
    for number, words in enumerate(subtitles(transcript.words), start=1):
        times = f"{_clock(words[0].start)} --> {_clock(words[-1].end)}"
        blocks.append(f"{number}\n{times}\n{' '.join(word.word for word in words)}\n")
    return "\n".join(blocks)


def subtitles(words: Iterable[Word]) -> list[list[Word]]:
    """Group words into subtitles, each a list of consecutive words."""
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
"""Mean confidence below which the speech is probably unlike the training data. A model trained on the built-in corpus
had a mean of 0.90 on new speakers of that corpus, with nine of ten utterances above 0.83. On real speech (AN4), the
same model had a mean of 0.64, with nine of ten utterances below 0.70.
"""
FEWEST = 5  # smallest number of words to judge, because one unusual name lowers the mean of fewer words too much


def doubt(words: Iterable[Word]) -> str | None:
    """Return a warning if the words' mean confidence is low, else None."""
    confidences = [word.confidence for word in words]
    mean = sum(confidences) / max(1, len(confidences))
    if len(confidences) < FEWEST or mean >= SURE:
        return None
    return (
        f"low confidence throughout: {mean:.2f} on average over {len(confidences)} words, expected {SURE:g} or more. "
        "The text is probably wrong, because a model only recognises speech like its training data (docs/models.md)"
    )


AUDIO_ENDINGS = {f".{name.lower()}" for name in soundfile.available_formats()} | {".aif", ".oga", ".opus"}
BLOCK = 30
"""Whole number of seconds to read and resample at once. Resampling ten minutes at once would need 1.2 GB."""
PLAIN_RATE = 48_000
"""Sampling rate in Hz above which the blocks of audio to resample get proportionally shorter."""


class Source(NamedTuple):
    """An audio file. name: path relative to the requested folder, or the file's name if it was requested directly."""

    path: Path
    name: Path


def find_sources(requested: Sequence[str]) -> list[Source]:
    """Return the audio files at the requested paths, without duplicates. "-" stands for paths listed on standard input.

    Raise UsageError if a folder has no audio, or if the list on standard input is empty.
    """
    sources: dict[Path, Source] = {}
    if isinstance(sys.stdin, io.TextIOWrapper):
        sys.stdin.reconfigure(errors="surrogateescape")  # file names need not be valid UTF-8
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
    """Read a recording as int16 samples (S,) at 16 kHz. The channels of a stereo recording are averaged.

    To save memory, the recording is read and resampled in blocks. Blocks start at whole seconds and are resampled with
    an extra second on each side, which gives the same result as resampling the whole recording at once. Raise
    AudioError if the file is missing, damaged or empty.
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
"""Endings of transcript files, which a transcription may overwrite. Other files are overwritten only if empty."""


def _refuse_replacing(files: Iterable[Path], sources: Sequence[Source]) -> None:
    """Raise UsageError if an existing output file is not a transcript, or is a recording under another name."""
    recordings = {os.stat(path)[1:3]: path for path, _ in sources if os.path.exists(path)}  # inode and device
    for file in filter(os.path.isfile, files):
        if (recording := recordings.get(file.stat()[1:3])) is not None:
            raise UsageError(f"output={file}: is the recording {recording}; expected another file")
        if file.stat().st_size and file.resolve().suffix.lower() not in REPLACED:
            raise UsageError(f"output={file}: is not a transcript; expected a new file, or {', '.join(REPLACED)}")


class Stream:
    """Writes each transcript to standard output immediately, or all of them to a file at the end."""

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
            target = self.file.resolve()  # replace the file that a link points to, not the link
            if target.exists() and not is_regular(target):  # write into a pipe or device, which cannot be replaced
                target.write_text("".join(self.parts), encoding="utf-8", errors="backslashreplace")
            else:
                write(target, "".join(self.parts))


class Folder:
    """Writes one file per recording. Raises UsageError if two recordings would share one or it may not be replaced."""

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
        """Do nothing, because `add` has already written every file."""


def choose_output(output: str | None, form: str, sources: Sequence[Source], single: bool) -> Stream | Folder:
    """Return the output that the config key `output` selects. single: whether a single file was requested.

    Raise UsageError if a file that is not a transcript would be overwritten, or if one file would get the subtitles of
    several recordings.
    """
    path = None if output is None else Path(output)
    if path is not None and (str(output).endswith("/") or path.is_dir()):
        return Folder(path, form, sources)
    if form == "srt" and not single:
        raise UsageError(f"format=srt with several files: expected output=<folder>/, not output={output}")
    _refuse_replacing([path] if path is not None else [], sources)
    return Stream(path, form, single)


def transcribe(cfg: DictConfig) -> int:
    """Transcribe the requested recordings, and return the number of files that failed.

    Print every failure, and a warning if the mean confidence is low. Raise UsageError if the request is invalid.
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
    """Load the model and the decoder that a config selects. Raise UsageError on failure."""
    silence_lightning()
    trained = load_run(str(cfg.run), cfg.checkpoint)
    OmegaConf.update(trained.cfg, "gpus", cfg.gpus)
    decoder = build_decoder(cfg.decoder, trained.task.alphabet)
    return Recogniser(trained, decoder, longest=cfg.longest, batch_seconds=cfg.batch_seconds)


class Model:
    """A trained run that recognises speech, as returned by `load`."""

    def __init__(self, recognise: Recogniser) -> None:
        self.recognise = recognise

    def transcribe(self, audio: str | Path) -> Transcript:
        """Transcribe a recording. Each word has a start and an end in seconds, and a confidence in 0..1.

        Raise UsageError if the file is not audio.
        """
        samples = read_whole(Path(audio))
        (pieces,) = self.recognise([samples])
        return Transcript(str(audio), len(samples) / SAMPLE_RATE, pieces)


def load(run: str | Path, checkpoint: str = "last") -> Model:
    """Load a trained run for greedy decoding with the settings in conf/transcribe.yaml. Raise UsageError on failure."""
    look_up_in(CONF)  # defaults for keys that the run's config lacks
    settings = OmegaConf.load(CONF / "transcribe.yaml")
    assert isinstance(settings, DictConfig)
    decoder = OmegaConf.load(CONF / "decoder" / "greedy.yaml")
    options = {key: settings[key] for key in ("gpus", "longest", "batch_seconds")}
    request = {**options, "decoder": decoder, "run": str(run), "checkpoint": checkpoint}
    return Model(load_recogniser(OmegaConf.create(request)))


class _Reader:
    """Reads recordings and reports unreadable files. lengths: each recording read so far and its number of samples."""

    def __init__(self, progress: Progress) -> None:
        self.progress = progress
        self.lengths: list[tuple[Source, int]] = []
        self.failed = 0

    def sound(self, sources: Iterable[Source]) -> Iterator[tuple[Source, float]]:
        """Yield each file whose header can be read, with its duration in seconds."""
        for source in sources:
            try:
                yield source, duration(source.path)
            except UsageError as error:
                self._report(error)

    def recordings(self, sources: Iterable[Source]) -> Iterator[np.ndarray]:
        """Yield the samples of each file that can be read."""
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

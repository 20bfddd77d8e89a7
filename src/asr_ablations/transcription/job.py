"""transcribe(cfg): run loaded, files listed, read, recognised, written in order. What cannot be read is passed over."""

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
from omegaconf import DictConfig, OmegaConf
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from asr_ablations import SAMPLE_RATE
from asr_ablations.config.build import build
from asr_ablations.data.audio import duration
from asr_ablations.tools.errors import UsageError
from asr_ablations.training.load import load_run
from asr_ablations.training.quiet import quiet
from asr_ablations.transcription.output import writer
from asr_ablations.transcription.recogniser import Recogniser
from asr_ablations.transcription.request import asked
from asr_ablations.transcription.sources import Source, listed, whole
from asr_ablations.transcription.transcript import Transcript


def transcribe(cfg: DictConfig) -> int:
    """How many files could not be transcribed; each was told. Raises UsageError for a request that cannot be met."""
    sources = listed(asked(cfg))
    single = len(sources) == 1 and sources[0].path == Path(asked(cfg)[0])
    write = writer(cfg.output, cfg.format, sources, single)
    recognise = recogniser(cfg)
    bad: list[Source] = []
    with _bar() as bar:
        sound = list(_sound(sources, bad, bar))
        task = bar.add_task("transcribing", total=sum(seconds for _, seconds in sound))
        read: list[tuple[Source, int]] = []
        found = recognise(_read((s for s, _ in sound), read, bad, bar), lambda seconds: bar.advance(task, seconds))
        for number, pieces in enumerate(found):
            source, length = read[number]
            write.add(source, Transcript(str(source.path), length / SAMPLE_RATE, pieces))
    write.close()
    if bad:
        print(f"{len(bad)} of {len(sources)} files could not be transcribed", file=sys.stderr)
    return len(bad)


def recogniser(cfg: DictConfig) -> Recogniser:
    """The model and the decoder that the config names. Raises UsageError where they cannot be had."""
    quiet()
    trained = load_run(str(cfg.run), cfg.checkpoint)
    OmegaConf.update(trained.cfg, "gpus", cfg.gpus)
    decoder = build(cfg.decoder)(trained.task.alphabet)
    return Recogniser(trained, decoder, longest=cfg.longest, batch_seconds=cfg.batch_seconds)


def _bar() -> Progress:
    columns = TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn()
    console = Console(stderr=True, soft_wrap=True, highlight=False)
    return Progress(*columns, transient=True, console=console, disable=not console.is_terminal)


def _sound(sources: Iterable[Source], bad: list[Source], bar: Progress) -> Iterator[tuple[Source, float]]:
    """The files with a header that can be read, and their seconds."""
    for source in sources:
        try:
            yield source, duration(source.path)
        except UsageError as error:
            _tell(source, error, bad, bar)


def _read(
    sources: Iterable[Source], read: list[tuple[Source, int]], bad: list[Source], bar: Progress
) -> Iterator[np.ndarray]:
    """Samples of one file after another; `read` is told of each, with their number."""
    for source in sources:
        try:
            samples = whole(source.path)
        except UsageError as error:
            _tell(source, error, bad, bar)
            continue
        read.append((source, len(samples)))
        yield samples


def _tell(source: Source, error: UsageError, bad: list[Source], bar: Progress) -> None:
    bad.append(source)
    told = " ".join(f"error: {error}".split())
    if bar.disable:
        print(told, file=sys.stderr)
    else:
        bar.console.print(told, markup=False)

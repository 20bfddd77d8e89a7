"""The recogniser with a model that has memorised the corpus of tones."""

from pathlib import Path

import numpy as np
import pytest

from asr_ablations import SAMPLE_RATE
from asr_ablations.components.decoder.greedy import Greedy
from asr_ablations.training.load import load_run
from asr_ablations.transcription.recogniser import Recogniser, batches
from asr_ablations.transcription.sources import read_whole

pytestmark = pytest.mark.filterwarnings("ignore:GPU available but not used")


def recogniser(run: Path, **changes: float) -> Recogniser:
    trained = load_run(run)
    return Recogniser(trained, Greedy(trained.task.alphabet), **{"longest": 20.0, "batch_seconds": 3.0, **changes})


def learnt(corpus: Path) -> tuple[list[Path], list[str]]:
    lines = [line for file in sorted(corpus.rglob("train/*/1/*.trans.txt")) for line in file.read_text().splitlines()]
    audio = [next(corpus.rglob(f"{line.split()[0]}.flac")) for line in lines]
    return audio, [line.partition(" ")[2].lower() for line in lines]


def test_memorised_utterances_are_recognised_in_order(memorised_run: Path, tiny_corpus: Path) -> None:
    files, texts = learnt(tiny_corpus)
    done: list[float] = []
    results = list(recogniser(memorised_run)((read_whole(file) for file in files), done.append))
    assert [[piece.text for piece in pieces] for pieces in results] == [[text] for text in texts]
    assert sum(done) == pytest.approx(sum(len(read_whole(file)) for file in files) / SAMPLE_RATE)
    for pieces in results:
        times = [time for word in pieces[0].words for time in (word.start, word.end)]
        assert times == sorted(times)
        assert times[-1] <= pieces[0].end + 0.04


def test_a_recording_gives_the_same_alone_and_among_others(memorised_run: Path, tiny_corpus: Path) -> None:
    recognise = recogniser(memorised_run)
    audio = [read_whole(file) for file in learnt(tiny_corpus)[0]]
    for alone, pieces in zip(audio, recognise(audio), strict=True):
        (expected,) = recognise([alone])
        assert pieces[0].text == expected[0].text
        assert [w.confidence for w in pieces[0].words] == pytest.approx(
            [w.confidence for w in expected[0].words], abs=1e-4
        )


def test_times_of_later_pieces_count_from_the_beginning(memorised_run: Path, tiny_corpus: Path) -> None:
    """Two utterances with a second of silence between, cut in it."""
    first, second = (read_whole(file) for file in learnt(tiny_corpus)[0][:2])
    joined = np.concatenate([first, np.zeros(SAMPLE_RATE, np.int16), second])
    (pieces,) = recogniser(memorised_run, longest=2.2)([joined])
    assert [piece.start for piece in pieces][1:] == [piece.end for piece in pieces][:-1]
    assert pieces[-1].end == len(joined) / SAMPLE_RATE
    for piece in pieces:
        assert all(piece.start <= word.start < word.end <= piece.end + 0.04 for word in piece.words)


def test_no_recording_and_recordings_of_almost_nothing(memorised_run: Path) -> None:
    recognise = recogniser(memorised_run)
    assert list(recognise([])) == []
    assert [[p.text for p in pieces] for pieces in recognise([np.zeros(n, np.int16) for n in (0, 1, 399)])] == [
        [],
        [""],
        [""],
    ]


def test_batches_hold_all_places_once_and_waste_little() -> None:
    generator = np.random.default_rng(0)
    places = [(i, (0, int(size))) for i, size in enumerate(generator.integers(1, 1000, 200))]
    drawn = list(batches(places, 4000))
    assert sorted(place for batch in drawn for place in batch) == sorted(places)
    sizes = [[end for _, (_, end) in batch] for batch in drawn]
    assert all(max(batch) * len(batch) <= 4000 for batch in sizes)
    padded, real = sum(max(batch) * len(batch) for batch in sizes), sum(map(sum, sizes))
    assert real / padded > 0.9
    assert list(batches([(0, (0, 9000))], 4000)) == [[(0, (0, 9000))]]

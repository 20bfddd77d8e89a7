"""The recogniser, its recordings, and transcripts: words with their times, long recordings in pieces, formats."""

import io
import itertools
import math
import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import soundfile
import torch

from asr_ablations import SAMPLE_RATE
from asr_ablations.components.decoder.greedy import Greedy
from asr_ablations.data.alphabet import Letters
from asr_ablations.data.audio import duration, read
from asr_ablations.data.word_times import label_frames
from asr_ablations.training.trained_model import load_run
from asr_serving.recogniser import Piece, Recogniser, Word, align, batches, cut
from asr_serving.transcribe import (
    Folder,
    Source,
    Stream,
    Transcript,
    as_srt,
    choose_output,
    doubt,
    find_sources,
    read_whole,
    subtitles,
)
from asr_verdicts.errors import UsageError


def words(*times: tuple[str, float, float]) -> list[Word]:
    return [Word(word, start, end, 1.0) for word, start, end in times]


def test_srt_is_numbered_and_has_its_clock() -> None:
    said = words(("one", 0.0, 0.5), ("two", 0.6, 1.0), ("three", 3600.0 + 61.2345, 3600.0 + 62))
    text = as_srt(Transcript("a.wav", 3600.0 + 70, [Piece(0.0, 3600.0 + 70, said)]))
    assert text == (
        "1\n00:00:00,000 --> 00:00:01,000\none two\n\n2\n01:01:01,234 --> 01:01:02,000\nthree\n"
    )  # https://en.wikipedia.org/wiki/SubRip#Format


def test_subtitles_are_short_and_lose_no_word() -> None:
    assert as_srt(Transcript("a.wav", 3.0, [Piece(0.0, 3.0, [])])) == ""
    said = words(*((f"word{i}", 0.4 * i, 0.4 * i + 0.3) for i in range(200)))
    groups = subtitles(said)
    assert [word for group in groups for word in group] == said
    assert all(len(" ".join(word.word for word in group)) <= 80 for group in groups)
    assert all(group[-1].end - group[0].start <= 6 for group in groups)


def test_files_that_would_overwrite_each_other_are_refused(tmp_path: Path) -> None:
    both = [Source(tmp_path / "x" / "a.wav", Path("a.wav")), Source(tmp_path / "y" / "a.wav", Path("a.wav"))]
    with pytest.raises(UsageError, match=r"x/a\.wav and .*y/a\.wav would both become a\.wav\.srt"):
        choose_output(f"{tmp_path}/", "srt", both, False)


def test_several_files_need_a_folder_which_is_there_or_is_typed_with_a_slash(tmp_path: Path) -> None:
    both = [Source(Path("a.wav"), Path("a.wav")), Source(Path("b.wav"), Path("b.wav"))]
    with pytest.raises(UsageError, match="expected output=<folder>/"):
        choose_output(None, "srt", both, False)
    for name, kind in ((f"{tmp_path}", Folder), (f"{tmp_path}/new/", Folder), (f"{tmp_path}/new.txt", Stream)):
        assert type(choose_output(name, "text", both[:1], True)) is kind


def test_output_goes_through_links_and_into_devices_and_replaces_neither(tmp_path: Path) -> None:
    target, link, device = tmp_path / "target.txt", tmp_path / "link.txt", tmp_path / "device"
    link.symlink_to(target)
    device.symlink_to("/dev/null")
    for file in (link, device):
        stream = Stream(file, "text", single=True)
        stream.parts = ["words\n"]
        stream.close()
    assert (link.is_symlink(), target.read_text()) == (True, "words\n")
    assert device.resolve() == Path("/dev/null")
    assert Path("/dev/null").is_char_device()


def test_a_recording_is_not_replaced_by_its_transcript(tmp_path: Path) -> None:
    recording = tmp_path / "a.wav"
    recording.write_bytes(b"RIFF")
    (tmp_path / "link.txt").symlink_to(recording)
    (tmp_path / "hard.txt").hardlink_to(recording)
    sources = [Source(Path("b.wav"), Path("b.wav")), Source(recording, Path("a.wav"))]
    folder = f"{tmp_path}/../{tmp_path.name}"
    for spelling in (str(recording), os.path.relpath(recording), f"{folder}/a.wav", f"{folder}/link.txt",
                     f"{folder}/hard.txt"):  # fmt: skip
        with pytest.raises(UsageError, match=r"is the recording .*a\.wav"):
            choose_output(spelling, "text", sources, False)
    spoken = Source(tmp_path / "talk.txt", Path("talk.txt"))  # audio, whatever its ending says
    spoken.path.write_bytes(b"RIFF")
    sources = [spoken, Source(tmp_path / "x" / "talk", Path("talk"))]
    with pytest.raises(UsageError, match=r"is the recording .*talk\.txt"):
        choose_output(f"{tmp_path}/", "text", sources, False)


@pytest.mark.parametrize(
    ("name", "content", "allowed"),
    [
        ("notes.docx", "mine", False),
        ("b.flac", "sound", False),
        ("notes.docx", "", True),
        ("new.docx", None, True),
        ("earlier.JSON", "words", True),
    ],
)
def test_only_a_transcript_is_replaced(tmp_path: Path, name: str, content: str | None, allowed: bool) -> None:
    if content is not None:
        (tmp_path / name).write_text(content)
    (tmp_path / "link.txt").symlink_to(name)
    for file in (name, "link.txt"):
        if allowed:
            assert type(choose_output(f"{tmp_path}/{file}", "text", [], False)) is Stream
        else:
            with pytest.raises(UsageError, match=f"output=.*{file}: is not a transcript"):
                choose_output(f"{tmp_path}/{file}", "text", [], False)


@pytest.mark.parametrize(
    ("confidences", "doubted"), [([0.9] * 9, False), ([0.6] * 9, True), ([0.6] * 4, False), ([], False)]
)
def test_a_confidence_that_is_low_throughout_is_said(confidences: list[float], doubted: bool) -> None:
    sentence = doubt(Word("a", 0.0, 1.0, confidence) for confidence in confidences)
    assert (sentence is not None) == doubted
    assert not doubted or "0.60 on average over 9 words" in str(sentence)


ALPHABET = Letters("ab ")


def sharp(path: str, confidence: float = 0.9) -> torch.Tensor:
    """Log-probabilities (T, 4) whose best symbol of each frame is the path's, "-" being blank."""
    rows = torch.full((len(path), 4), (1 - confidence) / 3)
    for row, symbol in zip(rows, path, strict=True):
        row["-ab ".index(symbol)] = confidence
    return rows.log()


def test_times_are_of_the_first_and_the_last_letters_frames() -> None:
    words = align(sharp("--aab--- -b-a-"), "ab ba", ALPHABET, step=0.04, offset=10.0)
    assert [word.word for word in words] == ["ab", "ba"]
    assert [(word.start, word.end) for word in words] == [
        pytest.approx((10.08, 10.20)),
        pytest.approx((10.40, 10.52)),
    ]
    assert [word.confidence for word in words] == pytest.approx([0.9, 0.9])


def test_confidence_is_the_geometric_mean_of_the_letters_frames() -> None:
    log_probs = torch.cat([sharp("a", 0.9), sharp("-", 0.5), sharp("b", 0.4)])
    (word,) = align(log_probs, "ab", ALPHABET, 1.0, 0.0)
    assert word.confidence == pytest.approx(math.sqrt(0.9 * 0.4))
    (unlikely,) = align(sharp("-a-b-", 0.99), "ba", ALPHABET, 1.0, 0.0)
    assert unlikely.confidence < 0.1


def test_the_path_is_the_best_of_all() -> None:
    """Against every path of six frames, ties among them: probabilities are of one digit."""

    def collapsed(path: Sequence[int]) -> list[int]:
        return [symbol for symbol, _ in itertools.groupby(path) if symbol]

    generator = torch.Generator().manual_seed(0)
    for _ in range(20):
        log_probs = torch.randint(1, 4, (6, 4), generator=generator).double().log_softmax(-1)
        for text in ("ab", "aa", "a b", "bab"):
            labels = ALPHABET.encode(text)
            paths = [p for p in itertools.product(range(4), repeat=6) if collapsed(p) == labels]
            best = max(sum(float(log_probs[t, s]) for t, s in enumerate(p)) for p in paths)
            frames = label_frames(log_probs.numpy(), labels)
            path = [0] * 6
            for label, where in zip(labels, frames, strict=True):
                for t in where:
                    path[t] = label
            assert collapsed(path) == labels
            assert sum(float(log_probs[t, s]) for t, s in enumerate(path)) == pytest.approx(best)


def speech(*seconds: float, pause: float = 0.0) -> np.ndarray:
    """Noise of these durations, quiet hiss of `pause` seconds between."""
    generator = np.random.default_rng(0)
    hiss = generator.normal(0, 10, round(pause * SAMPLE_RATE))
    parts = [part for s in seconds for part in (generator.normal(0, 3000, round(s * SAMPLE_RATE)), hiss)]
    return np.concatenate(parts[:-1]).astype(np.int16)


@pytest.mark.parametrize("length", [0, 1, 32000, 32001, 100_003])
@pytest.mark.parametrize("kind", ["silence", "noise", "clicks"])
def test_pieces_cover_a_recording_exactly_and_none_is_too_long(length: int, kind: str) -> None:
    samples = {"silence": np.zeros(length), "noise": speech(7)[:length], "clicks": np.arange(length) % 4001 == 0}[kind]
    pieces = cut(samples.astype(np.int16), 2.0)
    assert [first for first, _ in pieces] == [0, *(end for _, end in pieces)][: len(pieces)]
    assert pieces[-1][1] == length if length else pieces == []
    assert all(0 < end - first <= 2 * SAMPLE_RATE for first, end in pieces)


def test_borders_lie_in_the_middle_of_pauses() -> None:
    """Pauses of 0.5 s at 3.0, 6.5 and 10.0 s; what is short enough stays whole."""
    assert cut(speech(1, 1, pause=0.5), 2.5) == [(0, round(2.5 * SAMPLE_RATE))]
    borders = [end / SAMPLE_RATE for _, end in cut(speech(3, 3, 3, 3, pause=0.5), 4.5)][:-1]
    assert borders == pytest.approx([3.25, 6.75, 10.25], abs=0.1)

    # a stop consonant is no pause: 0.08 s of silence at 2.5 s, beside a real pause from 3.5 s on
    samples = np.concatenate([speech(2.5), np.zeros(1280, np.int16), speech(0.92), np.zeros(6400, np.int16), speech(2)])
    assert cut(samples, 4.2)[0][1] / SAMPLE_RATE == pytest.approx(3.7, abs=0.1)


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
    results = recognise([np.zeros(n, np.int16) for n in (0, 1, 399)])
    assert [[piece.text for piece in pieces] for pieces in results] == [[], [""], [""]]


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


def test_folders_are_searched_at_any_depth_and_each_file_is_taken_once(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    for name in ("one.wav", "a/two.FLAC", "a/b/three.mp3", "a/notes.txt"):
        (tmp_path / name).touch()
    files = find_sources([str(tmp_path), str(tmp_path / "one.wav")])
    assert [str(source.name) for source in files] == ["a/b/three.mp3", "a/two.FLAC", "one.wav"]


def test_a_list_on_standard_input_and_an_empty_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("one two.wav\n\na\0b.wav\n" + "x" * 5000 + "\n"))
    assert [str(source.path) for source in find_sources(["-"])] == ["one two.wav", "a\0b.wav", "x" * 5000]
    monkeypatch.setattr("sys.stdin", io.StringIO("\n\n"))
    with pytest.raises(UsageError, match="no paths on standard input"):
        find_sources(["-"])
    with pytest.raises(UsageError, match="no audio in this folder"):
        find_sources([str(tmp_path)])


@pytest.mark.parametrize("rate", [8000, 44100])
def test_blocks_join_without_a_seam(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, rate: int) -> None:
    """Read in blocks of 2 s and all at once, stereo."""
    time = np.arange(round(5.37 * rate)) / rate
    tone = 0.4 * np.sin(2 * np.pi * 700 * time)
    soundfile.write(tmp_path / "a.wav", np.stack([tone, 0.5 * tone], axis=1), rate, subtype="PCM_16")
    monkeypatch.setattr("asr_serving.transcribe.BLOCK", 2)
    samples = read_whole(tmp_path / "a.wav").astype(int)
    expected = read(tmp_path / "a.wav", 0, duration(tmp_path / "a.wav")).astype(int)
    assert len(samples) == len(expected)
    assert np.abs(samples - expected).max() <= 1
    averaged = 0.75 * 0.4 * 32768 * np.sin(2 * np.pi * 700 * np.arange(len(samples)) / 16000)
    assert np.abs(samples - averaged)[800:-800].max() < 60

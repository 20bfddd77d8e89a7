"""What is written: subtitles, and where files go."""

from pathlib import Path

import pytest

from asr_ablations.tools.errors import UsageError
from asr_ablations.transcription.recogniser import Piece, Word
from asr_ablations.transcription.sources import Source
from asr_ablations.transcription.transcribe import Stream, writer
from asr_ablations.transcription.transcript import Transcript, as_srt, doubt, subtitles

HOUR = 3600.0


def words(*times: tuple[str, float, float]) -> list[Word]:
    return [Word(word, start, end, 1.0) for word, start, end in times]


def test_srt_is_numbered_and_has_its_clock() -> None:
    said = words(("one", 0.0, 0.5), ("two", 0.6, 1.0), ("three", HOUR + 61.2345, HOUR + 62))
    text = as_srt(Transcript("a.wav", HOUR + 70, [Piece(0.0, HOUR + 70, said)]))
    assert text == (
        "1\n00:00:00,000 --> 00:00:01,000\none two\n\n2\n01:01:01,234 --> 01:01:02,000\nthree\n"
    )  # https://en.wikipedia.org/wiki/SubRip#Format


def test_no_words_no_subtitles() -> None:
    assert as_srt(Transcript("a.wav", 3.0, [Piece(0.0, 3.0, [])])) == ""


def test_subtitles_are_short_and_lose_no_word() -> None:
    said = words(*((f"word{i}", 0.4 * i, 0.4 * i + 0.3) for i in range(200)))
    groups = subtitles(said)
    assert [word for group in groups for word in group] == said
    assert all(len(" ".join(word.word for word in group)) <= 80 for group in groups)
    assert all(group[-1].end - group[0].start <= 6 for group in groups)


def test_files_that_would_overwrite_each_other_are_refused(tmp_path: Path) -> None:
    both = [Source(tmp_path / "x" / "a.wav", Path("a.wav")), Source(tmp_path / "y" / "a.wav", Path("a.wav"))]
    with pytest.raises(UsageError, match=r"x/a\.wav and .*y/a\.wav would both become a\.wav\.srt"):
        writer(f"{tmp_path}/", "srt", both, False)


def test_subtitles_of_several_files_need_a_folder(tmp_path: Path) -> None:
    both = [Source(Path("a.wav"), Path("a.wav")), Source(Path("b.wav"), Path("b.wav"))]
    with pytest.raises(UsageError, match="expected output=<folder>/"):
        writer(None, "srt", both, False)


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


@pytest.mark.parametrize(
    ("confidences", "doubted"), [([0.9] * 9, False), ([0.6] * 9, True), ([0.6] * 4, False), ([], False)]
)
def test_a_confidence_that_is_low_throughout_is_said(confidences: list[float], doubted: bool) -> None:
    sentence = doubt(Word("a", 0.0, 1.0, confidence) for confidence in confidences)
    assert (sentence is not None) == doubted
    assert not doubted or "0.60 on average over 9 words" in str(sentence)

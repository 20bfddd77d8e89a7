"""The built-in corpus: real synthesis at tiny sizes."""

import hashlib
import json
import shutil
import subprocess
import sys
from collections import Counter
from dataclasses import asdict, replace
from pathlib import Path

import pytest
import soundfile

from asr_ablations.components.data.librispeech import list_folder
from asr_ablations.components.data.synthetic import add_voices
from asr_ablations.data.description import content_hash
from asr_ablations.synthesis import corpus, speakers
from asr_ablations.synthesis.corpus import SPEAKERS, Request, hash_generator
from asr_ablations.synthesis.languages import codes
from asr_ablations.synthesis.speakers import SPLITS, draw_speaker
from asr_ablations.tools.machine import one_at_a_time
from tests.helpers.support import compose

TINY = Request("en", 100, 3, 0.004, validation_speakers=2, validation_sentences=3, test_speakers=3, test_sentences=2)
SOURCE = Path(corpus.__file__).parents[2]


def file_hashes(folder: Path) -> dict[str, str]:
    """The SHA-256 of each file, by its place in the folder."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def transcripts(folder: Path) -> list[tuple[str, str]]:
    """The ids and texts of a split."""
    lines = [line for path in sorted(folder.glob("*/*/*.trans.txt")) for line in path.read_text().splitlines()]
    return [(line.split(" ", 1)[0], line.split(" ", 1)[1]) for line in lines]


def by_speaker(folder: Path) -> dict[str, list[str]]:
    """The texts of each speaker of a split, in their order."""
    texts: dict[str, list[str]] = {}
    for identifier, text in transcripts(folder):
        texts.setdefault(identifier.split("-")[0], []).append(text)
    return texts


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where all splits of TINY lie. Splits of other sizes may join them."""
    folder = tmp_path_factory.mktemp("tiny")
    corpus.generate(folder, TINY, SPLITS)
    return folder


@pytest.fixture(scope="module")
def tiny(root: Path) -> dict[str, Path]:
    return {split: TINY.folder(root, split) for split in SPLITS}


def test_arguments_out_of_range(tmp_path: Path) -> None:
    for changes, message in (
        ({"language": "xx"}, f"data.language=xx: expected {', '.join(codes())}"),
        ({"words": 59}, "data.words=59: expected a whole number from 60 to"),
        ({"hours": 0}, "data.hours=0: expected a number above 0"),
        ({"hours": 1e9}, "data.hours=1000000000.0: expected a number above 0"),
        ({"validation_sentences": True}, "data.validation_sentences=True: expected a whole number from 1 to 100000"),
    ):
        with pytest.raises(ValueError, match=message) as error:
            corpus.generate(tmp_path, Request(**{**asdict(TINY), **changes}), SPLITS)
        assert "\n" not in str(error.value)
        assert list(tmp_path.iterdir()) == []


def test_another_generator_has_another_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = shutil.copytree(Path(corpus.__file__).parent, tmp_path / "synthesis")
    monkeypatch.setattr(corpus, "__file__", str(package / "corpus.py"))
    names = []
    for change in (None, "sentences.py", "languages/pl.yaml"):
        if change:
            (package / change).write_bytes((package / change).read_bytes() + b"\n")
        hash_generator.cache_clear()
        names.append(TINY.folder(tmp_path, "train"))
    monkeypatch.undo()
    hash_generator.cache_clear()
    assert len(set(names)) == 3
    assert TINY.folder(tmp_path, "train") == names[0]


def test_layout(root: Path, tiny: dict[str, Path]) -> None:
    whole = root / f"en-100words-seed3-{hash_generator()}"
    names = {"train-0.004h", "dev-clean-2x3", "dev-other-2x3", "test-clean-3x2", "test-other-3x2", "vocabulary.txt"}
    assert {path.name for path in whole.iterdir()} == names
    said, people = {}, Counter()
    for split, folder in tiny.items():
        lines = transcripts(folder)
        summary = json.loads((folder / "split.json").read_text())
        assert sorted(identifier for identifier, _ in lines) == sorted(path.stem for path in folder.rglob("*.flac"))
        assert len(lines) == summary["utterances"]
        assert sum(len(text.split()) for _, text in lines) == summary["words"]
        assert len((folder / "SPEAKERS.TXT").read_text().splitlines()) == 1 + summary["speakers"]
        assert all(text == text.upper() for _, text in lines)
        said[split] = {text for _, text in lines}
        people.update({identifier.split("-")[0] for identifier, _ in lines})
        seconds = 0.0
        for identifier, _ in lines:
            speaker, chapter, _ = identifier.split("-")
            info = soundfile.info(folder / speaker / chapter / f"{identifier}.flac")
            assert (info.samplerate, info.channels, info.subtype) == (16000, 1, "PCM_16")
            assert 0.5 < info.duration < 15
            seconds += info.duration
        assert summary["hours"] == pytest.approx(seconds / 3600, abs=1e-5)
        if split == "train":
            assert seconds / 3600 == pytest.approx(0.004, rel=0.3)
        else:
            assert sorted(map(len, by_speaker(folder).values())) == ([3, 3] if "dev" in split else [2, 2, 2])
    assert max(people.values()) == 1
    assert not said["train"] & set.union(*(said[split] for split in SPLITS[1:]))
    words = set((whole / "vocabulary.txt").read_text().split())
    assert len(words) == 100
    assert {word.lower() for text in set.union(*said.values()) for word in text.split()} <= words


def test_what_two_requests_agree_on_is_generated_once(root: Path, tiny: dict[str, Path]) -> None:
    """Another size of the test sets leaves train and the dev sets alone."""
    before = {path: path.stat().st_mtime_ns for folder in tiny.values() for path in folder.rglob("*")}
    larger = replace(TINY, test_speakers=4)
    corpus.generate(root, larger, SPLITS)
    assert before == {path: path.stat().st_mtime_ns for path in before}
    shared = [split for split in SPLITS if larger.folder(root, split) == tiny[split]]
    assert shared == ["train", "dev-clean", "dev-other"]
    hours = replace(TINY, hours=0.008)
    assert [s for s in SPLITS if hours.folder(root, s) == tiny[s]] == list(SPLITS[1:])


def test_a_larger_evaluation_set_contains_the_smaller(root: Path, tiny: dict[str, Path]) -> None:
    """The same speakers, whatever the hours, read the same sentences first, with the same samples."""
    split = "test-clean"
    larger = replace(TINY, hours=7.0, validation_speakers=3, validation_sentences=4, test_speakers=4, test_sentences=3)
    corpus.generate(root, larger, [split])
    small, large = by_speaker(tiny[split]), by_speaker(larger.folder(root, split))
    assert small.keys() < large.keys()
    assert all(large[speaker][: len(texts)] == texts for speaker, texts in small.items())
    assert all(len(large[speaker]) == len(texts) + 1 for speaker, texts in small.items())
    audio = {name: content for name, content in file_hashes(tiny[split]).items() if name.endswith(".flac")}
    assert audio.items() < file_hashes(larger.folder(root, split)).items()


def test_interrupted_run_continues_to_the_same_bytes(
    root: Path, tiny: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, count = corpus.generate_speaker, 0

    def stop_in_the_second_split(job: corpus.SpeakerJob) -> None:
        nonlocal count
        count += 1
        if count == 4:
            raise KeyboardInterrupt
        whole(job)

    splits = ["dev-clean", "test-clean"]
    with monkeypatch.context() as patch:
        patch.setattr(corpus, "generate_speaker", stop_in_the_second_split)
        with pytest.raises(KeyboardInterrupt):
            corpus.generate(tmp_path, TINY, splits)
    assert not any(TINY.folder(tmp_path, split).exists() for split in splits)
    kept = {path.name: path.stat().st_mtime_ns for path in tmp_path.rglob("*.flac")}
    assert len(kept) == 2 * 3 + 2
    corpus.generate(tmp_path, TINY, splits)
    for split in splits:
        assert file_hashes(TINY.folder(tmp_path, split)) == file_hashes(tiny[split])
    times = {path.name: path.stat().st_mtime_ns for path in tmp_path.rglob("*.flac")}
    assert kept.items() < times.items()
    left = TINY.corpus(tmp_path) / ".dev-clean-2x3" / "records"  # by a run that was killed right before its end
    left.mkdir(parents=True)
    corpus.generate(tmp_path, TINY, splits)
    names = {"dev-clean-2x3", "test-clean-3x2", "vocabulary.txt"}
    assert {path.name for path in TINY.corpus(tmp_path).iterdir()} == names


def test_more_hours_begin_with_the_same_utterances_and_more_speakers(tiny: dict[str, Path], tmp_path: Path) -> None:
    job = corpus.plan(tmp_path, replace(TINY, hours=5.0), "train")[1]
    speaker = speakers.draw_speaker(TINY.seed, "en", job.split, job.index)
    spoken = by_speaker(tiny["train"])[str(speaker.number)]
    assert spoken == [text.upper() for _, (text, _) in zip(spoken, corpus.utterances(job), strict=False)]
    other = corpus.plan(tmp_path, replace(TINY, seed=TINY.seed + 1), "train")[1]
    assert next(corpus.utterances(other))[0].upper() != spoken[0], "another seed is another corpus"
    data = compose().data
    sizes = {name: data[name] for name in asdict(TINY) if name in data and name != "language"}
    for hours, train in [(0.6, 88), (100, 1136)]:
        request = Request(**{**sizes, "language": "en", "seed": 0, "hours": hours})
        jobs = corpus.plan(Path(), request, "train")
        assert len(jobs) == train
        assert sum(job.seconds for job in jobs) == pytest.approx(hours * 3600)
        for split, counts in {"dev": (11, 198), "test": (40, 1000)}.items():
            for kind in ("clean", "other"):
                jobs = corpus.plan(Path(), request, f"{split}-{kind}")
                assert (len(jobs), sum(job.utterances or 0 for job in jobs)) == counts


@pytest.mark.slow
def test_two_runs_at_once_with_many_processes_give_the_same_bytes(
    root: Path, tiny: dict[str, Path], tmp_path: Path
) -> None:
    code = f"""
import pathlib
from asr_ablations.synthesis import corpus
from asr_ablations.synthesis.corpus import Request
corpus.SPEED, corpus.cores = 1, lambda: 2
if __name__ == "__main__":
    corpus.generate(pathlib.Path({str(tmp_path)!r}), {TINY!r}, ["train", "dev-clean"])
"""
    script = tmp_path / "script.py"
    script.write_text(code)
    command, environment = [sys.executable, str(script)], {"PYTHONPATH": str(SOURCE)}
    # As long as the test holds the lock both have to wait, however fast they are.
    with one_at_a_time(tmp_path / f".{TINY.corpus(tmp_path).name}.lock", "the test itself waits"):
        runs = [subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) for _ in range(2)]
        first = [run.stderr.readline() for run in runs if run.stderr]
    assert all(line.startswith("Waiting for another process that is generating") for line in first)
    errors = [run.communicate(timeout=600)[1] for run in runs]
    assert [run.returncode for run in runs] == [0, 0], errors
    assert sum("Generating" in error for error in errors) == 1
    for split in ("train", "dev-clean"):
        assert file_hashes(TINY.folder(tmp_path, split)) == file_hashes(tiny[split])


def test_the_unit_of_an_utterance_is_the_voice_of_its_speaker(tiny: dict[str, Path]) -> None:
    for split, folder in tiny.items():
        listed = add_voices(list_folder(folder), folder / SPEAKERS)
        drawn = [draw_speaker(TINY.seed, TINY.language, split, index) for index in range(30)]
        voices = {str(speaker.number): f"voice {speaker.voice.partition('+')[2]}" for speaker in drawn}
        assert {u.speaker: u.unit for u in listed}.items() <= voices.items()
        assert len({u.unit for u in listed}) == len({u.speaker for u in listed})
    bare = add_voices(list_folder(folder), folder / "no such table")
    assert {u.unit for u in bare} == {""}
    assert content_hash(bare) != content_hash(listed)  # other units give other intervals

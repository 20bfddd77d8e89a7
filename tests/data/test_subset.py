"""data.subset: a part of the training set, drawn by speaker, and what is learned from it."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from asr_ablations.data.description import fingerprint
from asr_ablations.data.subset import Subset
from asr_ablations.data.utterances import Utterance, Utterances
from asr_ablations.language_models.text import transcripts
from asr_ablations.runs.identity import identity
from asr_verdicts.errors import UsageError
from tests.helpers.support import component, compose, tiny_overrides


def utterance(id_: str, speaker: str, duration: float, text: str = "a", **more: Any) -> Utterance:
    return Utterance(id_, speaker, Path(f"{id_}.flac"), 0.0, duration, text, **more)


def speech() -> list[Utterance]:
    """15 speakers with 20 to 60 utterances of 1 to 16 seconds, 1.2 hours or more."""
    rng = np.random.default_rng(7)
    counts = rng.integers(20, 60, 15)
    return [
        utterance(f"{speaker}-{i}", f"s{speaker}", float(rng.uniform(1, 16)))
        for speaker, count in enumerate(counts)
        for i in range(count)
    ]


def draw(utterances: list[Utterance], hours: float, seed: int = 0, max_seconds: float | None = None) -> list[Utterance]:
    return list(Subset({"hours": hours, "seed": seed}).draw(Utterances.convert(utterances), max_seconds))


@pytest.mark.parametrize("seed", range(5))
def test_fewer_hours_are_contained_in_more_and_end_within_an_utterance(seed: int) -> None:
    whole = speech()
    sizes, smaller = Counter(u.speaker for u in whole), set[str]()
    for hours in (0.01, 0.1, 0.3, 1.0):
        drawn = draw(whole, hours, seed)
        ids = {u.id for u in drawn}
        assert smaller < ids
        added = [u.duration for u in drawn if u.id not in smaller]
        assert hours <= sum(u.duration for u in drawn) / 3600 < hours + max(added) / 3600
        cut = [speaker for speaker, count in Counter(u.speaker for u in drawn).items() if count < sizes[speaker]]
        assert len(cut) <= 1, "all other speakers are whole"
        assert [u for u in whole if u.id in ids] == drawn, "in the order of the corpus"
        smaller = ids


def test_seeds_draw_other_speakers_and_the_order_of_a_list_draws_none() -> None:
    whole = speech()
    first = {seed: draw(whole, 0.01, seed)[0].speaker for seed in range(40)}
    assert len(set(first.values())) > 10
    shuffled = [whole[i] for i in np.random.default_rng(0).permutation(len(whole))]
    assert {u.id for u in draw(shuffled, 0.3)} == {u.id for u in draw(whole, 0.3)}


def test_the_last_speaker_is_cut_at_random_and_without_speakers_the_units_are_drawn() -> None:
    """A corpus of one speaker would otherwise be cut to its first chapter."""
    alone = [utterance(f"{i:03d}", "s", 36.0) for i in range(100)]
    places = [int(u.id) for u in draw(alone, 0.3)]
    assert len(places) == 30
    assert 30 < np.mean(places) < 70
    files = [utterance(f"{file}-{i}", "", 36.0, unit=f"file {file}") for i in range(5) for file in range(6)]
    assert len({u.unit for u in draw(files, 0.1)}) == 2
    alone = [utterance(f"{i}", "", 36.0) for i in range(20)]
    assert len(draw(alone, 0.1)) == 10


def test_what_no_model_can_use_does_not_count() -> None:
    sound = [utterance(f"a{i}", "a", 9.0) for i in range(8)]
    faulty = [utterance(f"f{i}", "a", 9.0, fault="missing file: x") for i in range(3)]
    others = [utterance("empty", "a", 9.0, ""), utterance("long", "a", 99.0)]
    drawn = draw([*faulty, *sound, *others], 72 / 3600, max_seconds=10)
    assert drawn == [*faulty, *sound], "faults are kept: they stop the run, or are listed"
    with pytest.raises(UsageError, match=r"^data.subset.hours=0.0201: expected at most 0.02, the hours of usable"):
        draw([*faulty, *sound, *others], 0.0201, max_seconds=10)
    with pytest.raises(UsageError, match="expected at most 0, "):
        draw(faulty, 1)


def corpus(root: Path, subset: dict[str, Any] | None, **more: Any) -> Any:
    roles = {"train": ["train"], "validation": ["dev"], "test": ["test"]}
    return component("data", "librispeech", root=str(root), subset=subset, **roles, **more)


def test_only_the_training_set_changes_and_everything_is_learned_from_it(tiny_corpus: Path) -> None:
    whole, part = corpus(tiny_corpus, None), corpus(tiny_corpus, {"hours": 1e-6, "seed": 0})
    (only,) = part.read_set("train")
    assert only in list(whole.read_set("train"))
    assert [list(part.read_set(name)) for name in ("dev", "test")] == [
        list(whole.read_set(name)) for name in ("dev", "test")
    ]
    assert transcripts(part, "train") == [only.text]
    letters = component("alphabet", "derived")(part).letters
    assert set(letters) == {" ", *only.text}
    seconds = sum(u.duration for u in whole.read_set("train"))
    everything = corpus(tiny_corpus, {"hours": (seconds - 0.001) / 3600, "seed": 3})
    assert list(everything.read_set("train")) == list(whole.read_set("train"))
    assert fingerprint(everything) == fingerprint(whole) != fingerprint(part)


def test_a_fault_outside_the_subset_still_stops(tiny_corpus: Path, tmp_path: Path) -> None:
    for split in ("train", "dev", "test"):
        files = sorted((tiny_corpus / split).rglob("*.flac"))
        lines = [{"audio_filepath": str(file), "text": "a", "speaker": file.stem.split("-")[0]} for file in files]
        lines += [{"audio_filepath": "missing.flac", "text": "q"}] * (split == "train")
        (tmp_path / f"{split}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    manifest = component("data", "manifest", root=str(tmp_path), subset={"hours": 1e-6, "seed": 0})
    assert sorted(u.fault.partition(":")[0] for u in manifest.read_set("train")) == ["", "missing file"]
    assert component("alphabet", "derived")(manifest).letters == " a", "a faulty utterance teaches no letter"


def test_hours_and_seed_are_part_of_a_runs_identity(tiny_corpus: Path) -> None:
    def id_of(subset: str) -> str:
        return identity(compose(*tiny_overrides(tiny_corpus), f"data.subset={subset}"))

    assert len({id_of(x) for x in ("null", *(f"{{hours:{h},seed:{s}}}" for h in (1, 10) for s in (0, 1)))}) == 5
    assert id_of("{hours:1.0,seed:0}") == id_of("{seed:0,hours:1}")

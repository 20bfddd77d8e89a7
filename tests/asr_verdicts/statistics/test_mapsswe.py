"""The matched pairs test against NIST's own output."""

import random
import re

import numpy as np
import pytest
from scipy import stats

from asr_verdicts.statistics.mapsswe import BUFFER, Places, error_places, matched_pairs, segment_differences
from tests.helpers.support import shared_data


def sgml_places(name: str) -> dict[str, Places]:
    """Places of errors by utterance, from the alignment that sclite made."""
    places_by_id = {}
    text = shared_data(f"golden/wer/sctk/{name}").read_text()
    for id_, aligned in re.findall(r'<PATH id="(.*?)".*?>\n(.*?)\n</PATH>', text, flags=re.DOTALL):
        places, word = [], 0
        for kind in re.findall(r"(?:^|:)([CSDI]),", aligned):
            if kind != "C":
                places.append(2 * word + (kind != "I"))
            word += kind != "I"
        places_by_id[id_] = places
    return places_by_id


def nist(name: str) -> dict[str, float]:
    """What sc_stats printed in its MTCH_PR_RESULTS line."""
    text = shared_data(f"golden/wer/sctk/base_sc_stats/{name}").read_text()
    keys = {"segments": "# segs", "mean": "mean", "deviation": "std dev", "z": "Z Stat"}
    return {key: float(re.findall(rf"\({mark}: ([-\d.]+)\)", text)[0]) for key, mark in keys.items()}


@pytest.mark.parametrize(
    ("first", "second", "output"),
    [
        ("file1.sgml", "file2.sgml", "test1a.stats.mapsswe"),
        ("file2.sgml", "file1.sgml", "test1b.stats.mapsswe"),
    ],
)
def test_the_result_is_that_of_sc_stats(first: str, second: str, output: str) -> None:
    ours, theirs = sgml_places(first), sgml_places(second)
    assert sum(map(len, ours.values())) + sum(map(len, theirs.values())) == 16  # 9 and 7 in NIST's report
    segments = [d for id_ in ours for d in segment_differences([ours[id_]], [theirs[id_]])]
    result, expected = matched_pairs(segments), nist(output)
    for key, value in expected.items():
        assert getattr(result, key) == pytest.approx(value, abs=5e-4), key
    assert result.p < 0.05  # (Stat Diff: Yes)


def automaton(length: int, first: Places, second: Places) -> list[tuple[int, int]]:
    """Segments (errors of the first, of the second) by the state machine of NIST's mtchprs.c, read word by word."""
    state, good, segments, current = "b", 0, [], [0, 0]
    for word in range(length + 1):
        inserted = [places.count(2 * word) for places in (first, second)]
        wrong = [places.count(2 * word + 1) for places in (first, second)]
        current = [a + b for a, b in zip(current, inserted, strict=True)]
        if any(inserted):
            state, good = "e", 0
        if word == length:
            break
        current = [a + b for a, b in zip(current, wrong, strict=True)]
        if any(wrong):
            state, good = "e", 0
        elif state == "e":
            good += 1
            if good == BUFFER:
                segments.append(tuple(current))
                state, good, current = "b", 0, [0, 0]
    return segments + ([tuple(current)] if state == "e" else [])


@pytest.mark.parametrize("seed", range(100))
def test_segments_are_those_of_nists_state_machine(seed: int) -> None:
    drawn = random.Random(seed)
    length = drawn.randint(0, 20)
    first, second = (sorted(drawn.choices(range(2 * length + 1), k=drawn.randint(0, 5))) for _ in "ab")
    first, second = ([p for i, p in enumerate(x) if p % 2 == 0 or p not in x[:i]] for x in (first, second))
    expected = [a - b for a, b in automaton(length, first, second)]
    assert segment_differences([first], [second]) == pytest.approx(expected)


def test_places_of_errors_by_hand() -> None:
    assert error_places("a b c", "a b c") == []
    assert error_places("a b c", "a x c") == [3]
    assert error_places("a b c", "b c") == [1]
    assert error_places("a b c", "a b c d e") == [6, 6]
    assert error_places("", "a") == [0]
    assert error_places("a", "") == [1]


def test_several_seeds_share_their_segments_and_count_once() -> None:
    """Three equal seeds give the mean of one seed, not three times the evidence."""
    ours, theirs = [1, 3, 21], [9, 21]
    assert segment_differences([ours] * 3, [theirs] * 3) == pytest.approx(segment_differences([ours], [theirs]))


def test_p_is_the_normals() -> None:
    values = np.random.default_rng(0).normal(0.2, 1, 80)
    expected = stats.norm.sf(stats.ttest_1samp(values, 0).statistic) * 2
    assert matched_pairs(values.tolist()).p == pytest.approx(expected)


def test_two_segments_are_enough_and_one_is_not() -> None:
    assert matched_pairs([1.0, 2.0]).z == pytest.approx(1.5 / (0.5**0.5 / 2**0.5))  # mean over its standard error


@pytest.mark.parametrize("values", [[], [1.0], [1.0, 1.0], [0.0] * 9])
def test_without_spread_the_test_decides_nothing(values: list[float]) -> None:
    assert (matched_pairs(values).z, matched_pairs(values).p) == (0, 1)


def test_the_matched_pairs_of_a_single_seed_would_raise_many_alarms() -> None:
    """Why no verdict rests on them: the utterances of a seed hold no noise of seeds."""
    generator = np.random.default_rng(0)

    def errors() -> np.ndarray:
        """100 utterances of 8 words by a model whose true rate is drawn anew."""
        return generator.binomial(8, np.clip(generator.normal(0.1, 0.03), 0, 1), 100).astype(float)

    ps = [matched_pairs((errors() - errors()).tolist()).p for _ in range(200)]
    assert np.mean(np.array(ps) <= 0.05) > 0.2

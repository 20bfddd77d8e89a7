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


def test_places_of_errors_by_hand_and_several_seeds_count_once() -> None:
    assert error_places("a b c", "a b c") == []
    assert error_places("a b c", "a x c") == [3]
    assert error_places("a b c", "b c") == [1]
    assert error_places("a b c", "a b c d e") == [6, 6]
    assert error_places("", "a") == [0]
    assert error_places("a", "") == [1]
    # three equal seeds give the mean of one seed, not three times the evidence
    ours, theirs = [1, 3, 21], [9, 21]
    assert segment_differences([ours] * 3, [theirs] * 3) == pytest.approx(segment_differences([ours], [theirs]))


def test_the_result_is_that_of_sc_stats() -> None:
    for first, second, output in (("file1", "file2", "test1a"), ("file2", "file1", "test1b")):
        ours, theirs = sgml_places(f"{first}.sgml"), sgml_places(f"{second}.sgml")
        assert sum(map(len, ours.values())) + sum(map(len, theirs.values())) == 16  # 9 and 7 in NIST's report
        result = matched_pairs([d for id_ in ours for d in segment_differences([ours[id_]], [theirs[id_]])])
        text = shared_data(f"golden/wer/sctk/base_sc_stats/{output}.stats.mapsswe").read_text()
        for key, mark in {"segments": "# segs", "mean": "mean", "deviation": "std dev", "z": "Z Stat"}.items():
            (printed,) = re.findall(rf"\({mark}: ([-\d.]+)\)", text)[:1]
            assert getattr(result, key) == pytest.approx(float(printed), abs=5e-4), key
        assert result.p < 0.05  # (Stat Diff: Yes)


def test_segments_are_those_of_nists_state_machine() -> None:
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

    for seed in range(100):
        drawn = random.Random(seed)
        length = drawn.randint(0, 20)
        first, second = (sorted(drawn.choices(range(2 * length + 1), k=drawn.randint(0, 5))) for _ in "ab")
        first, second = ([p for i, p in enumerate(x) if p % 2 == 0 or p not in x[:i]] for x in (first, second))
        expected = [a - b for a, b in automaton(length, first, second)]
        assert segment_differences([first], [second]) == pytest.approx(expected)


def test_p_is_the_normals_and_without_spread_nothing_is_decided() -> None:
    values = np.random.default_rng(0).normal(0.2, 1, 80)
    expected = stats.norm.sf(stats.ttest_1samp(values, 0).statistic) * 2
    assert matched_pairs(values.tolist()).p == pytest.approx(expected)
    assert matched_pairs([1.0, 2.0]).z == pytest.approx(1.5 / (0.5**0.5 / 2**0.5))  # mean over its standard error
    for same in ([], [1.0], [1.0, 1.0], [0.0] * 9):
        assert (matched_pairs(same).z, matched_pairs(same).p) == (0, 1)

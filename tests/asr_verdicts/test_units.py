"""What was drawn independently: speakers, or the voices that several speakers share."""

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from asr_verdicts.comparison import compare
from asr_verdicts.design import Options
from asr_verdicts.evidence import Evidence
from asr_verdicts.record import Record
from asr_verdicts.samples import units_of_rows
from asr_verdicts.statistics.procedures import FixedLength
from asr_verdicts.verdict import Verdict
from tests.helpers.invented_records import finished, records

SPEAKERS, EACH, WORDS, SEEDS = 40, 5, 20, 5
ABLATION = {"question": "?", "factor": "rnn", "baseline": "lstm"}


def runs(arm: str, effects: np.ndarray, voices: Sequence[str] | None) -> list[Record]:
    """A run per seed; effects: of the arm on the WER of each speaker; voices: of each speaker."""
    made = []
    for seed in range(SEEDS):
        rng = np.random.default_rng([seed, sum(arm.encode())])
        rows: list[dict[str, Any]] = []
        for speaker in range(SPEAKERS):
            for number in range(EACH):
                wrong = int(rng.binomial(WORDS, float(np.clip(0.25 + effects[speaker], 0, 1))))
                unit = {} if voices is None else {"unit": voices[speaker]}
                rows.append({
                    "set": "test", "id": f"{speaker:02d}-{number}", "speaker": str(speaker), **unit,
                    "reference": "a " * WORDS, "hypothesis": "x " * wrong + "a " * (WORDS - wrong), "words": WORDS,
                    "substitutions": wrong, "deletions": 0, "insertions": 0,
                })  # fmt: skip
        made.append(finished(f"rnn={arm}", seed, rows, ablation=ABLATION))
    return made


@functools.cache
def baseline(voices: tuple[str, ...] | None) -> list[Record]:
    return runs("lstm", np.zeros(SPEAKERS), voices)


def verdict(effects: np.ndarray, voices: Sequence[str] | None) -> Verdict:
    both = records(baseline(None if voices is None else tuple(voices)), runs("gru", effects, voices))
    comparison = compare(both, Options(), "x", Evidence(FixedLength(), "declared"))
    (answer,) = comparison.answer
    return answer


def planted(count: int, rng: np.random.Generator) -> tuple[np.ndarray, list[str]]:
    """The effect of an arm on each of 40 speakers, who have it from their voice; and their voices."""
    of_voice = rng.normal(0, 0.1, count)
    return np.array([of_voice[speaker % count] for speaker in range(SPEAKERS)]), [
        f"voice pl+{speaker % count}" for speaker in range(SPEAKERS)
    ]


def test_eight_voices_in_forty_speakers_give_an_interval_over_eight_units() -> None:
    effects, voices = planted(8, np.random.default_rng(1))
    by_voice, by_speaker = verdict(effects, voices), verdict(effects, None)
    estimate, naive = by_voice.estimate, by_speaker.estimate
    assert (estimate.speakers, estimate.unit) == (8, "voices")
    assert (naive.speakers, naive.unit) == (40, "speakers")
    assert "5 seeds, 8 voices" in by_voice.sentence
    assert "5 seeds, 40 speakers" in by_speaker.sentence
    # five speakers of a voice say what one says: the variance is five times as large, by 7 in place of 39 degrees
    assert estimate.over_speakers.standard_error / naive.over_speakers.standard_error == pytest.approx(5**0.5, rel=0.1)
    assert estimate.over_speakers.degrees == 7
    test_speakers = [levers.speakers for levers in by_voice.levers.values()]
    assert all(count is None or count > 8 for count in test_speakers)


@pytest.mark.slow
def test_arms_that_are_equal_but_for_the_voices_drawn_are_called_different_as_often_as_promised() -> None:
    """The effects of 8 voices have mean 0 over all voices there are. By speakers most tables claim a difference."""
    rng = np.random.default_rng(0)
    claims = {"voices": 0, "speakers": 0}
    tables = 40
    for _ in range(tables):
        effects, voices = planted(8, rng)
        claims["voices"] += verdict(effects, voices).outcome in ("better", "worse")
        claims["speakers"] += verdict(effects, None).outcome in ("better", "worse")
    assert claims["voices"] <= 6  # 5 % of 40 are 2; 7 or more would come by chance in 3 of 1,000 campaigns
    assert claims["speakers"] >= 12


def test_units_of_rows() -> None:
    rows: list[Any]
    for rows, units, kind in (
        ([{"unit": ""}, {"unit": ""}], ["1", "2"], "speakers"),
        ([{"unit": "voice a"}, {"unit": "voice a"}], ["voice a", "voice a"], "voices"),
        ([{"unit": "session a"}, {"unit": "book a"}], ["session a", "book a"], "units"),
        ([{"unit": "voice a"}, {}], ["1", "2"], "speakers"),
    ):
        spoken = [{"speaker": str(number), **row} for number, row in enumerate(rows, start=1)]
        assert units_of_rows(spoken) == (units, kind)

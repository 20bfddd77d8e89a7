"""Tests on pairs of runs of one recipe: how often they call the two different."""

import itertools
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from asr_ablations.comparison.folders import compare_folders
from asr_verdicts.arms import Arm
from asr_verdicts.design import Options
from asr_verdicts.statistics.sample import Sample
from publish.archive import unpack
from publish.single_runs import Pairs, Share, divide, format_single_runs, judge_part, measure_shares, pair_runs
from tests.helpers.command import REPOSITORY

WORDS, UTTERANCES = 6, 400


def judge(noise: float, seed: int, runs: int = 12) -> np.ndarray:
    """The share of pairs that each test calls different. Rates of the runs vary around 20 % by `noise`."""
    random = np.random.default_rng(seed)
    rates = np.clip(0.2 + noise * random.standard_normal((runs, 1, 1)), 0, 1)
    wrong = random.random((runs, UTTERANCES, WORDS)) < rates
    speakers = np.repeat(np.arange(40), UTTERANCES // 40).astype(np.str_)
    sample = Sample.of_errors(wrong.sum(axis=2).astype(float), np.full(UTTERANCES, float(WORDS)), speakers)
    pairs = list(itertools.combinations(range(runs), 2))
    segments = [[[float(value)] for value in sample.errors[one] - sample.errors[other]] for one, other in pairs]
    return judge_part(sample, np.arange(UTTERANCES), pairs, segments).mean(axis=0)


def test_runs_that_differ_by_their_utterances_alone_are_called_different_as_often_as_allowed() -> None:
    shares = np.mean([judge(0.0, seed) for seed in range(20)], axis=0)
    assert shares == pytest.approx(0.05, abs=0.025)


def test_noise_of_seeds_as_large_as_that_of_the_utterances_makes_a_sixth_of_the_pairs_different() -> None:
    """The variance of the difference doubles: P(|z| > 1.96 / √2) = 0.166."""
    noise = np.sqrt(0.2 * 0.8 / (UTTERANCES * WORDS))
    shares = np.mean([judge(noise, seed) for seed in range(20)], axis=0)
    assert shares == pytest.approx(0.166, abs=0.04)


def test_parts_share_no_unit_and_are_the_whole_set() -> None:
    units = np.array([f"voice {number % 7}" for number in range(50)])
    parts = list(divide(units, 3))
    assert sorted(np.concatenate(parts).tolist()) == list(range(50))
    for one, other in itertools.combinations(parts, 2):
        assert not {*units[one]} & {*units[other]}


def test_the_standard_error_of_a_share_is_its_deviation_over_worlds() -> None:
    """Pairs are called different if their normal numbers are 1.96 apart. Each world has 3 arms of 8 runs."""
    random, shares = np.random.default_rng(0), []
    sample, pairs = Sample.of_rates(np.zeros(8)), list(itertools.combinations(range(8), 2))
    for _ in range(400):
        worlds = random.standard_normal((3, 8))
        calls = [np.array([[abs(runs[one] - runs[other]) > 1.96] for one, other in pairs], float) for runs in worlds]
        shares += measure_shares([Pairs(sample, pairs, {1: of_arm}) for of_arm in calls], 1)
    values, errors = np.array(shares).T
    assert np.sqrt(np.mean(errors**2)) == pytest.approx(np.std(values), rel=0.15)
    assert str(Share(0.15, 0.1)) == "15 (0 to 35)"


@pytest.mark.slow
def test_twenty_seeds_as_published_and_arms_that_hold_a_stream_are_left_out(tmp_path: Path) -> None:
    (sweep,) = unpack([REPOSITORY / "sweeps" / "records" / "seeds.tar.xz"], tmp_path)
    comparison = compare_folders([sweep], Options())
    *_, rows, figure = format_single_runs([comparison], tmp_path)
    whole = rows.splitlines()[-1].removesuffix(" |").split(" | ")
    assert (whole[2:4], whole[6]) == (["20", "190"], "1,000")
    assert [share.partition(" ")[0] for share in whole[8:]] == ["15", "14", "14"]
    assert (tmp_path / figure.removeprefix("![single runs](").removesuffix(")")).exists()
    held = [replace(run, config={**run.config, "seeds": {"init": 1000}}) for run in comparison.arms[0].runs]
    assert pair_runs(comparison, Arm("held", held)) is None


def test_the_page_says_what_the_results_say() -> None:
    results = (REPOSITORY / "sweeps" / "RESULTS.md").read_text(encoding="utf-8").partition("## Single runs")[2]
    rows = [row.removesuffix(" |").split(" | ") for row in results.splitlines() if row.endswith(") |")]
    page = (REPOSITORY / "docs" / "single_runs.md").read_text(encoding="utf-8")
    for _, same in itertools.groupby(rows, lambda row: row[:6]):
        epochs, runs, pairs, rate, deviation = (sizes := list(same))[0][1:6]
        shares = " | ".join(row[8] for row in sizes)
        assert f"| {epochs} | {rate} | {deviation} | {runs} | {pairs} | {shares} |" in page
    assert len(rows) == 4 * len(re.findall(r"^\| \d+ \|", page, re.MULTILINE))
    calls, count = [int(row[8].split()[0]) for row in rows[3::4]], sum(int(row[3]) for row in rows[3::4])
    claim = rf"(?s) {min(calls)} to {max(calls)} of 100\scases.* {count} pairs"
    assert re.search(claim, (REPOSITORY / "README.md").read_text(encoding="utf-8"))

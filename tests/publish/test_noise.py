"""The noise of seeds and the ranks of losses over all sweeps."""

import re
from collections.abc import Sequence
from math import sqrt
from pathlib import Path
from statistics import correlation, fmean, stdev, variance

import torch
from scipy import stats

from asr_ablations.comparison.folders import compare_folders
from asr_ablations.runs.reader import read_summary
from asr_verdicts.design import Options
from publish.noise import format_noise
from tests.helpers.run_folders import write_run

RATES = {"rnn=lstm": 0.2, "rnn=gru": 0.4, "norm=batch": 0.2, "norm=none": 0.6}
DATA = "AN4, en: test, 12 speakers"


def arm(outputs: Path, sweep: str, choice: str, seeds: Sequence[int], noise: int = 0) -> list[tuple[float, float]]:
    """Validation loss and test WER of runs of this choice, written here; noise: two arms with the same are alike."""
    factor = choice.partition("=")[0]
    ablation = {"question": "?", "factor": factor, "baseline": {"rnn": "lstm", "norm": "batch"}[factor]}
    runs = [
        write_run(
            outputs, choice, f"seed={seed}", sweep=sweep, rate=RATES[choice], noise=noise + seed, ablation=ablation
        )
        for seed in seeds
    ]
    sets = [read_summary(run).sets for run in runs]
    return [(each["dev"].loss, each["test"].wer) for each in sets]


def rates(points: list[tuple[float, float]]) -> list[float]:
    return [rate for _, rate in points]


def tables(outputs: Path) -> dict[str, list[list[str]]]:
    """The rows of the tables, by the second cell of their heads."""
    comparisons = [compare_folders([sweep], Options()) for sweep in sorted(outputs.iterdir())]
    found = {}
    for part in format_noise(comparisons):
        lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in part.splitlines() if line.startswith("|")]
        if lines:
            found[lines[0][1]] = lines[2:]
    return found


def test_arms_of_several_sweeps_are_put_together(tmp_path: Path) -> None:
    lstm = rates(arm(tmp_path, "rnn_type", "rnn=lstm", range(6)))
    gru = rates(arm(tmp_path, "rnn_type", "rnn=gru", range(6), noise=100))
    more = rates(arm(tmp_path, "batch_norm", "norm=batch", range(6, 11)))
    none = rates(arm(tmp_path, "batch_norm", "norm=none", range(6, 11), noise=200))
    every = [*lstm, *more]  # norm=batch is what rnn=lstm is, by another name
    shown = tables(tmp_path)
    pooled = sqrt(sum((len(values) - 1) * variance(values) for values in (every, gru, none)) / 19)
    names = {"batch_norm: norm=batch": every, "batch_norm: norm=none": none, "rnn_type: rnn=gru": gru}
    ordered = sorted((stdev(values), f"({name}, {len(values)} seeds)") for name, values in names.items())
    least, *_, greatest = [f"{100 * deviation:.2f} {name}" for deviation, name in ordered]
    most = f"{100 * fmean(every):.2f} ± {100 * stdev(every):.2f} (batch_norm: norm=batch, 11 seeds)"
    assert shown["utterances"] == [[DATA, "72", "22", "3", "19", f"{100 * pooled:.2f} WER", least, greatest, most]]
    low, high = sorted(
        [
            (correlation(more, none), "(batch_norm: norm=batch and norm=none)"),
            (correlation(lstm, gru), "(rnn_type: rnn=gru and rnn=lstm)"),
        ]
    )
    ends = [f"{value:+.2f} {name}" for value, name in (low, high)]
    quarter = (high[0] - low[0]) / 4
    quartiles = f"{low[0] + quarter:+.2f} to {high[0] - quarter:+.2f}"
    assert shown["pairs of arms"] == [[DATA, "2", f"{(low[0] + high[0]) / 2:+.2f}", quartiles, *ends]]


def test_one_training_under_two_names_counts_once(tmp_path: Path) -> None:
    arm(tmp_path, "rnn_type", "rnn=lstm", range(5))
    for seed in range(5):  # what gru recognised is what lstm did
        write_run(tmp_path, "rnn=gru", f"seed={seed}", sweep="rnn_type", rate=RATES["rnn=lstm"], noise=seed)
    shown = tables(tmp_path)
    assert shown["utterances"][0][2:4] == ["5", "1"]
    assert "pairs of arms" not in shown


def test_the_loss_ranks_runs_arms_and_chance(tmp_path: Path) -> None:
    lstm = arm(tmp_path, "rnn_type", "rnn=lstm", range(6))
    gru = arm(tmp_path, "rnn_type", "rnn=gru", range(4), noise=100)
    assert arm(tmp_path, "batch_norm", "norm=batch", range(6)) == lstm  # by another name
    none = arm(tmp_path, "batch_norm", "norm=none", range(1), noise=200)
    ((name, runs, of_runs, arms, of_arms, within),) = tables(tmp_path)["runs"]
    assert (name, runs, arms) == ("AN4, en: dev, WER on test, 12 speakers", "11", "3")
    rho, chance = (stats.spearmanr(*zip(*points, strict=True))[0] for points in ([*lstm, *gru, *none], lstm))
    assert of_runs.startswith(f"{rho:+.2f} (")
    assert of_arms == "–"  # fewer than four
    assert within == f"{chance:+.2f} (1 arm)"  # the other arms have fewer than five seeds


def test_the_price_of_an_answer_is_two_arms_of_as_many_seeds_as_decide(tmp_path: Path) -> None:
    """Eight seeds are priced, seven are not. By scipy's noncentral t, the seeds have a power of 80 % and not fewer."""
    lstm = rates(arm(tmp_path, "rnn_type", "rnn=lstm", range(8)))
    arm(tmp_path, "rnn_type", "rnn=gru", range(7), noise=100)
    ((_, name, runs, _, each, shown, _, price, _),) = tables(tmp_path)["arm"]
    minutes = 51 * torch.get_num_threads() / 60  # what write_run writes
    assert (name, runs, each) == ("rnn_type: rnn=lstm", "8", f"{minutes:.1f}")
    seeds, low, high = map(int, re.findall(r"\d+", shown))
    assert low < seeds < high
    assert price == f"{2 * minutes * seeds:,.0f} ({2 * minutes * low:,.0f} to {2 * minutes * high:,.0f})"
    powers = []
    for count in (seeds - 1, seeds + 1):
        critical = stats.t.ppf(0.975, 2 * count - 2)
        powers.append(stats.nct.sf(critical, 2 * count - 2, 0.01 / (stdev(lstm) * sqrt(2 / count))))
    assert powers[0] < 0.8 < powers[1]

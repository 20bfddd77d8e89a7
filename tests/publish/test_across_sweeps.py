"""The noise of seeds and the ranks of losses over all sweeps."""

from collections.abc import Sequence
from math import sqrt
from pathlib import Path
from statistics import correlation, variance

import pytest
from scipy import stats

from asr_ablations.comparison.folders import compare_folders
from asr_ablations.runs.reader import read_summary
from asr_verdicts.design import Options
from publish.across_sweeps import loss_ranks_section, seed_noise_section
from publish.loss_ranks import loss_ranks
from publish.seed_noise import SetNoise, noise_of_runs
from tests.helpers.run_folders import write_run

RATES = {"rnn=lstm": 0.2, "rnn=gru": 0.4, "norm=batch": 0.2, "norm=none": 0.6}


def arm(outputs: Path, sweep: str, choice: str, seeds: Sequence[int], noise: int = 0) -> list[float]:
    """The test WER of runs of this choice, written here; noise: two arms with the same are alike."""
    factor = choice.partition("=")[0]
    ablation = {"question": "?", "factor": factor, "baseline": {"rnn": "lstm", "norm": "batch"}[factor]}
    runs = [
        write_run(
            outputs, choice, f"seed={seed}", sweep=sweep, rate=RATES[choice], noise=noise + seed, ablation=ablation
        )
        for seed in seeds
    ]
    return [read_summary(run).sets["test"].wer for run in runs]


def noise(outputs: Path) -> list[SetNoise]:
    return noise_of_runs([(sweep.name, compare_folders([sweep], Options())) for sweep in sorted(outputs.iterdir())])


def test_arms_of_several_sweeps_are_put_together(tmp_path: Path) -> None:
    lstm = arm(tmp_path, "rnn_type", "rnn=lstm", range(6))
    gru = arm(tmp_path, "rnn_type", "rnn=gru", range(6), noise=100)
    more = arm(tmp_path, "batch_norm", "norm=batch", range(6, 11))
    none = arm(tmp_path, "batch_norm", "norm=none", range(6, 11), noise=200)
    (found,) = noise(tmp_path)
    assert (found.corpus, found.set, found.utterances, found.runs, found.degrees) == ("AN4, en", "test", 72, 22, 19)
    # norm=batch is what rnn=lstm is, by another name
    assert [arm.name for arm in found.arms] == ["batch_norm: norm=batch", "batch_norm: norm=none", "rnn_type: rnn=gru"]
    squares = sum((len(values) - 1) * variance(values) for values in ([*lstm, *more], gru, none))
    assert found.deviation == pytest.approx(sqrt(squares / 19))
    assert found.correlations == {
        ("batch_norm: norm=batch", "batch_norm: norm=none"): pytest.approx(correlation(more, none)),
        ("rnn_type: rnn=gru", "rnn_type: rnn=lstm"): pytest.approx(correlation(lstm, gru)),
    }


def test_too_few_seeds_in_common_are_no_correlation(tmp_path: Path) -> None:
    arm(tmp_path, "rnn_type", "rnn=lstm", range(6))
    arm(tmp_path, "rnn_type", "rnn=gru", range(2, 8), noise=100)
    (found,) = noise(tmp_path)
    assert (found.runs, found.correlations) == (12, {})


def test_two_seeds_of_an_arm_are_noise_and_one_is_not(tmp_path: Path) -> None:
    arm(tmp_path, "rnn_type", "rnn=lstm", range(2))
    arm(tmp_path, "rnn_type", "rnn=gru", range(1), noise=100)
    (found,) = noise(tmp_path)
    assert ([arm.name for arm in found.arms], found.runs, found.degrees) == (["rnn_type: rnn=lstm"], 2, 1)


def test_one_training_under_two_names_counts_once(tmp_path: Path) -> None:
    arm(tmp_path, "rnn_type", "rnn=lstm", range(5))
    for seed in range(5):  # what gru recognised is what lstm did
        write_run(tmp_path, "rnn=gru", f"seed={seed}", sweep="rnn_type", rate=RATES["rnn=lstm"], noise=seed)
    (found,) = noise(tmp_path)
    assert (len(found.arms), found.runs, found.correlations) == (1, 5, {})


def test_the_section_of_the_page(tmp_path: Path) -> None:
    assert seed_noise_section([]) == []
    arm(tmp_path, "rnn_type", "rnn=lstm", range(5))
    arm(tmp_path, "rnn_type", "rnn=gru", range(5), noise=100)
    (found,) = noise(tmp_path)
    heading, _, deviations, _, correlations = seed_noise_section(
        [("rnn_type", compare_folders([tmp_path / "rnn_type"], Options()))]
    )
    assert heading == "## Noise of seeds"
    least, greatest = sorted(arm.deviation for arm in found.arms)
    row = deviations.splitlines()[-1]
    assert row.startswith(
        "| AN4, en: test, 12 speakers | 72 | 10 | 2 | 8 | "
        f"{100 * found.deviation:.2f} WER | {100 * least:.2f} (rnn_type: "
    )
    assert f" | {100 * greatest:.2f} (rnn_type: " in row
    (r,) = found.correlations.values()
    assert correlations.splitlines()[-1].startswith(
        f"| AN4, en: test, 12 speakers | 1 | {r:+.2f} | {r:+.2f} to {r:+.2f} | {r:+.2f} (rnn"
    )


def test_the_loss_ranks_runs_arms_and_chance(tmp_path: Path) -> None:
    def known(sweep: str, choice: str, seeds: int, noise: int) -> list[tuple[float, float]]:
        folders = [
            write_run(tmp_path, choice, f"seed={seed}", sweep=sweep, rate=RATES[choice], noise=noise + seed)
            for seed in range(seeds)
        ]
        sets = [read_summary(folder).sets for folder in folders]
        return [(each["dev"].loss, each["test"].wer) for each in sets]

    assert loss_ranks_section([]) == []
    lstm, gru = known("rnn_type", "rnn=lstm", 6, 0), known("rnn_type", "rnn=gru", 4, 100)
    again = known("batch_norm", "norm=batch", 6, 0)  # rnn=lstm by another name
    assert again == lstm
    known("batch_norm", "norm=none", 1, 200)
    comparisons = [compare_folders([tmp_path / sweep], Options()) for sweep in ("rnn_type", "batch_norm")]
    (found,) = loss_ranks(comparisons)
    assert (found.runs, len(found.arms), found.of_arms) == (11, 3, None)
    assert found.of_runs is not None
    assert found.of_runs.value == pytest.approx(
        stats.spearmanr(*zip(*[point for arm in found.arms for point in arm.values()], strict=True))[0]
    )
    assert {point for arm in found.arms for point in arm.values()} >= {*lstm, *gru}
    (within,) = found.within_arms  # the other arms have less than five seeds
    assert within == pytest.approx(stats.spearmanr(*zip(*lstm, strict=True))[0])
    heading, _, rows = loss_ranks_section(comparisons)
    assert heading == "## Validation loss against error rate"
    assert rows.splitlines()[-1].startswith(
        f"| AN4, en: dev, WER on test, 12 speakers | 11 | {found.of_runs.value:+.2f} ("
    )
    assert rows.endswith(f" | 3 | – | {within:+.2f} (1 arm) |")

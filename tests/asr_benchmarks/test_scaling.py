"""benchmark=scaling: its options, its arithmetic, the published epochs, and the reason of a failed launch."""

import pytest
from hydra import compose as hydra_compose
from hydra import initialize_config_dir

from asr_ablations.tools.errors import UsageError
from asr_ablations.tools.machine import cores
from asr_benchmarks.scaling.scaling import (
    Point,
    failure_reason,
    published_rows,
    rank_counts,
    scaling,
    scaling_notes,
    scaling_plots,
    scaling_row,
)
from asr_benchmarks.timing import Timing
from tests.helpers.support import CONF, compose

OPTIONS = {"ranks": [1, 2], "batch": 4, "total": 4, "steps": 1, "warmup": 1, "repeats": 1, "threads": 1}


def point(tmp_path, ranks, batch, *answers, failed=None):
    keys = ("seconds", "R", "utterances", "peak")
    measurements = [dict(zip(keys, answer, strict=True)) for answer in answers]
    return Point(ranks, batch, tmp_path / "x.yaml", 1, measurements, failed)


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("ranks", [2, 4], "1 among them"),
        ("ranks", [1, 1], "different whole numbers"),
        ("ranks", [1, 0], "different whole numbers"),
        ("total", 3, r"a multiple of each number of ranks, 1, 2"),
        ("warmup", 0, "1 or more: the first step"),
        ("batch", 0, "1 or more"),
        ("threads", "all", "1 or more"),
    ],
)
def test_a_wrong_value_is_one_line(option, value, message):
    with pytest.raises(UsageError, match=rf"benchmark\.{option}=.*: expected .*{message}"):
        scaling(compose("gpus=0"), **{**OPTIONS, option: value})


def test_ranks_double_up_to_what_there_is():
    assert rank_counts(compose("gpus=0", "ranks=5"), None, gpus=0) == [1, 2, 4]
    assert rank_counts(compose(), None, gpus=8) == [1, 2, 4, 8]
    assert rank_counts(compose("gpus=0"), None, gpus=0)[-1] <= cores()
    with pytest.raises(UsageError, match="at most the 2 GPUs"):
        rank_counts(compose(), [1, 4], gpus=2)


def test_efficiency_is_the_rate_over_so_many_times_that_of_one_rank(tmp_path):
    single = point(tmp_path, 1, 4, (0.2, 1.0, 4.0, 2**20), (0.1, 2.0, 4.0, 2**20), (0.3, 3.0, 4.0, 2**20))
    double = point(tmp_path, 2, 4, (0.25, 3.0, 7.5, 2**21))
    row = scaling_row("weak", double, single)
    sizes = {"scaling": "weak", "ranks": 2, "batch per rank": 4, "total batch": 8}
    rates = {"ms per step": 250.0, "R": 3.0, "efficiency %": 75.0, "utterances per step": 7.5}
    assert row == {**sizes, **rates, "peak MiB per rank": 2.0}
    assert scaling_row("weak", single, single)["efficiency %"] == 100.0


def test_a_launch_that_failed_has_no_figures_and_a_note(tmp_path):
    single = point(tmp_path, 1, 4, (0.2, 1.0, 4.0, 2**20))
    broken = point(tmp_path, 2 * cores(), 4, failed="out of memory")
    assert all(scaling_row("weak", broken, single)[key] is None for key in ("ms per step", "R", "efficiency %"))
    notes = scaling_notes([single, broken], {single.name: Timing((0.2,))}, gpus=0, threads=1)
    assert f"{2 * cores()} ranks, batch 4 per rank, failed: out of memory" in notes
    assert any(line.startswith(f"{2 * cores()} ranks of 1 threads share {cores()} cores") for line in notes)


def test_the_reason_is_the_last_error_of_the_processes_not_of_torchrun(tmp_path):
    log = tmp_path / "log"
    log.write_text("start\n[rank1]: torch.OutOfMemoryError: CUDA out of memory\nx.ChildFailedError: y\nerror_file: z\n")
    assert failure_reason(log) == "[rank1]: torch.OutOfMemoryError: CUDA out of memory"
    log.write_text("killed\n")
    assert failure_reason(log) == f"see {log}"


def test_the_published_epochs_are_those_of_the_texts():
    rows = {(row["source (published)"], row["GPUs"]): row for row in published_rows()}
    returnn = [rows["Doetsch2016 §6", n] for n in (1, 2, 4)]
    assert [row["epoch, as printed"] for row in returnn] == [140, 80, 41]
    assert [row["efficiency %"] for row in returnn] == pytest.approx([100, 87.5, 85.37], abs=0.01)
    assert [rows["Ambroszczyk2019 table 2.2", n]["epoch, as printed"] for n in (1, 2, 4)] == [119, 56, 36]
    assert all(rows["Ambroszczyk2019 table 2.1", n]["epoch, as printed"] is None for n in (1, 2, 4))
    series = scaling_plots([{"scaling": "weak", "ranks": 1, "R": 1.0, "efficiency %": 100.0}])[0]["series"]
    assert list(series) == ["weak", "strong", "published, Doetsch2016 §6", "published, Ambroszczyk2019 table 2.2"]


def test_the_batch_is_the_configs_unless_another_is_chosen():
    with initialize_config_dir(version_base="1.3", config_dir=str(CONF)):
        cfg = hydra_compose("benchmarks", overrides=["overrides=[]", "benchmark=scaling", "batch.size=6"])
    assert (cfg.benchmark.batch, cfg.benchmark.total) == (6, 6)

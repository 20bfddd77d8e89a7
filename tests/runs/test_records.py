"""Records of runs, their reader, and the noise between seeds."""

import json
import os
import re
import shutil
import socket
from pathlib import Path
from typing import Any

import pytest
import yaml

from asr_ablations.comparison.folders import SweepsBeside
from asr_ablations.comparison.time_to_accuracy import validation_values
from asr_ablations.reproduction.reproduce import load_original
from asr_ablations.runs.identity import BEHAVIOUR
from asr_ablations.runs.lease import Lease
from asr_ablations.runs.process import load_frozen
from asr_ablations.runs.reader import UnreadableFileError, read_config
from asr_ablations.runs.records import CHANGED, EDITED, RENAMED, damage, load, read_run
from asr_ablations.runs.status import why_unfinished
from asr_verdicts.errors import UsageError
from asr_verdicts.files import write_json
from asr_verdicts.metrics import WER
from asr_verdicts.record import NO_SUMMARY
from asr_verdicts.statistics.seed_noise import SeedNoise
from tests.helpers.run_folders import edit, utterances, write_evaluation, write_run


def diverge(folder: Path) -> None:
    """Make a written run one that diverged at step 7, with what such a run leaves."""
    for name in ("summary.json", "utterances.csv"):
        (folder / name).unlink()
    status = json.loads((folder / "status.json").read_text())
    write_json(
        folder / "status.json",
        {**status, "status": "failed", "reason": "diverged at step 7: the loss is nan", "diverged": 7},
    )


def test_a_run_that_diverged_is_a_result(tmp_path: Path) -> None:
    done = write_run(tmp_path, "seed=0")
    lost = write_run(tmp_path, "seed=1", change=diverge)
    records = load([tmp_path / "sweep"])
    assert [run.folder for run in records.runs] == [done]
    (run,) = records.diverged
    assert (run.folder, run.seed, run.diverged_at) == (lost, 1, 7)
    assert run.overrides[-1] == "seed=1"
    assert run.data.hash("test") == "test-hash"
    assert (run.summary, run.utterances, len(run.metrics)) == (NO_SUMMARY, [], 10)
    assert run.model == f"{lost.name[-8:]}/last.ckpt"
    assert records.unfinished == []


def test_an_arm_that_never_started_has_its_frozen_config_under_whatever_name(tmp_path: Path) -> None:
    """With more that varies an arm has a longer name, and the frozen config of the first launch stays."""
    ran = write_run(tmp_path, "seed=0")
    arms = ran.parent / "arms"
    arms.mkdir()
    text = (ran / "config.yaml").read_text().replace("seed: 0\n", "seed: 9\n", 1)
    for name in (f"default-{ran.name.rpartition('-')[2]}", ran.name, "gru-0123abcd", "gru+seed-1-0123abcd"):
        (arms / f"{name}.yaml").write_text(text)
    found = load([ran.parent])
    assert [run.folder for run in found.runs] == [ran]
    (missing,) = found.unfinished
    assert (missing.folder.name, missing.state) == ("gru-0123abcd", "missing")
    assert missing.config is not None
    assert (missing.config["seed"], missing.overrides) == (9, ["data=an4", "data.root=/somewhere", "seed=0"])


def test_the_newest_declaration_counts_and_what_decides_is_named(tmp_path: Path) -> None:
    """A factor that was misspelt when the runs were trained; one run was added without any declaration."""
    declared = {"factor": "rnnn", "question": "a"}
    folder = write_run(tmp_path, "seed=0", ablation=declared)
    write_run(tmp_path, "seed=1")
    assert load([folder]).runs[0].config["ablation"] == declared
    mended = {"factor": "rnn", "question": "b"}
    write_json(folder.parent / "sweep.json", {"launches": [], "arms": [], "ablation": mended})
    records = load([folder.parent])
    assert [run.config["ablation"] for run in records.runs] == [mended, mended]
    assert records.warnings == [CHANGED.format("ablation.factor", "sweep")]
    assert read_config(folder)["ablation"] == declared, "the run keeps the config of its training"


def test_what_a_search_proposed_is_marked_and_what_was_declared_before_is_not(tmp_path: Path) -> None:
    """The search comes upon seed 1, which the first launch had declared; a later launch confirms seed 2 by name."""
    folders = [write_run(tmp_path, f"seed={seed}") for seed in range(4)]
    launches = [
        {"started": "0", "command": [], "arms": [folder.name[-8:] for folder in proposed], "search": search}
        for proposed, search in ((folders[:2], False), (folders[1:3], True), (folders[2:], False))
    ]
    write_json(tmp_path / "sweep" / "sweep.json", {"launches": launches, "arms": []})
    searched = {run.seed: run.searched for run in load([tmp_path / "sweep"]).runs}
    assert searched == {0: False, 1: False, 2: True, 3: False}
    assert read_run(folders[2]).searched


def test_an_evaluation_is_a_run_with_another_decoder(tmp_path: Path) -> None:
    folder = write_run(tmp_path)
    rows = utterances("test", 0.2, 0)
    for width in (16, 32):
        write_evaluation(folder, "beam", rows, width=width)
    trained, runs = read_run(folder), load([folder / "evaluations"]).runs
    assert [run.overrides for run in runs] == [
        [*trained.overrides, f"decoder=beam-width-{width}"] for width in (16, 32)
    ]
    assert [run.config["decoder"]["width"] for run in runs] == [16, 32]
    assert all((run.metrics, len(run.utterances)) == ([], len(rows)) for run in runs)


def test_the_record_is_read_as_numbers_and_each_run_once(tmp_path: Path) -> None:
    words = ["rnn=lstm", "seed=3", "optimizer.lr=1e-3"]
    folder = write_run(tmp_path, *words)
    run = read_run(folder)
    assert run.seed == 3
    assert run.overrides == ["data=an4", "data.root=/somewhere", *words]
    assert run.config["optimizer"]["lr"] == 0.001
    assert run.metrics[0]["validation/dev/wer"] == 0.9
    assert run.metrics[0]["train/loss_epoch"] is None
    assert {type(run.utterances[0][key]) for key in ("words", "substitutions", "characters")} == {int}
    kinds = ("substitutions", "deletions", "insertions")
    errors = sum(row[kind] for row in run.utterances for kind in kinds)
    assert errors == sum(run.summary.value(name, kind) or 0 for name in run.summary.sets for kind in kinds)
    assert len(load([folder, folder.parent, folder]).runs) == 1
    assert write_run(tmp_path, *words) == folder
    assert (tmp_path / "sweep" / f"{folder.name}.1").is_dir()
    assert [run.folder for run in load([tmp_path / "sweep"]).runs] == [folder], "an earlier one kept aside is no run"


def test_what_did_not_finish_is_named_with_its_reason(tmp_path: Path) -> None:
    done = write_run(tmp_path, "seed=0")
    failed, died = write_run(tmp_path, "seed=1", status="failed"), write_run(tmp_path, "seed=2", status="running")
    working = write_run(tmp_path, "seed=3", status="running")
    claim = Lease(working, lost=lambda reason: None)
    claim.take()
    (done.parent / "arms").mkdir()
    (done.parent / "arms" / f"{done.name}.yaml").touch()
    (done.parent / "arms" / "never-00000000.yaml").touch()
    found = load([tmp_path / "sweep"])
    claim.release()
    assert [run.folder for run in found.runs] == [done]
    assert {run.folder.name: (run.state, run.reason) for run in found.unfinished} == {
        failed.name: ("failed", "failed: out of memory"),
        died.name: ("interrupted", "ended without a message"),
        working.name: ("running", f"still running: process {os.getpid()} on {socket.gethostname()} is working on it"),
        "never-00000000": ("missing", "did not start"),
    }


def test_a_run_whose_status_was_lost_is_named(tmp_path: Path) -> None:
    whole, gone, loop = (write_run(tmp_path, f"seed={seed}") for seed in range(3))
    (gone / "status.json").unlink()
    (loop / "status.json").unlink()
    (loop / "status.json").symlink_to("status.json")
    records = load([tmp_path / "sweep"])
    assert [run.folder for run in records.runs] == [whole]
    assert {run.folder: run.state for run in records.unfinished} == {gone: "missing", loop: "damaged"}


def run_with(outputs: Path, wer: float, *overrides: str, data: str = "test-hash", **more: Any) -> Path:
    """A run whose WER on `test` is exactly this, tested on data of this hash."""

    def change(folder: Path) -> None:
        summary = json.loads((folder / "summary.json").read_text())
        summary["sets"]["test"]["wer"] = wer
        write_json(folder / "summary.json", summary)
        content = json.loads((folder / "data.json").read_text())
        content["sets"]["test"]["sha256"] = data
        write_json(folder / "data.json", content)

    return write_run(outputs, *overrides, change=change, **more)


def test_deviations_are_pooled_over_the_arms_of_other_sweeps(tmp_path: Path) -> None:
    """By hand: squares about the means 0.2 and 0.31 are 0.0002 and 0.0002, over 2 + 1 degrees of freedom; then an arm
    that goes on in another sweep, of which the same run counts once; seeds that agree do not prove that nothing moves.
    """
    pooled = [("rnn=lstm", seed, wer, "a") for seed, wer in enumerate((0.19, 0.20, 0.21))]
    pooled += [("rnn=gru", seed, wer, "b") for seed, wer in enumerate((0.30, 0.32))]
    once = [("norm=none", 0, 0.19, "a"), ("norm=none", 1, 0.21, "b"), ("norm=none", 1, 0.21, "c")]
    agreeing = [("norm=none", seed, 0.2, "a") for seed in (0, 1)]
    for runs, deviation, counts in (
        (pooled, (0.0004 / 3) ** 0.5, {"runs": 5, "arms": 2, "sweeps": 2}),
        (once, 0.0002**0.5, {"runs": 2, "arms": 1, "sweeps": 2}),
        (agreeing, None, {"runs": 2, "arms": 1, "sweeps": 1}),
    ):
        outputs = tmp_path / f"{counts}"
        like = read_run(run_with(outputs, 0.5, "rnn=rnn", sweep="new"))
        for choice, seed, wer, sweep in runs:
            run_with(outputs, wer, choice, f"seed={seed}", sweep=sweep)
        noise = SweepsBeside(like.folder.parent).seed_noise(like, "test", "wer")
        expected = deviation or 1 / like.summary.sets["test"].words / 12**0.5
        assert noise == SeedNoise(pytest.approx(expected), noise.mean, **counts)  # type: ignore[arg-type]


def test_a_damaged_run_is_named_with_its_file_and_left_out(tmp_path: Path) -> None:
    """None: a pipe, of which reading never ends."""
    whole = write_run(tmp_path, "seed=0")
    damages: list[tuple[str, str | bytes | None]] = [
        *((name, "5") for name in ("status.json", "summary.json", "environment.json", "data.json")),
        ("status.json", ""), ("status.json", "{"), ("status.json", b"\xff\xfe"), ("status.json", "[" * 100_000),
        ("status.json", None), ("summary.json", '{"sets": {"dev": 5}, "test_sets": ["dev"]}'),
        ("summary.json", '{"sets": {"dev": {"wer": "low"}}, "test_sets": ["dev"]}'), ("summary.json", None),
        ("environment.json", '{"hardware": {"threads": "two"}}'), ("data.json", '{"sets": 5}'), ("config.yaml", ""),
        ("config.yaml", "a: b: c"), ("config.yaml", "seed: abc"), ("config.yaml", None), ("overrides", b"\xff\xfe"),
        ("config.yaml", "a: !!python/object/apply:os.getcwd []"), ("metrics.csv", ""), ("metrics.csv", b"\x00\xff"),
        ("metrics.csv", "epoch,step\n1\n"), ("metrics.csv", "epoch,step\n1,many\n"), ("losses.csv", None),
        ("losses.csv", "batch,loss\n0,low\n"), ("model.txt", None), ("utterances.csv", ""),
        ("utterances.csv", "set,id\ndev,1\n"),
    ]  # fmt: skip
    template = write_run(tmp_path, "seed=1")
    for number, (name, content) in enumerate(damages):
        damaged = shutil.copytree(template, template.with_name(f"{number}-{template.name}"))
        (damaged / name).unlink(missing_ok=True)
        if content is None:
            os.mkfifo(damaged / name)
        else:
            (damaged / name).write_bytes(content if isinstance(content, bytes) else content.encode())
        assert name in str(damage(damaged)) or name in ("data.json", "overrides")
        records = load([whole, damaged])
        assert [run.folder for run in records.runs] == [whole]
        (absent,) = records.unfinished
        assert (absent.folder, absent.state) == (damaged, "damaged")
        assert name in absent.reason
        assert "\n" not in absent.reason
    pattern = r"(?ms)^data:\n.*?(?=^\w)"  # a stranger's config
    for wrong, replacement, reason in (
        (r"(?m)^ranks: .*$", "ranks: x", "ranks is not a whole number"), (pattern, "data: x\n", "data is not an object")
    ):  # fmt: skip
        strange = shutil.copytree(template, template.with_name(f"{replacement[:4]}-{template.name}"))
        edit(strange / "config.yaml", wrong, replacement)
        (absent,) = load([whole, strange]).unfinished
        assert absent.reason == f"damaged: config.yaml: cannot be read: {reason}"


def test_a_run_that_is_not_whole_is_named(tmp_path: Path) -> None:
    folder = write_run(tmp_path, change=lambda path: (path / "summary.json").unlink())
    assert why_unfinished(folder) is None
    with pytest.raises(UsageError, match=r"summary\.json"):
        read_run(folder)
    lost = write_run(tmp_path / "lost", change=diverge)
    (lost / "config.yaml").unlink()
    with pytest.raises(UsageError, match=r"its status is diverged, but config\.yaml is missing"):
        read_run(lost)
    with pytest.raises(UsageError, match="no such folder"):
        load([tmp_path / "absent"])
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError, match="holds no runs"):
        load([tmp_path / "empty"])


def test_utterances_that_are_not_those_of_the_summary_are_no_result(tmp_path: Path) -> None:
    folder = write_run(tmp_path)
    lines = (folder / "utterances.csv").read_text().splitlines(keepends=True)
    for changed, words in (
        (lines[:-1], "71 rows of test, but the summary counts 72"),
        ([*lines, lines[-1]], "73 rows of test"),
        ([*lines[:-1], lines[-2]], "utterances of test twice"),
    ):
        (folder / "utterances.csv").write_text("".join(changed))
        with pytest.raises(UsageError, match=words):
            read_run(folder)


def test_a_config_or_overrides_that_were_edited_since_the_run_are_a_warning(tmp_path: Path) -> None:
    """A comparison names arms by their overrides: an LSTM would stand in the table as a GRU."""
    folder = write_run(tmp_path, "rnn=lstm", "seed=0", behaviour=BEHAVIOUR)
    assert load([folder]).warnings == []
    edit(folder / "overrides", "rnn=lstm", "rnn=gru")
    assert load([folder]).warnings == [f"{folder.name}: {RENAMED}"]
    edit(folder / "overrides", "rnn=gru", "rnn=lstm")
    edit(folder / "config.yaml", "(?m)^seed: 0$", "seed: 5")
    assert load([folder]).warnings == [f"{folder.name}: {EDITED}"]


def test_values_are_read_as_the_run_meant_them(tmp_path: Path) -> None:
    """A validation set of a manifest has the name of its results; PyYAML alone reads 1e-3 as text."""
    folder = write_run(tmp_path)
    config = (folder / "config.yaml").read_text()
    for given in ("validation: clips/dev.jsonl", "validation:\n  - clips/dev.jsonl"):
        (folder / "config.yaml").write_text(config)
        edit(folder / "config.yaml", r"validation:\n +- dev", given)
        run = read_run(folder)
        assert run.validation_sets == ["dev"]
        assert validation_values(run, WER) == [0.9, 0.5, 0.3, 0.25, 0.2]
    for text in ("1e-3", "1.0e-3", "0.001", "1E-3"):
        edit(folder / "config.yaml", r"\n  lr: .*\n", f"\n  lr: {text}\n")
        assert read_run(folder).config["optimizer"]["lr"] == 0.001


def test_a_strangers_config_gets_nothing_of_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_TOKEN", "secret")
    folder = write_run(tmp_path, "seed=0")
    config = yaml.safe_load((folder / "config.yaml").read_text())
    for line, key in (
        ("ablation: {question: '${oc.env:MY_TOKEN}'}", "ablation.question"),
        ("arm: ${oc.env:MY_TOKEN}", "arm"),
        ("overrides: [seed=0, 'rnn=${oc.env:MY_TOKEN}']", "overrides.1"),
        ("'${oc.env:MY_TOKEN}': 1", "${oc.env:MY_TOKEN}"),
    ):
        (folder / "config.yaml").write_text(yaml.safe_dump({**config, **yaml.safe_load(line)}))
        words = re.escape(f"{key} contains an interpolation")
        with pytest.raises(UnreadableFileError, match=words):
            read_config(folder)
        with pytest.raises(UsageError, match=words):
            load_frozen(folder / "config.yaml")
        with pytest.raises(UsageError) as refused:
            load_original(folder)
        assert "secret" not in str(refused.value)


def test_what_is_not_the_same_is_no_noise(tmp_path: Path) -> None:
    others: list[dict[str, Any]] = [
        {"data": "other-hash"}, {"status": "failed"}, {"status": "pruned"}, {"behaviour": BEHAVIOUR + 1},
        {"sweep": "new"},
    ]  # fmt: skip
    for number, other in enumerate(others):
        outputs = tmp_path / f"{number}"
        like = read_run(run_with(outputs, 0.5, "rnn=rnn", sweep="new"))
        run_with(outputs, 0.19, "seed=0", sweep="a")
        run_with(outputs, 0.29, "seed=1", **{"sweep": "a", **other})
        run_with(outputs, 0.39, "seed=2", "dropout=0.5", sweep="a")
        assert SweepsBeside(like.folder.parent).seed_noise(like, "test", "wer") is None

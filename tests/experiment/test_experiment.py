"""An experiment: its run, its summary, and what follows a finished or an interrupted one."""

import csv
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
import wandb
from omegaconf import DictConfig

from asr_ablations.components.logger.wandb import run_id, wandb_logger
from asr_ablations.experiment.finished import find_finished_runs
from asr_ablations.experiment.fit import log_planned, log_result
from asr_ablations.experiment.run import set_up
from asr_ablations.runs.folder import Run
from asr_ablations.runs.status import DIVERGED
from asr_ablations.runs.sweep_history import PlannedRun
from asr_ablations.training.contracts import LoggerOfTables
from asr_verdicts.errors import UsageError
from asr_verdicts.files import write_csv, write_json
from asr_verdicts.record import SetResult, Summary
from tests.helpers.fits import fit, model_of, same
from tests.helpers.run_results import train
from tests.helpers.support import compose, defaults, group_options, tiny_overrides
from tests.helpers.wandb_file import read_run

EPOCHS = 3


@pytest.fixture(scope="module")
def folder(tiny_corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run whose WER stays at the 100 % of its first epoch: its learning rate is almost zero."""
    outputs = tmp_path_factory.mktemp("outputs")
    small = ["width=8", "layers=1", "gpus=0", "logger=csv", f"outputs={outputs}", "optimizer.lr=1e-9"]
    return train(compose(*tiny_overrides(tiny_corpus), *small, f"max_epochs={EPOCHS}"))


def test_the_last_checkpoint_is_of_the_last_epoch_and_the_best_of_the_first_of_the_lowest_rate(folder: Path) -> None:
    """Although no epoch was better than the first: an interrupted run continues from where it was."""
    last = torch.load(folder / "checkpoints" / "last.ckpt", weights_only=True)
    assert last["position"] == {"epoch": EPOCHS, "batches": 0}
    assert last["global_step"] == json.loads((folder / "summary.json").read_text())["steps"]
    with (folder / "metrics.csv").open() as file:
        rates = [float(row["validation/dev/wer"]) for row in csv.DictReader(file) if row["validation/dev/wer"]]
    best = torch.load(folder / "checkpoints" / "best.ckpt", weights_only=True)
    assert best["epoch"] == rates.index(min(rates))


def test_every_utterance_of_every_set_is_scored_once_and_the_summary_counts_them(folder: Path) -> None:
    with (folder / "utterances.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert sorted((row["set"], row["id"]) for row in rows) == [
        *(("dev", f"{speaker}-1-{number:04d}") for speaker in (20, 21) for number in range(3)),
        *(("test", f"30-1-{number:04d}") for number in range(2)),
    ]
    assert all(int(row["words"]) == len(row["reference"].split()) for row in rows)
    summary = json.loads((folder / "summary.json").read_text())
    for name, final in summary["sets"].items():
        own = [row for row in rows if row["set"] == name]
        errors = sum(int(row[kind]) for row in own for kind in ("substitutions", "deletions", "insertions"))
        assert final["wer"] == pytest.approx(errors / sum(int(row["words"]) for row in own))
    assert summary["epochs"] == EPOCHS


def test_the_final_loss_is_that_of_the_last_validation(folder: Path) -> None:
    """Both are of the last weights."""
    final = json.loads((folder / "summary.json").read_text())["sets"]
    with (folder / "metrics.csv").open() as file:
        losses = [float(row["validation/dev/loss"]) for row in csv.DictReader(file) if row["validation/dev/loss"]]
    assert final["dev"]["loss"] == pytest.approx(losses[-1], rel=1e-5)
    assert final["test"]["loss"] > 0


def test_the_norm_of_each_steps_gradient_is_recorded(folder: Path) -> None:
    """Lightning's mean over an epoch is that of the epoch's steps, three of them; so is the loss beside it."""
    with (folder / "losses.csv").open() as file:
        steps = list(csv.DictReader(file))
    with (folder / "metrics.csv").open() as file:
        epochs = [float(row["train/gradient_norm"]) for row in csv.DictReader(file) if row["train/gradient_norm"]]
    norms = [float(row["gradient_norm"]) for row in steps]
    by_epoch = [norms[at : at + 3] for at in range(0, len(norms), 3)]
    assert [sum(of_epoch) / 3 for of_epoch in by_epoch] == pytest.approx(epochs, rel=1e-5)
    # a batch that comes again in another epoch has the same norm to the last bit, or nearly: the weights hardly change
    assert [len(set(of_epoch)) for of_epoch in by_epoch] == [3] * EPOCHS


def test_a_run_on_the_cpu_never_opens_cuda(tiny_corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a machine with a GPU, which is someone else's: whatever asks CUDA for more than how many there are fails."""

    def opened(*_: object) -> None:
        raise AssertionError("CUDA was opened")

    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("torch.cuda.device_count", lambda: 1)
    monkeypatch.setattr("torch._C._cuda_init", opened)
    monkeypatch.setattr("torch.cuda.is_current_stream_capturing", lambda: False)  # opens nothing, but has no driver
    with pytest.raises(AssertionError, match="opened"):
        torch.cuda.get_rng_state()
    small = ["width=8", "layers=1", "gpus=0", "logger=csv", f"outputs={tmp_path}", "max_epochs=1"]
    made = train(compose(*tiny_overrides(tiny_corpus), *small))
    assert "cuda" not in torch.load(made / "checkpoints" / "last.ckpt", weights_only=True)["ranks"][0]["random"]


def config(corpus: Path, outputs: Path, *more: str) -> DictConfig:
    small = ["width=8", "layers=1", "gpus=0", "logger=csv", "max_epochs=1", f"outputs={outputs}"]
    return compose(*tiny_overrides(corpus), *small, *more)


@pytest.fixture(scope="module")
def trained(tiny_corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of outputs with one run of the corpus of tones. Read only."""
    outputs = tmp_path_factory.mktemp("outputs")
    train(config(tiny_corpus, outputs))
    return outputs


@pytest.fixture
def outputs(trained: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(trained, tmp_path / "outputs"))


@pytest.fixture
def corpus(tiny_corpus: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(tiny_corpus, tmp_path / "corpus"))


def status_file(outputs: Path) -> Path:
    (file,) = outputs.rglob("status.json")
    return file


def test_it_is_the_run_that_a_training_would_set_up(trained: Path, tiny_corpus: Path) -> None:
    cfg = config(tiny_corpus, trained)
    runs = find_finished_runs([cfg])
    assert runs is not None
    expected = set_up(cfg).record
    assert [(run.folder, run.id, run.fingerprint) for run in runs] == [
        (expected.folder, expected.id, expected.fingerprint)
    ]
    assert expected.folder == status_file(trained).parent


def test_data_may_have_moved(outputs: Path, corpus: Path) -> None:
    assert find_finished_runs([config(corpus, outputs)]) is not None


@pytest.mark.parametrize("override", ["seed=3", "width=16", "force=true"])
def test_another_request_is_to_be_trained(override: str, outputs: Path, tiny_corpus: Path) -> None:
    same, other = config(tiny_corpus, outputs), config(tiny_corpus, outputs, override)
    assert find_finished_runs([same]) is not None
    assert find_finished_runs([other]) is None
    assert find_finished_runs([same, other]) is None, "one is left to do"


def test_changed_data_are_trained_on(outputs: Path, corpus: Path) -> None:
    texts = next((corpus / "train").rglob("*.trans.txt"))
    texts.write_text(texts.read_text().replace("A CAB", "A BED", 1))
    assert find_finished_runs([config(corpus, outputs)]) is None


def test_missing_data_are_left_to_who_reports_them(outputs: Path, corpus: Path) -> None:
    shutil.rmtree(corpus / "dev")
    assert find_finished_runs([config(corpus, outputs)]) is None


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ({"status": "failed", "reason": "out of memory"}, False),
        ({"status": "failed", "reason": "the loss is nan", DIVERGED: 3}, True),
    ],
    ids=["failed", "diverged"],
)
def test_only_a_result_ends_a_run(status: dict[str, object], expected: bool, outputs: Path, tiny_corpus: Path) -> None:
    file = status_file(outputs)
    file.write_text(json.dumps(json.loads(file.read_text()) | status))
    assert (find_finished_runs([config(tiny_corpus, outputs)]) is not None) is expected


@pytest.mark.parametrize(("name", "damaged"), [("status.json", ""), ("utterances.csv", "set,id\n")])
def test_a_run_whose_files_are_damaged_is_put_aside_and_trained_anew(
    name: str, damaged: str, outputs: Path, tiny_corpus: Path
) -> None:
    folder = status_file(outputs).parent
    losses = (folder / "losses.csv").read_text()
    (folder / name).write_text(damaged)
    if name == "status.json":
        assert find_finished_runs([config(tiny_corpus, outputs)]) is None
    (folder / "output.log").write_text("printed by an arm\n")
    assert train(config(tiny_corpus, outputs)) == folder
    assert (folder / "output.log").read_text() == "printed by an arm\n", "into which a launched arm goes on printing"
    kept = folder.with_name(f"{folder.name}.1")
    assert (kept / name).read_text() == damaged, "nothing is lost"
    assert (kept / "checkpoints" / "last.ckpt").exists()
    assert (folder / "losses.csv").read_text() == losses
    assert find_finished_runs([config(tiny_corpus, outputs)]) is not None


PLANNED = PlannedRun(look=2, looks=3, arm="rnn=gru", state="open")
SUMMARY = Summary(sets={"test": SetResult(wer=0.25, cer=0.125, cer_longer=0.1, loss=0.5)}, test_sets=["test"])


@pytest.fixture
def record(tmp_path: Path) -> Run:
    record = Run(compose(f"outputs={tmp_path}", "data=an4", "data.root=/somewhere"))
    record.folder.mkdir(parents=True)
    write_json(record.folder / "data.json", {})
    return record


def test_a_wandb_run_ends_with_the_rates_and_the_exit_code(record: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_MODE", "offline")
    logger = wandb_logger(record, project="tests", entity=None, artifacts=[], audio=0, name=None, tags=[], notes=None)
    assert isinstance(logger, LoggerOfTables)
    log_planned(logger, PLANNED)
    logger.log_table("transcripts", ["id", "hypothesis"], [["a", "b c"]], step=50)
    log_result(logger, SUMMARY, [])
    logger.finish(1)
    wandb.teardown()  # its service writes the file to the end
    (path,) = record.folder.rglob("*.wandb")
    recorded = read_run(path)
    assert (recorded["id"], recorded["exit_code"]) == (run_id(record), 1)
    assert any((row.get("final/test/wer"), row.get("final/test/loss")) == (25, 0.5) for row in recorded["history"])
    assert None not in recorded["config"].values()
    kept = {key: value for key, value in recorded["summary"].items() if key.startswith("until/")}
    assert kept == {"until/look": 2, "until/looks": 3, "until/arm": "rnn=gru", "until/state": "open"}
    (table,) = (row for row in recorded["history"] if "transcripts/path" in row)
    assert table["trainer/global_step"] == 50
    (file,) = record.folder.rglob("transcripts_*.table.json")
    assert json.loads(file.read_text())["data"] == [["a", "b c"]]


def offline_part(record: Run, *rows: tuple[dict[str, float], int | None]) -> dict[str, Any]:
    """One session of a run, as W&B wrote it."""
    logger = wandb_logger(
        record, project="tests", entity=None, artifacts=["config", "best"], audio=0, name=None, tags=[], notes=None
    )
    for metrics, step in rows:
        logger.log_metrics(metrics, step)
    logger.finish(0)
    wandb.teardown()
    path = max(record.folder.rglob("*.wandb"), key=lambda file: file.stat().st_mtime_ns)
    return read_run(path)


def test_a_resumed_offline_run_has_every_row_of_its_table_and_the_earlier_part_is_not_sent(
    record: Run, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It was killed after step 30, and its checkpoint is of step 20, to which its table is cut back."""
    monkeypatch.setenv("WANDB_MODE", "offline")
    write_json(record.folder / "environment.json", {"started": "2026-01-01T00:00:00Z"})
    (record.folder / "config.yaml").write_text("seed: 0\n")
    rows = [({"train/loss": 3.0, "epoch": 0}, 10), ({"train/loss": 2.5, "epoch": 0}, 20)]
    first = offline_part(record, *rows, ({"train/loss": 2.0, "epoch": 0}, 30))
    write_csv(record.folder / "metrics.csv", [{**values, "step": step} for values, step in rows])
    (earlier,) = record.folder.rglob("*.wandb")
    second = offline_part(
        record, ({"train/loss": 2.0, "epoch": 0}, 30), ({"validation/dev/wer": 0.5, "epoch": 0}, 30),
        ({"train/loss": 1.0, "epoch": 1}, 40), ({"final/test/wer": 0.25}, None),
    )  # fmt: skip
    assert first["id"] == second["id"]
    assert [row["_step"] for row in second["history"]] == [0, 1, 2, 3, 4, 5]
    losses = [(row["trainer/global_step"], row["train/loss"]) for row in second["history"] if "train/loss" in row]
    assert losses == [(10, 3.0), (20, 2.5), (30, 2.0), (40, 1.0)]
    assert [row["validation/dev/wer"] for row in second["history"] if "validation/dev/wer" in row] == [50]
    assert earlier.with_suffix(".wandb.synced").exists()
    assert f"wandb sync {record.folder}/wandb/offline-run-*" in capsys.readouterr().out
    assert {"config": [f"{first['id']}-config"]} == second["artifacts"], "there is no best checkpoint"


def test_a_run_of_the_same_content_that_starts_anew_has_another_id(record: Run) -> None:
    write_json(record.folder / "environment.json", {"started": "2026-01-01T00:00:00Z"})
    first = run_id(record)
    write_json(record.folder / "environment.json", {"started": "2026-01-01T00:00:01Z"})
    again = run_id(record)
    record.cfg.sweep = "another"
    assert len({first, again, run_id(record)}) == 3


def test_an_artifact_that_there_is_not_is_one_line(record: Run) -> None:
    with pytest.raises(UsageError, match=r"logger\.artifacts=all: expected config, utterances, best"):
        wandb_logger(record, project="tests", entity=None, artifacts=["all"], audio=0, name=None, tags=[], notes=None)


@pytest.mark.parametrize(
    "override",
    [
        *(
            f"{group}={name}"
            for group in ("averaging", "gradient", "pretrain", "schedule")
            for name in group_options(group)
            if name not in (defaults()[group], "none", "constant")  # which keep nothing
        ),
        "batch.accumulate=2",
        "model=wavlm",
    ],
)
def test_a_resumed_fit_is_the_unbroken_one(override: str, tiny_corpus: Path, tmp_path: Path) -> None:
    """Every averaging, treatment of gradients, pretraining and schedule in conf/ resumes bit for bit, and so do skipped
    layers and masks inside a model.
    """
    drawn = ["model.layer_drop=0.5", "model.masks.time_masks=1", "dropout=0.1"]
    more = {
        "schedule=newbob": ["schedule.threshold=0.9"],  # one epoch misses it: the rate falls before and after
        "gradient=outliers": ["gradient.warm_up=1"],
        "pretrain=frozen": ["pretrain.parts=[convolutions]", "pretrain.until=2"],
        "model=wavlm": drawn,
    }.get(override, [])
    unbroken = fit(tiny_corpus, tmp_path / "whole", override, *more)
    # at the end of the first epoch of three steps, and within the second; of two with two batches each, at the most
    for steps in (2, 3) if "accumulate" in override else (3, 5):
        checkpoint = tmp_path / "whole" / f"step={steps}.ckpt"
        resumed = fit(tiny_corpus, tmp_path / f"from-{steps}", override, *more, resume=checkpoint)
        assert same(dict(resumed.state_dict()), dict(unbroken.state_dict()))
        assert same(model_of(tmp_path / f"from-{steps}", 2), model_of(tmp_path / "whole", 2))

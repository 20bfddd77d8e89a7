"""Several loggers at once get what each of them takes."""

import json
from dataclasses import replace
from pathlib import Path
from typing import cast

import numpy as np
import pytest
import soundfile
import wandb

from asr_ablations.components.logger.several import several_loggers
from asr_ablations.config.build import build, check_targets
from asr_ablations.config.compose import compose
from asr_ablations.data.audio import AVERAGED
from asr_ablations.experiment.fit import log_result
from asr_ablations.runs.folder import Run
from asr_ablations.runs.layout import DATA
from asr_ablations.tools.files import CONF
from asr_verdicts.files import write_json
from asr_verdicts.record import SetResult, Summary, UtteranceRow
from tests.helpers.wandb_file import read_run

SUMMARY = Summary(
    sets={"test": SetResult(wer=0.25, cer=0.1, cer_longer=0.1, loss=1.0)},
    test_sets=["test"],
)


def record(folder: Path, *choices: str) -> Run:
    words = [f"outputs={folder}", "data=an4", "data.root=x", "sweep=s", "overrides=[]", *choices]
    run = Run(compose(CONF, words, name="config", folder=None))
    run.folder.mkdir(parents=True)
    write_json(run.folder / DATA, {})
    check_targets(run.cfg)
    return run


@pytest.mark.slow
def test_each_gets_everything(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_MODE", "offline")
    run = record(tmp_path, "logger=[wandb,tensorboard,csv]")
    logger = build(run.cfg.logger)(run)
    logger.log_metrics({"train/loss": 2.0}, 3)
    log_result(logger, SUMMARY, [])
    logger.finalize("success")
    logger.finish(0)
    wandb.teardown()  # its service writes the file to the end, and the next test begins a run of its own
    (events,) = run.folder.rglob("events*")
    assert b"train/loss" in events.read_bytes()
    (file,) = run.folder.rglob("*.wandb")
    logged = read_run(file)
    assert [row["train/loss"] for row in logged["history"] if "train/loss" in row] == [2.0]
    assert logged["summary"]["final/test/wer"] == 25
    assert logged["exit_code"] == 0


RATE = 16_000
SPOKEN = np.arange(-RATE, RATE, dtype=np.int16)
"""Two seconds, of which each sample is another."""


def spoken(folder: Path, set_: str, count: int) -> list[UtteranceRow]:
    """Utterances of a set: the second half of a file each."""
    rows = []
    for number in range(count):
        file = folder / f"{set_}-{number}.wav"
        soundfile.write(file, SPOKEN + number, RATE, subtype="PCM_16")
        row = {"set": set_, "id": file.stem, "reference": "a b", "hypothesis": "a"}
        rows.append({**row, "audio": str(file), "offset": 1.0, "duration": 1.0, "channel": AVERAGED})
    return cast(list[UtteranceRow], rows)


def test_examples_can_be_heard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As many of each test set as were asked for; one whose file is gone is left out."""
    monkeypatch.setenv("WANDB_MODE", "offline")
    run = record(tmp_path, "logger=[csv,wandb]", "logger.loggers.wandb.audio=2")
    rows = [*spoken(tmp_path, "test", 3), *spoken(tmp_path, "other", 2)]
    Path(rows[-1]["audio"]).unlink()
    summary = replace(SUMMARY, sets=dict.fromkeys(("test", "other"), SUMMARY.sets["test"]), test_sets=["test", "other"])
    logger = build(run.cfg.logger)(run)
    log_result(logger, summary, rows)
    logger.finish(0)
    wandb.teardown()
    (file,) = run.folder.rglob("*.wandb")
    (files,) = read_run(file)["files"].values()  # the table with its media is an artifact
    table = json.loads(files["examples.table.json"].read_text())
    assert table["columns"] == ["set", "id", "reference", "hypothesis", "recording"]
    heard = {row[1]: row[4] for row in table["data"]}
    assert [name for name, recording in heard.items() if recording] == ["test-0", "test-1", "other-0"]
    for number in (0, 1):
        recording = heard[f"test-{number}"]
        assert recording["_type"] == "audio-file"
        samples, rate = soundfile.read(files[recording["path"]], dtype="int16")
        assert rate == RATE
        assert samples.tolist() == (SPOKEN[RATE:] + number).tolist()


def test_none_but_csv_is_no_logger(tmp_path: Path) -> None:
    run = record(tmp_path, "logger=[csv]")
    assert build(run.cfg.logger)(run) is None
    assert several_loggers(run, loggers={}) is None

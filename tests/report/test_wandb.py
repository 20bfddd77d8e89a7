"""The W&B report that is built from a comparison, offline; only W&B's server can save it."""

import json
from typing import Any

import pytest

from asr_ablations.comparison.folders import compare_folders
from asr_ablations.report.training_report import sections
from asr_ablations.report.wandb import report, save_report
from asr_verdicts.comparison import Comparison
from asr_verdicts.design import Options
from tests.helpers.run_folders import write_sweep

pytest.importorskip("wandb_workspaces", reason="the extra `report` is not installed")


@pytest.fixture(scope="module")
def comparison(tmp_path_factory: pytest.TempPathFactory) -> Comparison:
    ablation = {"question": "Is a GRU as good?", "factor": "rnn", "baseline": "lstm"}
    rates = {"rnn=lstm": 0.1, "rnn=gru": 0.4}
    return compare_folders([write_sweep(tmp_path_factory.mktemp("outputs"), rates, ablation=ablation)], Options())


@pytest.fixture(scope="module")
def specification(comparison: Comparison) -> Any:
    """What would be sent to W&B."""
    built = report(comparison, "me", "mine")
    assert (built.entity, built.project, built.title) == ("me", "mine", "sweep: comparison")
    return json.loads(built._to_model().spec.model_dump_json(by_alias=True, exclude_none=True))


def texts(blocks: list[Any], kind: str) -> list[str]:
    return [json.dumps(block, ensure_ascii=False) for block in blocks if block["type"] == kind]


def test_every_section_is_a_heading_with_its_table_or_lines(comparison: Comparison, specification: Any) -> None:
    headings = texts(specification["blocks"], "heading")
    bodies = "".join(block["content"] for block in specification["blocks"] if block["type"] == "markdown-block")
    for section in sections(comparison):
        assert any(section.heading in heading for heading in headings), section.heading
        assert all(cell in bodies for row in section.rows for cell in row)
        assert all(line in bodies for line in section.lines)
    assert "Is a GRU as good?" in bodies


def test_the_curves_are_those_of_the_runs_of_the_sweep_grouped_by_arm(specification: Any) -> None:
    (grid,) = [block for block in specification["blocks"] if block["type"] == "panel-grid"]
    (runs,) = grid["metadata"]["runSets"]
    filters = json.dumps(runs["filters"])
    assert '"group"' in filters
    assert '"sweep"' in filters
    panels = grid["metadata"]["panelBankSectionConfig"]["panels"]
    assert [panel["config"]["metrics"] for panel in panels] == [
        [f"validation/dev/{metric}"] for metric in ("cer", "cer_longer", "loss", "wer")
    ]
    assert all(panel["config"]["groupBy"] == "rnn.value" for panel in panels)


def test_offline_the_result_is_a_single_line(comparison: Comparison, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_MODE", "offline")
    (line,) = save_report(comparison, "me", "mine").splitlines()
    assert "not made, since W&B is offline" in line


@pytest.mark.slow  # W&B's own client tries again and again
def test_a_silent_server_is_a_single_line(comparison: Comparison, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing listens at port 9 of this machine, and the key is invalid."""
    monkeypatch.setenv("WANDB_MODE", "online")
    monkeypatch.setenv("WANDB_API_KEY", "x" * 40)
    monkeypatch.setenv("WANDB_BASE_URL", "http://127.0.0.1:9")
    (line,) = save_report(comparison, "me", "mine").splitlines()
    assert line.startswith("W&B report: not made: ")

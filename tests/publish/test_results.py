"""RESULTS.md, and published numbers beside it."""

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from asr_ablations.runs.reader import read_config, read_sweep
from asr_ablations.runs.sweep_history import arm_content
from asr_verdicts.errors import UsageError
from asr_verdicts.files import write_json
from asr_verdicts.plan import PlannedArm
from publish.archive import unpack
from publish.results import EVALUATED, is_open, keep_finished, write_results
from tests.helpers.planned import plan
from tests.helpers.run_folders import utterances, write_evaluation, write_run, write_sweep
from tests.helpers.support import REPOSITORY

TOGETHER = {"Noise of seeds", "Validation loss against error rate", "Single runs", "The price of an answer"}
"""Sections about all sweeps."""
ABLATION = {"question": "Is a GRU as good?", "factor": "rnn", "baseline": "lstm"}


def text_of(outputs: Path, target: Path) -> str:
    """The page with the records of all sweeps in a folder, which get the manifest of a command."""
    sweeps = sorted(path for path in outputs.iterdir() if path.is_dir())
    for sweep in sweeps:
        manifest = sweep / "sweep.json"
        content = read_sweep(sweep) if manifest.exists() else {"launches": [], "arms": []}
        command = ["train.py", "-m", "-cd", "sweeps", "-cn", sweep.name, "data.root=/home/me/an4", "seed=range(0,3)"]
        write_json(manifest, {"command": [*command, "outputs=/tmp/x"], **content})
    write_results(sweeps, target)
    return target.read_text(encoding="utf-8")


def test_every_finished_sweep_with_question_command_commit_table_verdict_and_figure(tmp_path: Path) -> None:
    outputs, target = tmp_path / "outputs", tmp_path / "sweeps" / "RESULTS.md"
    rates = {"rnn=lstm": 0.1, "rnn=gru": 0.5}
    write_sweep(outputs, rates, seeds=3, ablation=ABLATION, sweep="rnn_type")
    text = text_of(outputs, target)
    assert [line for line in text.splitlines() if line.startswith("## ")] == ["## rnn_type", "## Noise of seeds"]
    command = "python src/train.py -m -cd sweeps -cn rnn_type data.root=<folder> 'seed=range(0,3)'"
    for part in (
        "Is a GRU as good?", f"\n    {command}\n", "Commit: 01234567.", "| arm | set | n |", "| rnn=gru | test | 3 |",
        "- rnn=gru is ", "![differences](figures/rnn_type/differences.svg)", "Do not edit",
    ):  # fmt: skip
        assert part in text, part
    assert (target.parent / "figures" / "rnn_type" / "differences.svg").exists()
    assert text_of(outputs, target) == text
    assert str(tmp_path) not in text


def test_a_difference_of_one_seed_is_in_its_section_and_no_answer(tmp_path: Path) -> None:
    outputs, target = tmp_path / "outputs", tmp_path / "sweeps" / "RESULTS.md"
    write_sweep(outputs, {"rnn=lstm": 0.1, "rnn=gru": 0.5}, seeds=1, ablation=ABLATION, sweep="rates")
    alone = "Differences with too few seeds for an interval are only in their sections: [rates](#rates) (1)."
    text = text_of(outputs, target)
    assert [part in text for part in (alone, "## rates", "| [rates]")] == [True, True, False]
    write_sweep(outputs, {"rnn=lstm": 0.1, "rnn=gru": 0.5}, seeds=3, ablation=ABLATION, sweep="rnn_type")
    text = text_of(outputs, target)
    assert [part in text for part in (alone, "| [rnn_type]", "| [rates]")] == [True, True, False]


def test_other_decoders_of_a_sweeps_runs_are_a_question_of_their_own(tmp_path: Path) -> None:
    """Five models, searched with and without a language model; the records alone make the same page."""
    outputs, target = tmp_path / "outputs", tmp_path / "sweeps" / "RESULTS.md"
    declared = {"question": "What does a model of words bring?", "factor": "decoder", "baseline": "beam"}
    for seed in range(5):
        run = write_run(outputs, f"seed={seed}", rate=0.3, noise=seed, sweep="seeds")
        for number, (name, rate) in enumerate({"beam_lm": 0.1, "beam": 0.3}.items()):
            write_evaluation(run, name, utterances("test", rate, 10 * seed + number), ablation=declared)
    text = text_of(outputs, target)
    assert [line for line in text.splitlines() if line.startswith("## ")][:2] == ["## seeds", "## seeds_evaluated"]
    (row,) = (line for line in text.splitlines() if line.startswith("| [seeds_evaluated]"))
    assert "decoder=beam_lm against decoder=beam" in row
    assert "| better (again in 100 %) |" in row
    assert "    python src/compare.py outputs/seeds/*/evaluations" in text
    shutil.rmtree(outputs)
    write_results([], target)
    assert target.read_text(encoding="utf-8") == text
    (sweep,) = unpack([target.parent / "records" / "seeds.tar.xz"], tmp_path / "again")
    shutil.rmtree(next(sweep.glob("*/evaluations")))
    text_of(tmp_path / "again", target)
    assert target.read_text(encoding="utf-8") == text  # the record has an evaluation that is not there, and stays


def test_only_a_finished_sweep_is_kept(tmp_path: Path) -> None:
    """And nothing that lies next to it."""
    write_sweep(tmp_path, {"rnn=lstm": 0.1, "rnn=gru": 0.5}, seeds=2, ablation=ABLATION, sweep="rnn_type")
    write_run(tmp_path, sweep="alone")
    for name, states in (("absent", "no run"), ("alone", "1 done")):
        with pytest.raises(UsageError, match=f"{name}: has {states}; expected a sweep that has ended"):
            keep_finished(tmp_path / name, tmp_path / "records")
    keep_finished(tmp_path / "rnn_type", tmp_path / "records")
    assert [path.name for path in (tmp_path / "records").iterdir()] == ["rnn_type.tar.xz"]


def test_a_sweep_is_not_published_with_fewer_seeds_than_its_file_declares(tmp_path: Path) -> None:
    outputs, target = tmp_path / "outputs", tmp_path / "sweeps" / "RESULTS.md"
    write_sweep(outputs, {"rnn=lstm": 0.1, "rnn=gru": 0.5}, seeds=3, ablation=ABLATION, sweep="rnn_type")
    target.parent.mkdir()
    for seeds, published in (("range(0,4)", False), ("0,1,2", True)):
        declared = {"ablation": ABLATION, "hydra": {"sweeper": {"params": {"seed": seeds}}}}
        (target.parent / "rnn_type.yaml").write_text(json.dumps(declared), encoding="utf-8")
        assert ("## rnn_type" in text_of(outputs, target)) == published


def test_a_sweep_with_a_plan_has_its_looks_its_cost_and_their_figure_once_it_has_ended(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two looks, of which one is enough for 40 points: 4 of 6 runs. Each run trained for 50 s."""
    outputs, rates = tmp_path / "outputs", {"rnn=lstm": 0.1, "rnn=gru": 0.5}
    ablation = {**ABLATION, "claim": {"says": "it is", "expected": {"gru": "equivalent"}}}
    sweep = write_sweep(outputs, rates, seeds=2, ablation=ablation, sweep="planned")
    configs = {choice: read_config(next(sweep.glob(f"*{choice.replace('=', '-')}*"))) for choice in rates}
    arms = [
        PlannedArm({"rnn": choice.removeprefix("rnn=")}, [choice], arm_content(config, ["seed"]))
        for choice, config in configs.items()
    ]
    frozen = replace(plan(["lstm", "gru"], looks=[2, 3]), arms=arms)
    write_json(sweep / "sweep.json", {**read_sweep(sweep), "plan": frozen.as_json()})
    assert "## planned" not in text_of(outputs, tmp_path / "sweeps" / "RESULTS.md")
    write_json(sweep / "verdict.json", {"look": 1, "looks": 2, "ended": False, "arms": {}})
    assert "## planned" not in text_of(outputs, tmp_path / "sweeps" / "RESULTS.md")
    assert capsys.readouterr().out.count("planned: kept, but not published while questions are open") == 2
    assert (tmp_path / "sweeps" / "records" / "planned.tar.xz").exists()
    write_json(sweep / "verdict.json", {"look": 1, "looks": 2, "ended": True, "arms": {}})
    text = text_of(outputs, tmp_path / "sweeps" / "RESULTS.md")
    assert "**Looks**\n\n| arm | look | seeds |" in text
    row = next(
        line for line in text.splitlines() if line.startswith("| [planned](#planned): rnn=gru against rnn=lstm | +")
    )
    cells = [cell.strip() for cell in row.split("|")][1:-1]
    assert cells[6:] == ["worse (again in 100 %)", "2", "equivalent", "disagrees", f"4 of 6, {4 * 50 / 60:.2g} min"]
    assert cells[2] == "an4, 0 M, 5 epochs; test, 576 words, 12 speakers"
    assert re.fullmatch(r"\d\d\.\d\d, \d+\.\d\d", cells[3])
    assert cells[4] == "2.5000, 0.5000"
    assert re.fullmatch(r"01234567, \d{4}-\d\d-\d\d", cells[5])
    assert re.fullmatch(r"\+\d+\.\d\d WER \(\+\d+\.\d\d to \+\d+\.\d\d\)", cells[1])
    assert re.search(r"\| rnn=gru \| 1 \| 2 \| \+\d.* \| worse \| NA \|", text)
    assert re.search(
        r"^4 runs, \d{4}-\d\d-\d\d, \d.* min of processor time on .+: an4, .* Commits: 01234567\.$",
        text,
        re.MULTILINE,
    )
    assert "Runs used: 4; 3 seeds per arm would take 6." in text
    assert f"Training: {4 * 50 / 60:.2g} min." in text
    assert "![looks](figures/planned/looks.svg)" in text


PUBLISHED = REPOSITORY / "sweeps"
FEW = 2
"""How many sweeps are compared anew, the smallest ones: make results does so for all."""


def sections(text: str) -> dict[str, str]:
    found = re.split(r"^## (.+)$", text, flags=re.MULTILINE)[1:]
    return {name: content.strip() for name, content in zip(found[::2], found[1::2], strict=True)}


def test_every_record_has_its_section_and_every_section_its_record(tmp_path: Path) -> None:
    """But for those whose questions are open."""
    sweeps = unpack((PUBLISHED / "records").glob("*.tar.xz"), tmp_path)
    names = {sweep.name for sweep in sweeps if not is_open(sweep, PUBLISHED)}
    names |= {f"{name}{EVALUATED}" for name in names if any((tmp_path / name).glob("*/evaluations/*.json"))}
    assert names
    assert sections((PUBLISHED / "RESULTS.md").read_text(encoding="utf-8")).keys() == names | TOGETHER


@pytest.mark.slow
def test_the_records_say_what_is_published(tmp_path: Path) -> None:
    def answers(text: str, name: str) -> list[str]:
        return [line for line in text.splitlines() if line.startswith(f"| [{name}]")]

    published = sections((PUBLISHED / "RESULTS.md").read_text(encoding="utf-8"))
    archives = sorted((PUBLISHED / "records").glob("*.tar.xz"), key=lambda path: (path.stat().st_size, path.name))
    archives = [path for path in archives if path.name.removesuffix(".tar.xz") in published]
    (tmp_path / "records").mkdir()
    for archive in archives[:FEW]:
        shutil.copy(archive, tmp_path / "records")
        asked = PUBLISHED / f"{archive.name.removesuffix('.tar.xz')}.yaml"
        if asked.exists():  # a sweep may have its name from the command
            shutil.copy(asked, tmp_path)
    write_results([], tmp_path / "RESULTS.md")
    anew, page = ((folder / "RESULTS.md").read_text(encoding="utf-8") for folder in (tmp_path, PUBLISHED))
    compared = {name: content for name, content in sections(anew).items() if name not in TOGETHER}
    chosen = [archive.name.removesuffix(".tar.xz") for archive in archives[:FEW]]
    assert compared.keys() == {name for name in published if name.removesuffix(EVALUATED) in chosen}
    for name, content in compared.items():
        assert content == published[name]
        assert answers(anew, name) == answers(page, name)


def test_the_sweep_file_of_today_says_what_its_answers_are_held_against(tmp_path: Path) -> None:
    """And not the one that the runs were started from: a misread source is mended without another run."""
    outputs, target = tmp_path / "outputs", tmp_path / "sweeps" / "RESULTS.md"
    before = {**ABLATION, "claim": "misread", "expected": {"gru": "better"}}
    write_sweep(outputs, {"rnn=lstm": 0.1, "rnn=gru": 0.5}, seeds=3, ablation=before, sweep="rnn_type")
    assert "expected better, measured worse: disagrees" in text_of(outputs, target)
    claim = {"says": "read again", "about": "long trainings", "where": {"max_epochs": {"least": 100}}}
    after = {**ABLATION, "claim": {**claim, "expected": {"gru": "worse"}}, "earlier": {"gru": "worse, +3.00"}}
    (target.parent / "rnn_type.yaml").write_text(json.dumps({"ablation": after}), encoding="utf-8")
    text = text_of(outputs, target)
    assert "misread" not in text
    assert "; asked before: worse, +3.00) | 3 | worse | not comparable: the claim is about long trainings |" in text

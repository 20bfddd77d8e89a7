"""An option that did nothing is said, and nothing else is."""

from pathlib import Path

from asr_ablations.comparison.comparison import compare
from asr_ablations.comparison.declaration import agreement
from asr_ablations.comparison.design import Options
from asr_ablations.report.results_md import answers
from tests.helpers.run_folders import write_run

ABLATION = {"question": "Does it matter?", "factor": "schedule"}
WORDS = "are alike to the last utterance"


def warnings(outputs: Path) -> list[str]:
    return [line for line in compare([outputs / "sweep"], Options()).warnings if WORDS in line]


def runs(outputs: Path, schedule: str, noises: list[int], curve: list[float] | None = None) -> None:
    for seed, noise in enumerate(noises):
        choice = f"schedule={schedule}"
        write_run(outputs, choice, f"seed={seed}", noise=noise, curve=curve, ablation=ABLATION)


def test_arms_with_the_same_results_in_every_seed_are_named(tmp_path: Path) -> None:
    runs(tmp_path, "constant", [1, 2])
    runs(tmp_path, "newbob", [1, 2])
    runs(tmp_path, "one_cycle", [3, 4])
    assert warnings(tmp_path) == [
        f"constant and newbob {WORDS} with the same seed (0, 1): what they differ in did nothing in these runs"
    ]


def test_one_seed_that_differs_is_enough(tmp_path: Path) -> None:
    runs(tmp_path, "constant", [1, 2])
    runs(tmp_path, "newbob", [1, 3])
    assert warnings(tmp_path) == []


def test_validations_that_differ_are_enough(tmp_path: Path) -> None:
    runs(tmp_path, "constant", [1, 2])
    runs(tmp_path, "newbob", [1, 2], curve=[0.9, 0.6, 0.4, 0.25, 0.2])
    assert warnings(tmp_path) == []


def test_other_times_and_places_are_no_difference(tmp_path: Path) -> None:
    runs(tmp_path, "constant", [1, 2])
    for seed, noise in enumerate([1, 2]):

        def elsewhere(run: Path) -> None:
            path = run / "utterances.csv"
            path.write_text(path.read_text().replace("not-there.flac", "elsewhere.flac"))

        write_run(
            tmp_path, "schedule=newbob", f"seed={seed}", noise=noise, seconds=70.0, change=elsewhere, ablation=ABLATION
        )
    assert len(warnings(tmp_path)) == 1


def test_what_did_nothing_neither_agrees_nor_disagrees_with_the_source(tmp_path: Path) -> None:
    expected = {**ABLATION, "baseline": "constant", "expected": {"newbob": "better", "one_cycle": "better"}}
    for schedule, noises, rate in (("constant", [1, 2], 0.4), ("newbob", [1, 2], 0.4), ("one_cycle", [3, 4], 0.1)):
        for seed, noise in enumerate(noises):
            write_run(tmp_path, f"schedule={schedule}", f"seed={seed}", noise=noise, rate=rate, ablation=expected)
    comparison = compare([tmp_path / "sweep"], Options())
    named = {verdict.contrast.arm: verdict for verdict in comparison.answer}
    verdicts = ["better", "equivalent"]
    assert agreement(named["newbob"], verdicts, comparison.arms) == "cannot tell"
    rows = [line for line in answers([("sweep", comparison)])[1].splitlines() if "newbob against constant" in line]
    assert len(rows) == 1
    assert ": the choice did nothing | " in rows[0]
    assert "| cannot tell |" in rows[0]

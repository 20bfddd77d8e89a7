"""A new variant is one Python file and one yaml: in a copy of the repository, the tests find it and judge it."""

import os
import re
import shutil
import sys
from pathlib import Path

import pytest

from tests.helpers.interpreter import program
from tests.helpers.support import REPOSITORY

VARIANTS = Path(__file__).with_name("extending.md")
BLOCK = re.compile(r"^```\w+ (\S+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FOUND = {
    "tests/components/test_contracts.py": ["norm-frame_rms", "data-sheets", "alphabet-esperanto", "jitter-shaken"],
    "tests/components/norm/test_norm.py": ["frame_rms", "leaking"],
    "tests/components/model/test_model.py": ["frame_rms"],
    "tests/components/init/test_init.py": ["frame_rms"],
    "tests/components/alphabet/test_alphabet_contract.py": ["esperanto"],
    "tests/data/test_corpora.py": ["sheets"],
    "tests/synthesis/test_synthesis.py": ["esperanto", "esperanto-97"],
    "tests/config/test_config.py": [
        "norm-frame_rms",
        "data-sheets",
        "alphabet-esperanto",
        "jitter-still",
        "jitter-shaken",
    ],
    "tests/comparison/test_confounds.py": ["jitter"],
    "tests/test_no_dead_knobs.py": [
        *("norm=frame_rms", "norm=frame_rms/norm.epsilon", "norm=leaking", "jitter=shaken"),
        *("data=sheets", "data=sheets/data.root", "data=sheets/data.train.0", "data=sheets/data.on_bad"),
        *("alphabet=esperanto", "alphabet=esperanto/alphabet.characters", "alphabet=esperanto/alphabet.separation"),
    ],
}
"""The ids, by file, that parametrised tests must have for the variants above."""

NAMES = "frame_rms|leaking|sheets|esperanto|jitter"
KNOBS = "norm=frame_rms|data=sheets/data.train.0|alphabet=esperanto|jitter=shaken"
RUN = rf"(?<!test_model)(?<!test_init)(?<!dead_knobs)\.py::.*\[.*({NAMES})|dead_knobs.py::.*\[({KNOBS})\]"
"""The ids of as many tests of the variants as take a quarter of a minute."""

CONFTEST = """
from pathlib import Path
import re


def pytest_collection_modifyitems(items):
    Path("found.txt").write_text("\\n".join(item.nodeid for item in items), encoding="utf-8")
    items[:] = [item for item in items if re.search({run!r}, item.nodeid)]
"""

WRONG = {
    "test_padding_never_enters": "leaking",
    "test_evaluation_alone_is_as_in_a_batch": "leaking",
    "test_a_key_acts_or_is_declared_to_steer_the_machine": "jitter=shaken",
}
"""What the tests must refuse: padding that enters a norm, and a group that nothing reads."""

Outcomes = dict[str, str]
"""PASSED, FAILED, … by the id of a test."""


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the repository with the variants."""
    root = tmp_path_factory.mktemp("extended")
    for folder in ("src", "conf", "tests"):
        shutil.copytree(REPOSITORY / folder, root / folder)
    shutil.copy(REPOSITORY / "pyproject.toml", root)
    *variants, group, hints = VARIANTS.read_text(encoding="utf-8").split("\n## ")[1:]
    assert all(len(BLOCK.findall(variant)) == 2 for variant in variants), "one Python file and one yaml"
    files = [file for part in (*variants, group, hints) for file in BLOCK.findall(part)]
    for path, text in [*files, ("conftest.py", CONFTEST.format(run=RUN))]:
        assert not (root / path).exists() or path == "tests/knobs.yaml"
        (root / path).parent.mkdir(exist_ok=True)
        with (root / path).open("a", encoding="utf-8") as file:
            file.write(text)
    insert(root / "conf" / "config.yaml", "  - norm: batch\n", "  - jitter: still\n")
    entry = '    "jitter": "asr_ablations.training.jitter.Jitter",\n'
    insert(root / "src/asr_ablations/components/__init__.py", "CONTRACTS = {\n", entry)
    return root


def insert(file: Path, line: str, more: str) -> None:
    text = file.read_text(encoding="utf-8")
    assert line in text
    file.write_text(text.replace(line, line + more), encoding="utf-8")


@pytest.fixture(scope="module")
def outcomes(copy: Path) -> Outcomes:
    """What came of the tests that were run in the copy."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTEST")}
    command = [sys.executable, "-m", "pytest", "-n", "0", "-p", "no:cacheprovider", f"--basetemp={copy / 'temporary'}"]
    done = program([*command, "-rA", "--tb=line", *FOUND], environment, copy)
    lines = re.findall(r"^(PASSED|FAILED|ERROR|SKIPPED) (\S+::.*?\])(?: - .*)?$", done.stdout, flags=re.MULTILINE)
    assert lines, done.stdout + done.stderr
    print(done.stdout)
    return {id_: outcome for outcome, id_ in lines}


@pytest.mark.slow
def test_contract_tests_find_new_variants(copy: Path, outcomes: Outcomes) -> None:
    ids = (copy / "found.txt").read_text(encoding="utf-8").splitlines()
    wanted = [(file, name) for file, names in FOUND.items() for name in names]
    missing = [
        (file, name)
        for file, name in wanted
        if not any(id_.startswith(f"{file}::") and re.search(rf"[\[-]{re.escape(name)}[\]-]", id_) for id_ in ids)
    ]
    assert not missing


@pytest.mark.slow
def test_right_variants_pass_and_wrong_ones_fail(outcomes: Outcomes) -> None:
    wrong = {id_ for id_ in outcomes if any(test in id_ and name in id_ for test, name in WRONG.items())}
    assert {id_ for id_, outcome in outcomes.items() if outcome != "PASSED"} == wrong
    assert all(any(test in id_ for id_ in wrong) for test in WRONG)
    assert len(outcomes) > 50

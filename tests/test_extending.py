"""A new variant is one Python file and one yaml: in a copy of the repository, the tests find it and judge it."""

import os
import re
import shutil
import sys
from pathlib import Path

import pytest

from tests.helpers.interpreter import program
from tests.helpers.support import REPOSITORY

BLOCK = re.compile(r"^```\w+ (\S+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
CONFTEST = """
from pathlib import Path
import re


def pytest_collection_modifyitems(items):
    Path("found.txt").write_text("\\n".join(item.nodeid for item in items), encoding="utf-8")
    items[:] = [item for item in items if re.search({run!r}, item.nodeid)]
"""


@pytest.mark.slow
def test_tests_find_new_variants_and_refuse_wrong_ones(tmp_path: Path) -> None:
    # the ids, by file, that parametrised tests must have for the variants of extending.md
    found_ids = {
        "tests/components/test_contracts.py": ["norm-frame_rms", "data-sheets", "alphabet-esperanto", "jitter-shaken"],
        "tests/components/norm/test_norm.py": ["frame_rms", "leaking"],
        "tests/components/model/test_model.py": ["frame_rms"],
        "tests/components/init/test_init.py": ["frame_rms"],
        "tests/components/alphabet/test_alphabet_contract.py": ["esperanto"],
        "tests/data/test_corpora.py": ["sheets"],
        "tests/synthesis/test_synthesis.py": ["esperanto", "esperanto-97"],
        "tests/config/test_config.py": [
            *("norm-frame_rms", "data-sheets", "alphabet-esperanto", "jitter-still", "jitter-shaken"),
        ],
        "tests/comparison/test_confounds.py": ["jitter"],
        "tests/test_no_dead_knobs.py": [
            *("norm=frame_rms", "norm=frame_rms/norm.epsilon", "norm=leaking", "jitter=shaken"),
            *("data=sheets", "data=sheets/data.root", "data=sheets/data.train.0", "data=sheets/data.on_bad"),
            *("alphabet=esperanto", "alphabet=esperanto/alphabet.characters", "alphabet=esperanto/alphabet.separation"),
        ],
    }
    names = "frame_rms|leaking|sheets|esperanto|jitter"
    knobs = "norm=frame_rms|data=sheets/data.train.0|alphabet=esperanto|jitter=shaken"
    # as many tests of the variants as take a quarter of a minute
    run = rf"(?<!test_model)(?<!test_init)(?<!dead_knobs)\.py::.*\[.*({names})|dead_knobs.py::.*\[({knobs})\]"
    for folder in ("src", "conf", "tests"):
        shutil.copytree(REPOSITORY / folder, tmp_path / folder)
    shutil.copy(REPOSITORY / "pyproject.toml", tmp_path)
    text = Path(__file__).with_name("extending.md").read_text(encoding="utf-8")
    *variants, group, hints = text.split("\n## ")[1:]
    assert all(len(BLOCK.findall(variant)) == 2 for variant in variants), "one Python file and one yaml"
    files = [file for part in (*variants, group, hints) for file in BLOCK.findall(part)]
    for path, content in [*files, ("conftest.py", CONFTEST.format(run=run))]:
        assert not (tmp_path / path).exists() or path == "tests/knobs.yaml"
        (tmp_path / path).parent.mkdir(exist_ok=True)
        with (tmp_path / path).open("a", encoding="utf-8") as file:
            file.write(content)
    entry = '    "jitter": "asr_ablations.training.jitter.Jitter",\n'
    for place, line, more in (
        ("conf/config.yaml", "  - norm: batch\n", "  - jitter: still\n"),
        ("src/asr_ablations/components/__init__.py", "CONTRACTS = {\n", entry),
    ):
        before = (tmp_path / place).read_text(encoding="utf-8")
        assert line in before
        (tmp_path / place).write_text(before.replace(line, line + more), encoding="utf-8")

    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTEST")}
    words = [
        sys.executable,
        "-m",
        "pytest",
        "-n",
        "0",
        "-p",
        "no:cacheprovider",
        f"--basetemp={tmp_path / 'temporary'}",
    ]
    done = program([*words, "-rA", "--tb=line", *found_ids], environment, tmp_path)
    ids = (tmp_path / "found.txt").read_text(encoding="utf-8").splitlines()
    for file_, name in [(file_, name) for file_, listed in found_ids.items() for name in listed]:
        pattern = rf"^{re.escape(file_)}::.*[\[-]{re.escape(name)}[\]-]"
        assert any(re.search(pattern, id_) for id_ in ids), (file_, name)
    lines = re.findall(r"^(PASSED|FAILED|ERROR|SKIPPED) (\S+::.*?\])(?: - .*)?$", done.stdout, flags=re.MULTILINE)
    assert len(lines) > 50, done.stdout + done.stderr
    # padding that enters a norm, and a group that nothing reads
    refused = {"test_padding_never_enters": "leaking", "test_evaluation_alone_is_as_in_a_batch": "leaking"}
    refused["test_a_key_acts_or_is_declared_to_steer_the_machine"] = "jitter=shaken"
    wrong = {id_ for _, id_ in lines if any(test in id_ and name in id_ for test, name in refused.items())}
    assert {id_ for outcome, id_ in lines if outcome != "PASSED"} == wrong, done.stdout
    assert all(any(test in id_ for id_ in wrong) for test in refused)

"""`make test ARGS=--changed`: a change reaches its own tests and those of everything above it, and not more."""

from pathlib import Path

import pytest

from tests.helpers.changed import REPOSITORY, changed_files, is_touched, touched_folders

EVERY_FOLDER = {path.name for path in (REPOSITORY / "tests").iterdir() if path.is_dir()}


@pytest.mark.parametrize(
    ("file", "reached", "not_reached"),
    [
        ("src/asr_ablations/components/norm/batch.py", "components/norm components/test_contracts.py commands", "data"),
        ("src/asr_serving/page/index.html", "asr_serving commands", "asr_benchmarks data"),
        ("src/asr_verdicts/scales.py", "asr_verdicts comparison report training commands", ""),
        ("src/asr_ablations/sweep/launch.py", "sweep commands", "data training native"),
        ("src/train.py", "commands", "data"),
        ("conf/rnn/gru.yaml", "components config commands", "asr_verdicts synthesis"),
        ("tests/data/test_audio.py", "data/test_audio.py", "data/test_batch.py commands"),
        ("docs/data.md", "commands papers", "training"),
    ],
)
def test_a_change_reaches_what_is_above_it(file: str, reached: str, not_reached: str) -> None:
    folders = touched_folders([file])
    assert folders is not None
    files = {
        name: REPOSITORY / "tests" / (name if name.endswith(".py") else f"{name}/test_x.py")
        for name in (*reached.split(), *not_reached.split())
    }
    actual = {name for name, path in files.items() if is_touched(path, frozenset(folders))}
    assert actual == set(reached.split())


@pytest.mark.parametrize("file", ["pyproject.toml", "tests/conftest.py", "tests/helpers/support.py", "Makefile"])
def test_what_every_test_needs_reaches_all(file: str) -> None:
    assert touched_folders([file, "docs/data.md"]) is None


def test_the_tests_of_the_whole_repository_always_run() -> None:
    assert is_touched(Path(__file__), frozenset())
    assert touched_folders(["tests/test_changed.py"]) == set()


def test_folders_of_tests_exist() -> None:
    files = [str(path.relative_to(REPOSITORY)) for path in (REPOSITORY / "src").rglob("*.py")]
    folders = touched_folders([*files, "conf/config.yaml", "sweeps/units.yaml", "docs/data.md", "README.md"])
    assert folders is not None
    without_tests = {"hydra_plugins", "scripts"}
    assert {folder.partition("/")[0] for folder in folders} - without_tests <= EVERY_FOLDER


def test_an_unknown_commit_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^--changed=nonsense: expected a commit$"):
        changed_files("nonsense")
    assert changed_files("HEAD") >= set()

"""`make test ARGS=--changed`: a change reaches its own tests and those of everything above it, and not more."""

from pathlib import Path

import pytest

from tests.helpers.changed import REPOSITORY, is_touched, reached, touched_folders


@pytest.mark.parametrize(
    ("file", "touched", "untouched"),
    [
        ("src/asr_ablations/components/norm/batch.py", "components/norm components/test_contracts.py commands", "data"),
        ("src/asr_verdicts/scales.py", "asr_verdicts comparison report training commands", ""),
        ("src/asr_ablations/sweep/launch.py", "sweep commands", "data training native"),
        ("src/train.py", "commands", "data"),
        ("conf/rnn/gru.yaml", "components config commands", "asr_verdicts synthesis"),
        ("tests/data/test_audio.py", "data/test_audio.py", "data/test_batch.py commands"),
        ("tests/test_changed.py", "test_changed.py test_extending.py", "commands"),
    ],
)
def test_a_change_reaches_what_is_above_it(file: str, touched: str, untouched: str) -> None:
    folders = touched_folders([file])
    assert folders is not None
    for name in (*touched.split(), *untouched.split()):
        path = REPOSITORY / "tests" / (name if name.endswith(".py") else f"{name}/test_x.py")
        assert is_touched(path, frozenset(folders)) == (name in touched.split()), name


@pytest.mark.parametrize("file", ["pyproject.toml", "tests/conftest.py", "tests/helpers/support.py", "Makefile"])
def test_what_every_test_needs_reaches_all(file: str) -> None:
    assert touched_folders([file, "docs/data.md"]) is None


def test_folders_of_tests_exist() -> None:
    files = [path.relative_to(REPOSITORY).as_posix() for path in (REPOSITORY / "src").rglob("*.py")]
    folders = touched_folders([*files, "conf/config.yaml", "sweeps/units.yaml", "docs/data.md", "README.md"])
    assert folders is not None
    present = {path.name for path in (REPOSITORY / "tests").iterdir() if path.is_dir()}
    assert {Path(folder).parts[0] for folder in folders} <= {*present, "hydra_plugins", "scripts"}


def test_an_unknown_commit_is_refused() -> None:
    with pytest.raises(pytest.UsageError, match=r"^--changed=nonsense: expected a commit$"):
        reached("nonsense")

"""The wheel carries all that a command needs, and its one command runs the scripts."""

import runpy
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from asr_ablations.commands import console
from tests.helpers.command import SHRUNKEN, clean_environment, run_folders
from tests.helpers.support import REPOSITORY

pytestmark = pytest.mark.slow
BUILD = "import sys; from setuptools import build_meta; build_meta.build_wheel(sys.argv[1])"


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that a wheel of this checkout is unpacked in, built by the backend that is installed here."""
    folder = tmp_path_factory.mktemp("wheel")
    tree, ignored = folder / "tree", shutil.ignore_patterns("__pycache__", "*.egg-info")
    tree.mkdir()
    for name in ("src", "conf", "sweeps"):
        shutil.copytree(REPOSITORY / name, tree / name, ignore=ignored)
    for name in ("pyproject.toml", "setup.py", "MANIFEST.in", "README.md"):
        shutil.copy(REPOSITORY / name, tree)
    done = subprocess.run([sys.executable, "-c", BUILD, str(folder)], cwd=tree, capture_output=True, text=True)
    assert not done.returncode, done.stderr
    with zipfile.ZipFile(next(folder.glob("*.whl"))) as wheel:
        wheel.extractall(folder / "site")
    return folder / "site"


def test_the_wheel_has_every_config_sweep_and_script(installed: Path) -> None:
    carried = installed / "asr_ablations" / "repository"
    for folder, pattern in (("conf", "**/*.yaml"), ("sweeps", "**/*.yaml"), ("src", "*.py")):
        names = {path.relative_to(REPOSITORY) for path in (REPOSITORY / folder).glob(pattern)}
        assert names
        assert {path.relative_to(carried) for path in (carried / folder).glob(pattern)} == names
    entry = next(installed.glob("*.dist-info/entry_points.txt")).read_text()
    assert "asr-ablations = asr_ablations.commands.console:main" in entry


def command(installed: Path, corpora: Path, folder: Path, *words: str) -> str:
    """What the installed command prints in this folder, away from every checkout."""
    line = "import sys; from asr_ablations.commands.console import main; sys.exit(main())"
    environment = clean_environment(corpora, folder, PYTHONPATH=str(installed))
    done = subprocess.run(
        [sys.executable, "-c", line, *words], cwd=folder, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_an_installed_package_composes_a_sweep_of_its_own(installed: Path, corpora: Path, tmp_path: Path) -> None:
    words = ["-cd", "sweeps", "-cn", "rnn_type", "rnn=gru", "--cfg", "job"]
    printed = command(installed, corpora, tmp_path, "train", *words)
    assert "asr_ablations.components.rnn.gru.GRU" in printed
    assert "factor: rnn" in printed


def test_an_installed_package_trains_and_names_the_command_that_looks_at_it(
    installed: Path, corpora: Path, tmp_path: Path
) -> None:
    printed = command(installed, corpora, tmp_path, "train", *SHRUNKEN, "max_epochs=1", "logger=csv")
    (folder,) = run_folders(tmp_path / "outputs")
    assert f"look at it  asr-ablations compare {folder.relative_to(tmp_path)}\n" in printed
    assert "python src/" not in printed


def test_a_command_is_the_script_of_its_name(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    started = []
    monkeypatch.setattr(runpy, "run_path", lambda path, run_name: started.append((list(sys.argv), path, run_name)))
    monkeypatch.setattr(sys, "argv", ["asr-ablations", "compare", "outputs/a"])
    assert console.main() == 0
    script = str(REPOSITORY / "src" / "compare.py")
    assert started == [([script, "outputs/a"], script, "__main__")]
    monkeypatch.setattr(sys, "argv", ["asr-ablations", "trian"])
    assert console.main() == 2
    assert "train        Train one run" in capsys.readouterr().err

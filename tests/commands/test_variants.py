"""Variants of one's own from an installed package, in a folder that begins empty."""

import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from asr_ablations.commands import new_variant
from asr_ablations.commands.new_variant import OTHERS
from asr_ablations.config.targets import groups
from asr_ablations.tools.files import AS_COMMAND
from asr_verdicts.errors import UsageError
from tests.helpers.command import SHRUNKEN, clean_environment, run_folders
from tests.helpers.interpreter import last_of_each

pytestmark = pytest.mark.slow
LINE = "import sys; from asr_ablations.commands.console import main; sys.exit(main())"


def command(site: Path, corpora: Path, folder: Path, *words: str, code: int = 0, **variables: str) -> str:
    """What the installed command prints, both streams, in this folder."""
    environment = clean_environment(corpora, folder, PYTHONPATH=str(site), **variables)
    line = [sys.executable, "-c", LINE, *last_of_each(words)]
    done = subprocess.run(line, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_a_recurrent_layer_of_ones_own(installed: Path, corpora: Path, tmp_path: Path) -> None:
    printed = command(installed, corpora, tmp_path, "new", "rnn", "mine")
    assert "asr-ablations check -cd conf rnn=mine" in printed
    assert {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*.*")} == {
        "conf/rnn/mine.yaml",
        "variants/rnn/mine.py",
    }
    checked = command(installed, corpora, tmp_path, "check", "-cd", "conf", "rnn=mine")
    assert "broken" not in checked
    assert checked.count("kept ") == 5

    words = ["-m", "-cd", "conf", "rnn=mine,gru", *SHRUNKEN, "max_epochs=1", "logger=csv", "sweep=own"]
    assert "already done" not in command(installed, corpora, tmp_path, "train", *words)
    before = {folder.name for folder in run_folders(tmp_path / "outputs")}
    assert "2 of 2 arms were already done" in command(installed, corpora, tmp_path, "train", *words)
    source = tmp_path / "variants" / "rnn" / "mine.py"
    text = source.read_text()
    source.write_text(f"{text}\n# an edit\n")
    assert "1 of 2 arms were already done" in command(installed, corpora, tmp_path, "train", *words)
    after = {folder.name for folder in run_folders(tmp_path / "outputs")}
    assert len(before) == 2
    assert len(after - before) == 1

    (old,) = (path for path in run_folders(tmp_path / "outputs") if path.name in before and "mine" in path.name)
    stranger = f"run={old}"
    refused = command(installed, corpora, tmp_path, "evaluate", stranger, code=2)
    assert "refused, because no file in conf/rnn names this class; for a class of yours, set the folder" in refused
    changed = command(installed, corpora, tmp_path, "evaluate", "-cd", "conf", stranger, code=2)
    assert "its source has changed since this config was composed" in changed
    source.write_text(text)
    command(installed, corpora, tmp_path, "evaluate", stranger, ASR_ABLATIONS_CONF=str(tmp_path / "conf"))


def test_a_broken_promise_is_named(installed: Path, corpora: Path, tmp_path: Path) -> None:
    command(installed, corpora, tmp_path, "new", "rnn", "mine", "--like", "lstm_basic")
    source = tmp_path / "variants" / "rnn" / "mine.py"
    text = source.read_text()
    changed = re.sub(r"def forward\(self, x: torch.Tensor, lengths: torch.Tensor\)", "def forward(self, x)", text)
    assert changed != text
    source.write_text(changed)
    printed = command(installed, corpora, tmp_path, "check", "-cd", "conf", "rnn=mine", code=2)
    assert (
        "got an unexpected keyword argument 'lengths'; the contract is (self, x: torch.Tensor, lengths: torch.Tensor)"
        in printed
    )
    source.write_text(text.replace("import torch\n", "import torch\nimport nothing_of_this_name\n", 1))
    printed = command(installed, corpora, tmp_path, "check", "-cd", "conf", "rnn=mine", code=2)
    assert "cannot be imported: ModuleNotFoundError: No module named 'nothing_of_this_name'" in printed


@pytest.mark.parametrize("group", [name for name in groups() if name not in OTHERS])
def test_every_group_can_be_begun(group: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(AS_COMMAND, "new")  # as asr-ablations new sets it
    assert new_variant.new(group, "mine", None) == 0
    target = re.search(r"_target_: (\S+)", (tmp_path / "conf" / group / "mine.yaml").read_text())
    assert target is not None
    assert target[1].startswith(f"variants.{group}.mine.")
    written = runpy.run_path(str(tmp_path / "variants" / group / "mine.py"))
    name = target[1].rpartition(".")[2]
    assert name in written
    assert name == "Mine" or name[0].islower(), "only functions keep their names"
    with pytest.raises(UsageError, match="--force replaces it"):
        new_variant.new(group, "mine", None)
    assert new_variant.new(group, "mine", None, force=True) == 0


def test_a_copied_gru_has_a_forward_that_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(AS_COMMAND, "new")
    new_variant.new("rnn", "my_cell", None)
    source = (tmp_path / "variants/rnn/my_cell.py").read_text()
    assert "class MyCell(nn.Module)" in source
    assert "nn.GRU(" in source
    assert "native" not in source


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["rnnn", "mine"], "group=rnnn: expected alphabet, augment"),
        (["rnn", "Mine"], "name=Mine: expected a name in lower case"),
        (["rnn", "gru"], "conf/rnn/gru.yaml already exists"),
        (["rnn", "mine", "--like", "gruu"], "--like=gruu: expected associative_lstm, gru"),
    ],
)
def test_a_mistake_is_one_line(words: list[str], message: str, installed: Path, corpora: Path, tmp_path: Path) -> None:
    printed = command(installed, corpora, tmp_path, "new", *words, code=2)
    assert printed.startswith("error: ")
    assert message in printed

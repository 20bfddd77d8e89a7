"""Variants of one's own, as those of an installed package, in a folder that begins empty."""

import re
import runpy
from pathlib import Path

import pytest

from asr_ablations.commands import new_variant
from asr_ablations.commands.new_variant import OTHERS
from asr_ablations.config.targets import groups
from asr_ablations.tools.files import AS_COMMAND
from asr_verdicts.errors import UsageError
from tests.helpers.command import SHRUNKEN, clean_environment, run_folders
from tests.helpers.interpreter import SOURCE, expect, python

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, in which a new variant's files are written."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(AS_COMMAND, "new")  # as asr-ablations new sets it
    return tmp_path


def command(corpora: Path, folder: Path, name: str, *words: str, code: int = 0, **variables: str) -> str:
    """What a command prints in the folder, both streams."""
    environment = clean_environment(corpora, folder, **variables)
    done = expect(code, python([SOURCE / f"{name}.py", *words], environment, folder))
    return f"{done.stdout}{done.stderr}"


def test_a_recurrent_layer_of_ones_own(folder: Path, corpora: Path) -> None:
    assert new_variant.main(["rnn", "mine"]) == 0
    written = {path.relative_to(folder).as_posix() for path in folder.rglob("*.*")}
    assert written == {"conf/rnn/mine.yaml", "variants/rnn/mine.py"}
    words = ["-cd", "conf", "rnn=mine", *SHRUNKEN, "max_epochs=1", "logger=csv"]
    command(corpora, folder, "train", *words)
    (old,) = run_folders(folder / "outputs")
    source = folder / "variants" / "rnn" / "mine.py"
    text = source.read_text()
    source.write_text(f"{text}\n# an edit\n")
    command(corpora, folder, "train", *words)
    assert len(run_folders(folder / "outputs")) == 2

    stranger = f"run={old}"
    refused = command(corpora, folder, "evaluate", stranger, code=2)
    assert "refused, because no file in conf/rnn names this class; for a class of yours, set the folder" in refused
    changed = command(corpora, folder, "evaluate", "-cd", "conf", stranger, code=2)
    assert "its source has changed since this config was composed" in changed
    source.write_text(text)
    command(corpora, folder, "evaluate", stranger, ASR_ABLATIONS_CONF=str(folder / "conf"))


def test_a_broken_promise_is_named(folder: Path, corpora: Path) -> None:
    assert new_variant.main(["rnn", "mine", "--like", "lstm_basic"]) == 0
    source = folder / "variants" / "rnn" / "mine.py"
    text = source.read_text()
    changed = re.sub(r"def forward\(self, x: torch.Tensor, lengths: torch.Tensor\)", "def forward(self, x)", text)
    assert changed != text
    source.write_text(changed)
    printed = command(corpora, folder, "check", "-cd", "conf", "rnn=mine", code=2)
    contract = "the contract is (self, x: torch.Tensor, lengths: torch.Tensor)"
    assert f"got an unexpected keyword argument 'lengths'; {contract}" in printed
    source.write_text(text.replace("import torch\n", "import torch\nimport nothing_of_this_name\n", 1))
    printed = command(corpora, folder, "check", "-cd", "conf", "rnn=mine", code=2)
    assert "cannot be imported: ModuleNotFoundError: No module named 'nothing_of_this_name'" in printed


@pytest.mark.parametrize("group", [name for name in groups() if name not in OTHERS])
def test_every_group_can_be_begun(group: str, folder: Path) -> None:
    assert new_variant.new(group, "mine", None) == 0
    target = re.search(r"_target_: (\S+)", (folder / "conf" / group / "mine.yaml").read_text())
    assert target is not None
    assert target[1].startswith(f"variants.{group}.mine.")
    written = runpy.run_path(str(folder / "variants" / group / "mine.py"))
    name = target[1].rpartition(".")[2]
    assert name in written
    assert name == "Mine" or name[0].islower(), "only functions keep their names"
    with pytest.raises(UsageError, match="--force replaces it"):
        new_variant.new(group, "mine", None)
    assert new_variant.new(group, "mine", None, force=True) == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["rnnn", "mine"], "group=rnnn: expected alphabet, augment"),
        (["rnn", "Mine"], "name=Mine: expected a name in lower case"),
        (["rnn", "gru"], "conf/rnn/gru.yaml already exists"),
        (["rnn", "mine", "--like", "gruu"], "--like=gruu: expected associative_lstm, gru"),
    ],
)
def test_a_mistake_is_one_line(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert new_variant.main(words) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("error: ")
    assert message in line

"""What a shell shows after Tab."""

import pytest

from asr_ablations.config.entry import _complete_file
from asr_ablations.tools.files import REPOSITORY


def test_sweep_files_are_completed_and_overrides_are_left_to_hydra(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COMP_LINE", f"python src/train.py -m -cd {REPOSITORY / 'sweeps'} -cn rnn")
    assert _complete_file(["-sc", "query=bash"])
    assert {"rnn_type", "rnn_rates", "corpora"} <= {*capsys.readouterr().out.split()}
    monkeypatch.setenv("COMP_LINE", "python src/train.py -m -cd sweeps -cn rnn_type norm=la")
    assert not _complete_file(["-sc", "query=bash"])
    assert not _complete_file(["rnn=gru"])

"""TensorBoard's files are written without TensorFlow, which takes seconds to import."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers.interpreter import expect

pytest.importorskip("tensorboard", reason="the extra `tensorboard` is not installed")
PROGRAM = """
import sys
from types import SimpleNamespace
from pathlib import Path
from asr_ablations.components.logger.tensorboard import tensorboard_logger
logger = tensorboard_logger(SimpleNamespace(folder=Path(sys.argv[1])))
logger.log_metrics({"train/loss": 2.0}, 3)
logger.log_summary({"parameters": 5})
logger.finalize("success")
print("tensorflow" in sys.modules)
"""


@pytest.mark.slow  # imports Lightning in an interpreter of its own
def test_tensorflow_is_not_imported(tmp_path: Path) -> None:
    words = [sys.executable, "-c", PROGRAM, str(tmp_path)]
    source = str(Path(__file__).resolve().parents[3] / "src")
    done = expect(
        0, subprocess.run(words, env={"PYTHONPATH": source, "HOME": str(tmp_path)}, capture_output=True, text=True)
    )
    assert done.stdout.splitlines()[-1] == "False"
    (events,) = tmp_path.rglob("events*")
    assert b"train/loss" in events.read_bytes()

"""What `make install` leaves in a checkout."""

import os
import subprocess
from pathlib import Path

import pytest

from asr_ablations.tools.files import REPOSITORY

VENV = REPOSITORY / ".venv"


@pytest.mark.slow
def test_the_package_and_its_command_are_found_from_anywhere(tmp_path: Path) -> None:
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    program = "import asr_ablations, numpy, sys; print(asr_ablations.__file__, sys.prefix)"
    show = [VENV / "bin" / "python", "-c", program]
    done = subprocess.run(show, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.split() == [str(REPOSITORY / "src" / "asr_ablations" / "__init__.py"), str(VENV)]
    command = [VENV / "bin" / "asr-ablations", "rm", "--help"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("usage: rm")
    assert "(asr-ablations)" in (VENV / "bin" / "activate").read_text()

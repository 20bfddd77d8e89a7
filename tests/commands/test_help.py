"""--help of every command."""

import os
import re
import subprocess
import sys

import pytest

from tests.helpers.command import clean_environment
from tests.helpers.interpreter import SOURCE, python
from tests.helpers.support import group_options

pytestmark = pytest.mark.slow

SCRIPTS = sorted(path.name for path in SOURCE.glob("*.py"))


@pytest.mark.parametrize("script", SCRIPTS)
def test_a_reader_that_has_gone_away_sees_no_traceback(script):
    """As `--help | head -1` may leave it."""
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, str(SOURCE / script), "--help"]
    with os.fdopen(writing, "w") as gone:
        done = subprocess.run(command, stdout=gone, stderr=subprocess.PIPE, text=True, check=False)
    assert done.stderr == ""


def test_the_benchmarks_help_names_each(tmp_path):
    done = python(["src/benchmark.py", "--help"], clean_environment(tmp_path, tmp_path))
    assert done.returncode == 0, done.stderr
    head = done.stdout[: done.stdout.index("== Configuration groups")]
    assert [name for name in group_options("benchmark") if not re.search(rf"\b{name}\b", head)] == []

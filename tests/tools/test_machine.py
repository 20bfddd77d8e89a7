"""What the process keeps of freed memory."""

import platform
import subprocess
import sys

import pytest

from tests.helpers.support import REPOSITORY

STEPS = """
import resource, sys
sys.path.insert(0, "src")
import torch
from asr_ablations.tools.machine import keep_memory
torch.set_num_threads(1)
def faults(steps):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(steps):
        buffers = [torch.ones(2**20) for _ in range(8)]  # 4 MiB each
        del buffers
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
if "keep" in sys.argv:
    keep_memory()
faults(5)
print(faults(20))
"""
PAGES = 20 * 8 * 2**22 // 4096
"""That the buffers of all steps have."""


@pytest.mark.slow
@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the C library is not glibc")
def test_buffers_of_a_step_are_those_of_the_one_before() -> None:
    words = [sys.executable, "-c", STEPS]
    kept, plain = (
        int(subprocess.run([*words, *mode], check=True, capture_output=True, cwd=REPOSITORY).stdout)
        for mode in (["keep"], [])
    )
    assert kept < PAGES / 100, "a page is asked for once"
    assert plain > PAGES / 2

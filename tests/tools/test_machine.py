"""What the process keeps of freed memory."""

import ctypes
import subprocess
import sys

import pytest

from tests.helpers.support import REPOSITORY

STEPS = """
import ctypes, sys
sys.path.insert(0, "src")
import torch
from asr_ablations.tools.machine import keep_memory
class Mallinfo2(ctypes.Structure):  # malloc.h
    _fields_ = [(name, ctypes.c_size_t) for name in
        "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost".split()]
mallinfo2 = ctypes.CDLL(None).mallinfo2
mallinfo2.restype = Mallinfo2
torch.set_num_threads(1)
keep_memory()
before = mallinfo2().fordblks  # bytes that are free and not given back
for _ in range(5):
    buffers = [torch.ones(2**20) for _ in range(64)]
    del buffers
print(mallinfo2().fordblks - before)
"""
BUFFERS = 64 * 2**22
"""The bytes of a step's buffers."""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallinfo2"), reason="the C library is not glibc 2.33 or newer")
def test_buffers_of_a_step_stay_for_the_next() -> None:
    kept = subprocess.run([sys.executable, "-c", STEPS], check=True, capture_output=True, cwd=REPOSITORY).stdout
    # glibc's own count, not page faults: some kernels count none. By itself it keeps a fifth of them at most.
    assert int(kept) >= BUFFERS

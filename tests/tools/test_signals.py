"""Signals do not write over what a product of matrices keeps on the heap."""

import subprocess
import sys

from asr_ablations.tools.files import SOURCE

# A timer's signals, handled in Python, while an LSTM trains on the CPU: what a SIGTERM does once, a thousand times.
TRAINING = """
import signal, time
import torch
from asr_ablations.training.signals import StopRequest

torch.set_num_threads(1)
received = []
signal.signal(signal.SIGALRM, lambda *_: received.append(1))
StopRequest().listen()
lstm = torch.nn.LSTM(192, 192)
signal.setitimer(signal.ITIMER_REAL, 0.002, 0.002)
end = time.process_time() + 3
while time.process_time() < end or len(received) < 20:
    output, _ = lstm(torch.randn(100, 32, 192, requires_grad=True))
    output.sum().backward()
signal.setitimer(signal.ITIMER_REAL, 0)
print("trained")
"""


def test_signals_during_the_products_of_an_lstm_leave_the_heap_whole() -> None:
    """Without `listen`, it ended by SIGABRT each time, with torch 2.11 on a Xeon with AVX512."""
    settings = {"PYTHONPATH": str(SOURCE), "OMP_NUM_THREADS": "1"}
    result = subprocess.run([sys.executable, "-c", TRAINING], capture_output=True, text=True, env=settings)
    assert (result.returncode, result.stdout) == (0, "trained\n"), result.stderr


DELETING = """
import os, signal, time
from asr_ablations.tools.errors import Stopped
from asr_ablations.training.signals import StopRequest

class Held:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(0.01)

stop = StopRequest()
stop.listen()
try:
    Held()
    print("goes on")
    while True:
        time.sleep(0.01)
except Stopped as stopped:
    print(stopped)
stop.close()
"""


def test_a_signal_where_an_object_is_deleted_is_not_lost() -> None:
    """Python ignores exceptions there: the first one stops nothing."""
    result = subprocess.run(
        [sys.executable, "-c", DELETING], capture_output=True, text=True, env={"PYTHONPATH": str(SOURCE)}
    )
    assert result.stdout == "goes on\ninterrupted: SIGTERM\n", result.stderr
    assert result.stderr == ""

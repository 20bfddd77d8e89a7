"""The clock that leaves out pauses."""

import os
import signal
import subprocess
import sys
import time

from asr_ablations.tools.machine import AwakeClock


def test_the_time_of_a_stopped_process_does_not_count() -> None:
    program = """
import time
from asr_ablations.tools import machine
machine.SHORTEST_PAUSE, awake = 0.5, machine.awake
awake.listen()
began, wall = awake(), time.perf_counter()
print("ready", flush=True)
while not awake.paused:
    awake()
    time.sleep(0.01)
print(time.perf_counter() - wall - (awake() - began), flush=True)
"""
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, process.pid, os.WSTOPPED)
    stopped = time.perf_counter()
    time.sleep(0.6)
    pause = time.perf_counter() - stopped
    process.send_signal(signal.SIGCONT)
    message, seconds = process.communicate()[0].splitlines()
    assert message.startswith("stopped for ")
    assert message.endswith(" s, which do not count as training time")
    assert pause <= float(seconds) < pause + 30


def test_a_clock_that_is_read_often_loses_little_by_a_signal_alone() -> None:
    clock = AwakeClock()
    before = clock()
    clock._continue()
    assert 0 <= clock.paused < 5
    assert clock() >= before

"""The machine, its clock, signals, own kernels, masks, and streams of random numbers."""

import math
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import library

from asr_ablations.tools import machine
from asr_ablations.tools.errors import Stopped, stop_before
from asr_ablations.tools.files import SOURCE
from asr_ablations.tools.machine import GROUPS, AwakeClock, available_memory
from asr_ablations.tools.masks import normalise_utterances, valid_frames
from asr_ablations.tools.matrix_products import trusted
from asr_ablations.tools.random_streams import generator, stream, uniforms
from asr_verdicts.errors import UsageError


def test_the_memory_of_a_group_around_this_process_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a container or a job of a cluster limits it. A group without a limit limits nothing."""
    paths = [line.split(":", 2)[1:] for line in Path("/proc/self/cgroup").read_text().splitlines()]
    kind, path = next((kind, path) for kind, path in paths if kind in GROUPS)
    _, limit, used, cached = GROUPS[kind]
    monkeypatch.setattr(machine, "GROUPS", {kind: (str(tmp_path), limit, used, cached)})
    files = {(tmp_path, limit): "max", (tmp_path, used): "5"}
    own = tmp_path / path.strip("/")
    files |= {(own, limit): "9000", (own, used): "4000", (own, "memory.stat"): f"anon 7\n{cached}1500"}
    for (folder, name), content in files.items():
        folder.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content)
    assert available_memory() == 6500
    (own / used).write_text("20000")
    assert available_memory() == 0


@pytest.mark.slow
def test_signals_during_the_products_of_an_lstm_leave_the_heap_whole() -> None:
    """A timer's signals while an LSTM trains on the CPU: what a SIGTERM does once, a thousand times.

    Without `listen`, it ended by SIGABRT each time, with torch 2.11 on a Xeon with AVX512.
    """
    program = """
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
    settings = {"PYTHONPATH": str(SOURCE), "OMP_NUM_THREADS": "1"}
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=settings)
    assert (result.returncode, result.stdout) == (0, "trained\n"), result.stderr


@pytest.mark.slow
def test_a_signal_while_torch_saves_is_an_interruption() -> None:
    """A second Ctrl-C: torch's own clean-up then raises RuntimeError, as the file stops in mid-record."""
    program = """
import io, signal, sys
import torch
from asr_ablations.runs.command import report_end
from asr_ablations.training.signals import StopRequest

class File(io.BytesIO):
    def write(self, data):
        if len(data) > 2**16:
            signal.raise_signal(signal.SIGINT)
        return super().write(data)

try:
    with StopRequest():
        torch.save(torch.ones(2**16), File())
except RuntimeError as error:
    sys.exit(report_end(error))
"""
    settings = {"PYTHONPATH": str(SOURCE), "OMP_NUM_THREADS": "1"}
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=settings)
    assert (result.returncode, result.stderr) == (130, "interrupted; the same command continues\n")


def test_the_numbers_decide_and_without_a_compiler_the_training_goes_on(capsys: pytest.CaptureFixture[str]) -> None:
    def load() -> dict[str, object]:
        raise ImportError("no module named triton\nand a page about it")

    operators = library.Library("asr_ablations_tried", "DEF")
    operators.define("twice(Tensor x) -> Tensor")
    for difference, says in ((1e-6, ""), (0.5, "slower: off by 0.5\n"), (math.nan, "slower: off by nan\n")):
        assert trusted(dict, operators, lambda d=difference: d, "slower") == (not says)
        assert capsys.readouterr().err == says
    assert not trusted(load, operators, lambda: 0.0, "slower")
    assert capsys.readouterr().err == "slower: no module named triton\n"
    assert trusted(lambda: {"twice": lambda x: 2 * x}, operators, lambda: 0.0, "slower")
    assert torch._C._dispatch_has_kernel_for_dispatch_key("asr_ablations_tried::twice", "CUDA")


CPU = torch.device("cpu")
LENGTHS = torch.tensor([7, 0, 1, 4])


def features() -> torch.Tensor:
    return 5 + 3 * torch.randn(4, 7, 3, generator=torch.Generator().manual_seed(6))


def test_each_bin_is_normalised_over_the_valid_frames_alone_as_in_a_batch() -> None:
    for lengths in ([3, 0, 1], [0], [5, 5], []):
        mask = valid_frames(torch.tensor(lengths, dtype=torch.long), 5, torch.device("cpu"))
        assert mask.tolist() == [[position < length for position in range(5)] for length in lengths]
    lengths = torch.tensor([7, 0, 1, 4])
    x = 5 + 3 * torch.randn(4, 7, 3, generator=torch.Generator().manual_seed(6))
    together = normalise_utterances(x, lengths)
    for row, length in enumerate(lengths.tolist()):
        own = x[row, :length].numpy()
        if length > 1:
            expected = (own - own.mean(axis=0)) / own.std(axis=0)
            np.testing.assert_allclose(together[row, :length].numpy(), expected, atol=1e-4)
        alone = normalise_utterances(x[row : row + 1, :length], lengths[row : row + 1])
        torch.testing.assert_close(alone[0], together[row, :length])
        assert not together[row, length:].any()
    constant = torch.full((2, 5, 3), -23.0)
    assert normalise_utterances(constant, torch.tensor([5, 1])).abs().max() < 1e-3
    assert normalise_utterances(x, torch.ones(4, dtype=torch.long)).abs().max() == 0


def test_every_argument_makes_another_stream() -> None:
    arguments = [
        *[(0, "init"), (1, "init"), (0, "order"), (0, "order", 1), (0, "order", 2), (0, "order", "1", "")],
        *[(0,), (10,), (1, 0), (10, ""), (0, "a", "bc"), (0, "ab", "c")],
    ]
    assert len({stream(*arguments) for arguments in arguments}) == len(arguments)
    assert len({generator(*arguments).random() for arguments in arguments}) == len(arguments)
    assert len({float(uniforms(1, *arguments)[0]) for arguments in arguments}) == len(arguments)


def test_draws_are_the_same_in_every_process_and_those_that_they_have_always_been() -> None:
    """printf '0\\x1finit' | b2sum -l 64, read little-endian, without the lowest bit: old runs can be repeated."""
    for names, b2sum in (((0, "init"), "81557a7b6753d9bb"), ((3, "order", 7), "2004887eedfe001b")):
        assert stream(*names) == int.from_bytes(bytes.fromhex(b2sum), "little") >> 1
    draws = "s.stream(3, 'a'), s.generator(3, 'x').random(), *s.uniforms(9, 3, 'é')"
    command = [sys.executable, "-c", f"import asr_ablations.tools.random_streams as s; print({draws})"]
    environment = {"PYTHONHASHSEED": "12345", "PYTHONPATH": str(SOURCE), "PATH": ""}
    told = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
    here = [stream(3, "a"), generator(3, "x").random(), *uniforms(9, 3, "é")]
    assert [float(word) for word in told.split()] == [float(value) for value in here]
    for count in (0, 1, 7, 8, 9, 100):
        assert uniforms(count, 4, "x").tolist() == uniforms(200, 4, "x")[:count].tolist(), "a common beginning"


def test_uniforms_are_uniform() -> None:
    """Mean 1/2 and variance 1/12 within five standard errors, each tenth equally full, neighbours uncorrelated."""
    count = 100_000
    drawn = uniforms(count, 0, "test")
    assert 0 <= drawn.min() < 1e-3
    assert 1 - 1e-3 < drawn.max() < 1
    assert abs(drawn.mean() - 1 / 2) < 5 * np.sqrt(1 / 12 / count)
    assert abs(drawn.var() - 1 / 12) < 5 * np.sqrt(1 / 180 / count)
    tenths = np.bincount((drawn * 10).astype(int), minlength=10)
    assert np.abs(tenths - count / 10).max() < 5 * np.sqrt(count * 0.09)
    assert abs(np.corrcoef(drawn[:-1], drawn[1:])[0, 1]) < 5 / np.sqrt(count)


def test_the_signal_before_an_error_is_found_and_a_circle_of_errors_ends() -> None:
    """A class's refusal is raised again during the handling of the error that Hydra made of it."""
    refusal, wrapped = UsageError("dropout=1.5"), RuntimeError("Error in call to target")
    wrapped.__cause__, refusal.__context__ = refusal, wrapped
    assert stop_before(refusal) is None
    wrapped.__cause__ = Stopped(signal.SIGTERM)
    assert stop_before(refusal) is wrapped.__cause__


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

"""The machine, its clock, signals, own kernels, masks and random numbers; files, the terminal, checks of values."""

import errno
import math
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf import OmegaConf
from rich.table import Table
from torch import library

from asr_ablations.config.build import build
from asr_ablations.runs.command import describe_end
from asr_ablations.tools import machine
from asr_ablations.tools.checks import number, whole
from asr_ablations.tools.errors import (
    BROUGHT_BY,
    Stopped,
    choose_exit_code,
    describe_system_error,
    require,
    stop_before,
)
from asr_ablations.tools.files import SOURCE, format_override, typed
from asr_ablations.tools.machine import GROUPS, AwakeClock, available_memory, one_at_a_time
from asr_ablations.tools.masks import normalise_utterances, valid_frames
from asr_ablations.tools.matrix_products import trusted
from asr_ablations.tools.random_streams import generator, stream, uniforms
from asr_verdicts.errors import UsageError
from asr_verdicts.files import folder_name, whole_file, write
from asr_verdicts.terminal import console, harmless, harmless_line
from tests.helpers.support import REPOSITORY, described


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


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device of Linux")
def test_an_error_of_the_disk_names_the_file_and_not_its_temporary_name(tmp_path: Path) -> None:
    path = tmp_path / "last.ckpt"

    def write_much() -> None:
        with whole_file(path) as temporary:
            temporary.symlink_to("/dev/full")
            temporary.write_text("x" * 100_000)

    with pytest.raises(OSError, match=r"No space left") as raised:
        write_much()
    assert describe_system_error(raised.value) == f"{path}: No space left on device"
    assert choose_exit_code(raised.value) == 1
    (tmp_path / "file").touch()
    with pytest.raises(NotADirectoryError) as refused:
        write(tmp_path / "file" / "a.txt", "x")
    assert describe_system_error(refused.value) == f"{tmp_path / 'file' / 'a.txt'}: Not a directory"
    assert choose_exit_code(refused.value) == 2
    assert describe_system_error(OSError("of a library, without a reason")) is None


def test_a_limit_of_the_system_is_one_line() -> None:
    for error, line in (
        (OSError(errno.ENOLCK, "No locks available"), "No locks available"),
        (RuntimeError("can't start new thread"), "RuntimeError: can't start new thread"),
        (ImportError("libtorch_cpu.so: failed to map segment from shared object"), "out of memory: ImportError: lib"),
    ):
        end = describe_end(error)
        assert end is not None
        assert end[0].startswith(line)
        assert end[1] == 1


@pytest.mark.parametrize("content", ["my thesis", None], ids=["a file", "nothing"])
def test_a_lock_is_no_way_into_another_file(tmp_path: Path, content: str | None) -> None:
    victim, lock = tmp_path / "thesis.txt", tmp_path / "lock"
    if content is not None:
        victim.write_text(content)
        lock.hardlink_to(victim)
        with one_at_a_time(lock, "waiting"):
            assert victim.read_text() == content
    lock.symlink_to(victim)
    with pytest.raises(OSError, match="lock'") as raised, one_at_a_time(lock, "waiting"):
        pass
    assert describe_system_error(raised.value) == f"{lock}: {os.strerror(errno.ELOOP)}"
    assert lock.is_symlink()
    assert (victim.read_text() if victim.exists() else None) == content


def test_a_printed_command_can_be_pasted() -> None:
    """By Bash, Hydra and OmegaConf, as they are installed."""

    def pasted(line: str) -> list[str]:
        """The words of a line as Bash has them."""
        printed = subprocess.run(["bash", "-c", f"printf '%s\\0' {line}"], capture_output=True, text=True, check=True)
        return printed.stdout.split("\0")[:-1]

    plain = ["/data/x", "../x", "./a.b"]
    quoted = [
        "~/x", "", " ", "123", "1e5", ".5", "null", "True", "a b", "a=b", "a,b", "[a]", "{a: b}", "(v1)", "ż", "it's",
        'a"b', "a\\", "a\\'b", "\\\\'", "a$b", "$HOME", "${x}", "\\${x}", "`x`", "a!b", "a:b", "#x", "%x", "@x",
        "|", "-x", "a\tb", "*",
    ]  # fmt: skip
    for value in [*plain, *quoted]:
        words = format_override("data.root", value), format_override("data.test", [value, "b"])
        assert (words[0] == f"data.root={value}") == (value in plain)
        line = typed("evaluate", "run=<folder>", *words)
        assert line.startswith("python src/evaluate.py run=<folder> ")
        root, test = OverridesParser.create().parse_overrides(pasted(line.partition("> ")[2]))
        values = OmegaConf.create([root.value(), test.value()])
        assert OmegaConf.to_container(values, resolve=True) == [value, [value, "b"]]
        assert pasted(typed("compare", value)) == ["python", "src/compare.py", value]


def test_names_of_folders_are_safe_short_and_their_own() -> None:
    assert folder_name("rnn_type") == "rnn_type"
    names = ["a/b", "a b", "a-b", "实验一", "实验二", "x" * 300, "x" * 301, ".", ""]
    folders = [folder_name(name) for name in names]
    assert len({*folders}) == len(names)
    assert max(map(len, folders)) <= 100
    assert all(re.fullmatch(r"[A-Za-z0-9._+-]+", folder) for folder in folders)


def test_nothing_that_a_terminal_obeys_is_left_in_lines_and_tables(capsys: pytest.CaptureFixture) -> None:
    assert harmless("\x1b]0;pwn\x07 \u202eabc \udcff\x9b") == r"\x1b]0;pwn\x07 \u202eabc \udcff\x9b"
    assert harmless("zażółć 实验\tגדול\n") == "zażółć 实验\tגדול\n"
    assert harmless_line("data.test=\x1bx\r: expected\n  train,\tdev\n") == r"data.test=\x1bx\r: expected train, dev"
    table = Table(title="t[red]x", title_justify="left")
    table.add_column("data.train=[/abs/a.jsonl]", overflow="fold")
    table.add_row("[/x] \x1b[31mred")
    console().print(table)
    console().print("outputs=[/br]")
    printed = capsys.readouterr().out
    for text in ("t[red]x", "data.train=[/abs/a.jsonl]", r"[/x] \x1b[31mred", "outputs=[/br]"):
        assert text in printed
    assert "\x1b" not in printed


def test_what_is_no_whole_number_from_one_is_refused_by_name() -> None:
    assert whole("x", 10**12, 1) == 10**12
    for value in (0, True, 1.0, "1", None, math.nan, [1]):
        with pytest.raises(UsageError) as error:
            whole("batch.size", value, 1)
        assert str(error.value) == f"batch.size={value}: expected a whole number, 1 or more"
    with pytest.raises(UsageError, match=r"^port=70000: expected a whole number from 0 to 65535$"):
        whole("port", 70000, 0, 65535)
    with pytest.raises(UsageError, match=r"^gpus=-1: expected a whole number, 0 or more, or auto$"):
        whole("gpus", -1, 0, also="auto")


def test_what_is_no_finite_number_within_its_bounds_is_refused() -> None:
    for value in (True, "0.5", math.nan):
        with pytest.raises(UsageError, match="expected a number"):
            number("x", value)
    for bounds, inside, outside, words in (
        ({"above": 0}, 1e-9, 0, "a number above 0"),
        ({"least": 0, "below": 1}, 0, 1, "a number from 0 to below 1"),
        ({"least": 0, "most": 1}, 1, 1.5, "a number from 0 to 1"),
    ):
        assert number("x", inside, **bounds) == inside
        with pytest.raises(UsageError, match=f"^x={outside}: expected {words}$"):
            number("x", outside, **bounds)


def test_a_missing_package_is_named_with_the_line_that_installs_it() -> None:
    with pytest.raises(UsageError, match=r"^logger=x: needs no_such_package; make install EXTRAS=tensorboard "):
        require("tensorboard", "logger=x", "torch", "no_such_package")
    require("tensorboard", "logger=x", "torch")


def test_a_search_without_its_package_names_the_line_that_installs_it(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As if pyctcdecode and kenlm were not installed."""
    for module in [*sys.modules]:
        if module.startswith(("pyctcdecode", "kenlm", "asr_ablations.components.decoder.")):
            monkeypatch.delitem(sys.modules, module)
            package, _, own = module.rpartition(".")
            if package in sys.modules:  # which keeps it, too
                monkeypatch.delattr(sys.modules[package], own, raising=False)
    for package in ("pyctcdecode", "kenlm"):
        monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(UsageError, match=r"decoder\.beam_lm: needs kenlm; make install EXTRAS=decode "):
        build(described("decoder", "beam_lm"))
    assert caplog.messages == [], "what Hydra says of it stands in two lines more"
    assert build(described("decoder", "greedy")) is not None


def test_every_extra_that_is_asked_for_exists() -> None:
    text = (REPOSITORY / "pyproject.toml").read_text().partition("[project.optional-dependencies]")[2]
    extras = set(re.findall(r"^(\w+) = \[", text.partition("\n[tool.")[0], flags=re.MULTILINE))
    calls = [
        name
        for path in Path(REPOSITORY / "src").rglob("*.py")
        for name in re.findall(r"""(?:require|installs)\(\s*["'](\w+)["']""", path.read_text(encoding="utf-8"))
    ]
    assert {*calls, *BROUGHT_BY.values()} <= extras
    assert {"search", "tensorboard", "export", "serve", "lexicon"} <= set(calls)

"""Files, the terminal, checks of values, and extras that are not installed."""

import errno
import math
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf import OmegaConf
from rich.table import Table

from asr_ablations.config.build import build
from asr_ablations.runs.command import describe_end
from asr_ablations.tools.checks import number, whole
from asr_ablations.tools.errors import BROUGHT_BY, choose_exit_code, describe_system_error, require
from asr_ablations.tools.files import format_override, typed
from asr_ablations.tools.machine import one_at_a_time
from asr_verdicts.errors import UsageError
from asr_verdicts.files import folder_name, whole_file, write
from asr_verdicts.terminal import console, harmless, harmless_line
from tests.helpers.support import REPOSITORY, described


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


def pasted(line: str) -> list[str]:
    """The words of a line as Bash has them."""
    printed = subprocess.run(["bash", "-c", f"printf '%s\\0' {line}"], capture_output=True, text=True, check=True)
    return printed.stdout.split("\0")[:-1]


def test_a_printed_command_can_be_pasted() -> None:
    """By Bash, Hydra and OmegaConf, as they are installed."""
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

"""Texts of strangers in the terminal: whole, and harmless."""

import pytest
from rich.table import Table

from asr_ablations.tools.terminal import bar, console, harmless, harmless_line


def test_nothing_that_a_terminal_obeys_is_left() -> None:
    assert harmless("\x1b]0;pwn\x07 \u202eabc \udcff\x9b") == r"\x1b]0;pwn\x07 \u202eabc \udcff\x9b"
    assert harmless("zażółć 实验\tגדול\n") == "zażółć 实验\tגדול\n"


def test_a_line_shows_a_carriage_return_behind_a_value() -> None:
    assert harmless_line("data.test=\x1bx\r: expected\n  train,\tdev\n") == r"data.test=\x1bx\r: expected train, dev"


def test_names_in_tables_keep_their_brackets_and_lose_their_escapes(capsys: pytest.CaptureFixture) -> None:
    table = Table(title="t[red]x", title_justify="left")
    table.add_column("data.train=[/abs/a.jsonl]", overflow="fold")
    table.add_row("[/x] \x1b[31mred")
    console().print(table)
    console().print("outputs=[/br]")
    printed = capsys.readouterr().out
    for text in ("t[red]x", "data.train=[/abs/a.jsonl]", r"[/x] \x1b[31mred", "outputs=[/br]"):
        assert text in printed
    assert "\x1b" not in printed


def test_a_bar_may_have_any_title(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")  # as on a terminal
    with bar("reading [/x]", total=1) as advance:
        advance(1)
    assert "reading [/x]" in capsys.readouterr().err

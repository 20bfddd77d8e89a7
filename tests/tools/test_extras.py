"""Packages that only some commands need are asked for by name."""

import re
from pathlib import Path

import pytest

from asr_ablations.tools.errors import UsageError
from asr_ablations.tools.extras import require
from tests.helpers.support import REPOSITORY


def test_a_missing_package_is_named_with_the_line_that_installs_it() -> None:
    with pytest.raises(UsageError, match=r"^logger=x: needs no_such_package; make install EXTRAS=tensorboard "):
        require("tensorboard", "logger=x", "torch", "no_such_package")
    require("tensorboard", "logger=x", "torch")


def test_every_extra_that_is_asked_for_exists() -> None:
    text = (REPOSITORY / "pyproject.toml").read_text().partition("[project.optional-dependencies]")[2]
    extras = set(re.findall(r"^(\w+) = \[", text.partition("\n[tool.")[0], flags=re.MULTILINE))
    calls = [
        name
        for path in Path(REPOSITORY / "src").rglob("*.py")
        for name in re.findall(r"""(?:require|installs)\(\s*["'](\w+)["']""", path.read_text(encoding="utf-8"))
    ]
    assert set(calls) <= extras
    assert {"search", "tensorboard", "export", "serve", "lexicon"} <= set(calls)

"""Packages that only some commands need are asked for by name."""

import re
import sys
from pathlib import Path

import pytest

from asr_ablations.config.build import build
from asr_ablations.tools.errors import BROUGHT_BY, UsageError, require
from tests.helpers.support import REPOSITORY, described


def test_a_missing_package_is_named_with_the_line_that_installs_it() -> None:
    with pytest.raises(UsageError, match=r"^logger=x: needs no_such_package; make install EXTRAS=tensorboard "):
        require("tensorboard", "logger=x", "torch", "no_such_package")
    require("tensorboard", "logger=x", "torch")


@pytest.mark.parametrize("name", ["beam", "beam_lm"])
def test_a_search_without_its_package_names_the_line_that_installs_it(
    name: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    node = described("decoder", name)
    for module in [*sys.modules]:
        if module.startswith(("pyctcdecode", "asr_ablations.components.decoder.")):
            monkeypatch.delitem(sys.modules, module)
            package, _, own = module.rpartition(".")
            if package in sys.modules:  # which keeps it, too
                monkeypatch.delattr(sys.modules[package], own, raising=False)
    monkeypatch.setitem(sys.modules, "pyctcdecode", None)  # as if it were not installed
    with pytest.raises(UsageError, match=rf"decoder\.{name}: needs pyctcdecode; make install EXTRAS=decode "):
        build(node)
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

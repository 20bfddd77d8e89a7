"""What is published in sweeps/RESULTS.md is what its kept records say."""

import re
import shutil
from pathlib import Path

import pytest

from asr_ablations.report.results_md import HEADING, is_open, write_results
from asr_ablations.runs.archive import unpack
from tests.helpers.support import REPOSITORY

PUBLISHED = REPOSITORY / "sweeps"
FEW = 2
"""How many sweeps are compared anew, the smallest ones: python src/compare.py --results does so for all."""


def sections(text: str) -> dict[str, str]:
    found = re.split(r"^## (.+)$", text, flags=re.MULTILINE)[1:]
    return {name: content.strip() for name, content in zip(found[::2], found[1::2], strict=True)}


def answers(text: str, name: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith(f"| [{name}]")]


def test_every_record_has_its_section_and_every_section_its_record(tmp_path: Path) -> None:
    """But for those whose questions are open."""
    sweeps = unpack((PUBLISHED / "records").glob("*.tar.xz"), tmp_path)
    names = {sweep.name for sweep in sweeps if not is_open(sweep)}
    assert names
    assert sections((PUBLISHED / "RESULTS.md").read_text(encoding="utf-8")).keys() == names | {HEADING}


@pytest.mark.slow
def test_the_records_say_what_is_published(tmp_path: Path) -> None:
    published = sections((PUBLISHED / "RESULTS.md").read_text(encoding="utf-8"))
    archives = sorted((PUBLISHED / "records").glob("*.tar.xz"), key=lambda path: (path.stat().st_size, path.name))
    archives = [path for path in archives if path.name.removesuffix(".tar.xz") in published]
    (tmp_path / "records").mkdir()
    for archive in archives[:FEW]:
        shutil.copy(archive, tmp_path / "records")
    write_results(None, tmp_path / "RESULTS.md")
    anew, page = ((folder / "RESULTS.md").read_text(encoding="utf-8") for folder in (tmp_path, PUBLISHED))
    compared = {name: content for name, content in sections(anew).items() if name != HEADING}  # that is about all
    assert len(compared) == FEW
    for name, content in compared.items():
        assert content == published[name]
        assert answers(anew, name) == answers(page, name)

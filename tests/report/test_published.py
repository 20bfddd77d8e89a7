"""What is published in sweeps/RESULTS.md is what its kept records say."""

import re
import shutil
from pathlib import Path

import pytest

from asr_ablations.report.noise import HEADING
from asr_ablations.report.results_md import write_results
from tests.helpers.support import REPOSITORY

PUBLISHED = REPOSITORY / "sweeps"
FEW = 2
"""How many sweeps are compared anew, the smallest ones: python src/compare.py --results does so for all."""


def sections(text: str) -> dict[str, str]:
    found = re.split(r"^## (.+)$", text, flags=re.MULTILINE)[1:]
    return {name: content.strip() for name, content in zip(found[::2], found[1::2], strict=True)}


def answers(text: str, name: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith(f"| [{name}]")]


def test_every_record_has_its_section_and_every_section_its_record() -> None:
    names = {path.name.removesuffix(".tar.xz") for path in (PUBLISHED / "records").glob("*.tar.xz")}
    assert names
    assert sections((PUBLISHED / "RESULTS.md").read_text(encoding="utf-8")).keys() == names | {HEADING}


@pytest.mark.slow
def test_the_records_say_what_is_published(tmp_path: Path) -> None:
    archives = sorted((PUBLISHED / "records").glob("*.tar.xz"), key=lambda path: (path.stat().st_size, path.name))
    (tmp_path / "records").mkdir()
    for archive in archives[:FEW]:
        shutil.copy(archive, tmp_path / "records")
    write_results(None, tmp_path / "RESULTS.md")
    anew, published = ((folder / "RESULTS.md").read_text(encoding="utf-8") for folder in (tmp_path, PUBLISHED))
    compared = {name: content for name, content in sections(anew).items() if name != HEADING}  # that is about all
    assert len(compared) == FEW
    for name, content in compared.items():
        assert content == sections(published)[name]
        assert answers(anew, name) == answers(published, name) != []

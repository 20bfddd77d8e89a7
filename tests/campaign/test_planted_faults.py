"""Faults are planted where they are drawn."""

import ast
import shutil
from pathlib import Path

from asr_ablations.tools.files import REPOSITORY
from tests.campaign.fault_places import JUDGING_ROOMS, draw


def test_a_seed_draws_the_same_faults_and_each_leaves_a_file_that_parses(tmp_path: Path) -> None:
    for room in ("statistics", "metrics", "tools"):
        shutil.copytree(REPOSITORY / "src/asr_ablations" / room, tmp_path / "src/asr_ablations" / room)
    faults = draw(tmp_path, 50, seed=3)
    assert faults == draw(tmp_path, 50, seed=3)
    assert len({fault.name for fault in faults}) == 50
    assert sum(fault.room in JUDGING_ROOMS for fault in faults) == 30
    for fault in faults:
        source = (tmp_path / fault.path).read_bytes()
        assert ast.dump(ast.parse(fault.planted(source))) != ast.dump(ast.parse(source)), fault

"""Two ranks under torchrun, gloo on the CPU, see disjoint halves of every epoch."""

import json
import os
import sys
from pathlib import Path

import pytest

from tests.helpers.interpreter import program
from tests.helpers.support import REPOSITORY


@pytest.mark.slow
def test_two_ranks_see_disjoint_halves(tiny_corpus: Path, tmp_path: Path) -> None:
    """Ten utterances in batches of two a rank: two steps of four and one of two, one utterance for each rank."""
    script = REPOSITORY / "tests/helpers/rank_ids.py"
    run = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", str(script)]
    paths = os.pathsep.join(str(REPOSITORY / name) for name in ("src", ""))
    environment = {**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    done = program([*run, str(tiny_corpus), str(tmp_path), "1"], environment)
    assert done.returncode == 0, done.stderr
    ranks = [json.loads((tmp_path / f"{rank}.json").read_text()) for rank in range(2)]
    for epoch in ("0", "1"):
        batches = [rank[epoch] for rank in ranks]
        assert sorted(map(len, batches[0])) == sorted(map(len, batches[1])) == [1, 2, 2]
        halves = [{id_ for batch in share for id_ in batch} for share in batches]
        assert not halves[0] & halves[1]
        assert len(halves[0] | halves[1]) == 10
    assert ranks[0]["0"] != ranks[0]["1"]

"""Decoding in processes: the same texts in the same order as without processes, and deaths are reported."""

import os
import subprocess
import sys
from pathlib import Path
from subprocess import PIPE
from typing import Any

import numpy as np
import psutil
import pytest
import torch

from asr_ablations.data.utterances import Utterance
from asr_ablations.evaluation.log_probs import LogProbs
from asr_ablations.evaluation.pool import Pool, process_count, temporary_values
from asr_ablations.tools.errors import UsageError
from tests.helpers.processes import wait_for
from tests.helpers.small_models import LETTERS, bigrams, decoder


def store(folder: Path, rows: list[np.ndarray], texts: list[str] | None = None) -> LogProbs:
    """A set with these outputs."""
    texts = texts or [""] * len(rows)
    spoken = [Utterance(f"{i:03d}", "s", Path(f"{i}.flac"), 0.0, 1.0, text) for i, text in enumerate(texts)]
    np.save(folder / "dev.npy", np.concatenate(rows).astype(np.float16))
    return LogProbs("dev", folder / "dev.npy", spoken, [len(row) for row in rows], 0.5, "cpu")


def drawn(utterances: int) -> list[np.ndarray]:
    generator = torch.Generator().manual_seed(0)
    return [
        torch.randn(length, LETTERS.outputs, generator=generator).mul(2).log_softmax(-1).numpy()
        for length in torch.randint(0, 12, (utterances,), generator=generator).tolist()
    ]


@pytest.mark.parametrize("processes", [1, 3])
@pytest.mark.parametrize("name", ["greedy", "beam_lm", "lexicon"])
def test_as_without_processes(tmp_path: Path, processes: int, name: str) -> None:
    rows = drawn(50)
    log_probs, alone = store(tmp_path, rows), decoder(name)
    count = []
    with Pool([decoder("greedy"), alone], processes) as pool:
        decoded = pool.decode(1, log_probs, advance=lambda: count.append(1))
    halves = [row.astype(np.float16).astype(np.float32) for row in rows]
    assert decoded.texts == [alone(torch.from_numpy(row)[None], torch.tensor([len(row)]))[0] for row in halves]
    assert len(count) == 50
    assert len(set(decoded.texts)) > 10
    assert decoded.seconds > 0 < decoded.core_seconds


def test_one_pool_decodes_with_other_weights_in_turn(tmp_path: Path) -> None:
    file = str(bigrams("pool.arpa", ["ab"]))
    row = np.log([[0.02, 0.93, 0.03, 0.02], [0.02, 0.5, 0.46, 0.02]])
    log_probs = store(tmp_path, [row] * 4)
    with Pool([decoder("beam_lm", lm=file, alpha=0.0, beta=0.0)], 2) as pool:
        texts = [pool.decode(0, log_probs, values).texts for values in (None, {"alpha": 0.5}, {}, {"beta": 9.0})]
    assert [set(decoded) for decoded in texts] == [{"a"}, {"ab"}, {"a"}, {"a"}]


def test_values_are_restored() -> None:
    tuned = decoder("beam_lm")
    before = (tuned.alpha, tuned.beta)
    with temporary_values(tuned, {"alpha": 9.0}):
        assert (tuned.alpha, tuned.beta) == (9.0, before[1])
    assert (tuned.alpha, tuned.beta) == before


class Dying:
    def __call__(self, log_probs: Any, lengths: Any) -> list[str]:
        os._exit(9)


class Failing:
    def __call__(self, log_probs: Any, lengths: Any) -> list[str]:
        raise ValueError("of the decoder's own")


def test_a_process_that_dies_is_reported(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="a decoding process died"), Pool([Dying()], 2) as pool:
        pool.decode(0, store(tmp_path, drawn(8)))


KILLED = """
import os, signal
from asr_ablations.evaluation.pool import Pool
with Pool([], 2) as pool:
    print(*pool._executor._processes, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_no_process_outlives_a_killed_pool() -> None:
    """Each holds the queue open on which the others wait."""
    killed = subprocess.run([sys.executable, "-c", KILLED], env={**os.environ, "PYTHONPATH": "src"}, stdout=PIPE)
    assert killed.returncode == -9
    processes = [int(pid) for pid in killed.stdout.split()]
    assert len(processes) == 2
    wait_for(lambda: not any(_runs(pid) for pid in processes))


def _runs(pid: int) -> bool:
    """Whether a process runs: nobody may ask for the exit code of one whose parent was killed."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_log_probabilities_that_are_cut_while_they_are_decoded_are_said(tmp_path: Path) -> None:
    log_probs = store(tmp_path, drawn(8))
    with Pool([decoder("greedy")], 1) as pool:
        assert len(pool.decode(0, log_probs).texts) == 8
        os.truncate(log_probs.file, log_probs.file.stat().st_size - 2)
        with pytest.raises(UsageError, match="was cut while it is read"):
            pool.decode(0, log_probs)


def test_an_error_of_a_decoder_reaches_the_caller(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="of the decoder's own"), Pool([Failing()], 2) as pool:
        pool.decode(0, store(tmp_path, drawn(8)))


def test_processes() -> None:
    assert process_count("auto") >= 1
    assert process_count(3) == 3
    for wrong in (0, -1, 1.5, None, "all", True):
        with pytest.raises(UsageError, match=f"processes={wrong}: expected auto, or"):
            process_count(wrong)

"""Log-probabilities and outputs of hidden layers that are kept, and decoding in several processes."""

import multiprocessing
import os
import shutil
import signal
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
import torch

from asr_ablations.data.utterances import Utterance
from asr_ablations.evaluation.evaluate import evaluate
from asr_ablations.evaluation.outputs import (
    LogProbs,
    check_layers,
    halved,
    stored_activations,
    stored_log_probs,
    unique_utterances,
)
from asr_ablations.evaluation.pool import Pool, count_processes
from asr_ablations.training.trained_model import Trained, load_run
from asr_verdicts.errors import UsageError
from tests.evaluation.test_evaluate import request
from tests.helpers.processes import wait_for
from tests.helpers.small_models import LETTERS, bigrams, decoder
from tests.helpers.trained_runs import write_trained

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory: pytest.TempPathFactory, tiny_corpus: Path) -> Path:
    return write_trained(tmp_path_factory.mktemp("store"), tiny_corpus)


def compute(folder: Path, name: str = "dev", checkpoint: str = "last") -> LogProbs:
    trained = load_run(folder, checkpoint)
    trained.data.corpus.prepare()
    return stored_log_probs(trained, name, CPU, nullcontext)


def test_they_are_those_of_the_model(run_folder: Path) -> None:
    """Against the model on each utterance alone."""
    trained = load_run(run_folder)
    trained.data.corpus.prepare()
    stored = stored_log_probs(trained, "dev", CPU, nullcontext)
    assert [u.id for u in stored.utterances] == sorted(u.id for u in trained.data.corpus.read("dev"))
    assert len(stored.utterances) == 6
    assert stored.audio_seconds == pytest.approx(sum(u.duration for u in stored.utterances))
    trained.data.batch_count = 1
    alone = {}
    for batch in trained.data.evaluation_dataloader("dev"):
        with torch.inference_mode():
            log_probs, lengths = trained.task(batch)
        alone[batch.ids[0]] = log_probs[0, : int(lengths[0])].numpy()
    for utterance, row in zip(stored.utterances, stored.read(), strict=True):
        assert row.dtype == np.float16
        np.testing.assert_allclose(row, alone[utterance.id], atol=4e-3)


def test_they_are_computed_once_and_again_for_other_weights_or_data(run_folder: Path, tiny_corpus: Path) -> None:
    first = compute(run_folder)
    changed = first.file.stat().st_mtime_ns
    assert compute(run_folder).file == first.file
    assert first.file.stat().st_mtime_ns == changed
    trained = load_run(run_folder)
    moved = tiny_corpus.with_name("moved")
    shutil.copytree(tiny_corpus, moved, dirs_exist_ok=True)
    trained.data.corpus.root = moved  # the same content elsewhere
    assert stored_log_probs(trained, "dev", CPU, nullcontext).file == first.file
    shutil.copy(run_folder / "checkpoints" / "best.ckpt", run_folder / "checkpoints" / "other.ckpt")
    weights = torch.load(run_folder / "checkpoints" / "best.ckpt", weights_only=True)
    next(value for value in weights["state_dict"].values() if value.is_floating_point()).add_(0.1)
    torch.save(weights, run_folder / "checkpoints" / "best.ckpt")
    assert compute(run_folder, checkpoint="best").file != first.file
    transcripts = next((moved / "dev").rglob("*.trans.txt"))
    transcripts.write_text(transcripts.read_text().replace("CAB", "DAB"))
    other = load_run(run_folder)
    other.data.corpus.root = moved
    assert stored_log_probs(other, "dev", CPU, nullcontext).file != first.file


def test_what_is_damaged_is_computed_again(run_folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    stored = compute(run_folder, "test")
    content = stored.file.read_bytes()
    for suffix, damaged in (
        (".json", b"[]"), (".json", b'{"lengths": [1], "seconds": 0.1, "device": "cpu"}'),
        (".npy", content[: len(content) // 2]),
    ):  # fmt: skip
        caplog.clear()
        stored.file.with_suffix(suffix).write_bytes(damaged)
        again = compute(run_folder, "test")
        assert (again.lengths, again.file.read_bytes()) == (stored.lengths, content)
        (warning,) = caplog.messages
        assert f"{stored.file} is damaged and will be computed again" in warning


def test_rounding_keeps_the_best_symbol() -> None:
    """Frames whose two best symbols round to the same float16."""
    rows = np.log(np.random.default_rng(0).dirichlet(np.ones(29), 500)).astype(np.float32)
    tied = rows.copy()
    best = rows.argmax(axis=1)
    tied[np.arange(500), (best + 1) % 29] = rows.max(axis=1) - 1e-6
    for row in (rows, tied):
        assert (halved(row).argmax(axis=1) == row.argmax(axis=1)).all()
        np.testing.assert_allclose(halved(row), row, rtol=2e-3, atol=2e-3)
    assert (tied.astype(np.float16).argmax(axis=1) != tied.argmax(axis=1)).any()
    assert np.isfinite(halved(np.array([[-1e30, 0.0]], dtype=np.float32))).all()
    assert halved(np.zeros((0, 3), dtype=np.float32)).shape == (0, 3)


def test_an_utterance_counts_once() -> None:
    """As when several processes have read the same utterance."""
    a, b = (Utterance(id_, "s", Path("x.flac"), 0.0, 1.0, "a") for id_ in "ab")
    assert unique_utterances("dev", [b, a, b]) == [a, b]
    with pytest.raises(UsageError, match="dev: two utterances have the id a"):
        unique_utterances("dev", [a, replace(a, text="b")])


def store(folder: Path, rows: list[np.ndarray]) -> LogProbs:
    """A set with these outputs."""
    spoken = [Utterance(f"{i:03d}", "s", Path(f"{i}.flac"), 0.0, 1.0, "") for i in range(len(rows))]
    np.save(folder / "dev.npy", np.concatenate(rows).astype(np.float16))
    return LogProbs("dev", folder / "dev.npy", spoken, [len(row) for row in rows], 0.5, "cpu")


def drawn(utterances: int) -> list[np.ndarray]:
    generator = torch.Generator().manual_seed(0)
    return [
        torch.randn(length, LETTERS.outputs, generator=generator).mul(2).log_softmax(-1).numpy()
        for length in torch.randint(0, 12, (utterances,), generator=generator).tolist()
    ]


def test_as_without_processes(tmp_path: Path) -> None:
    rows = drawn(50)
    log_probs, alone = store(tmp_path, rows), decoder("beam_lm")
    count = []
    with Pool([decoder("greedy"), alone], 3) as pool:
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


def test_a_process_that_dies_and_an_error_of_a_decoder_reach_the_caller(tmp_path: Path) -> None:
    class Dying:
        def __call__(self, log_probs: Any, lengths: Any) -> list[str]:
            os._exit(9)

    class Failing:
        def __call__(self, log_probs: Any, lengths: Any) -> list[str]:
            raise ValueError("of the decoder's own")

    with pytest.raises(UsageError, match="a decoding process died"), Pool([Dying()], 2) as pool:
        pool.decode(0, store(tmp_path, drawn(8)))
    with pytest.raises(ValueError, match="of the decoder's own"), Pool([Failing()], 2) as pool:
        pool.decode(0, store(tmp_path, drawn(8)))


def test_no_process_outlives_a_killed_pool() -> None:
    """Each holds the queue open on which the others wait."""
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()

    def be_killed() -> None:
        with Pool([], 2) as pool:
            theirs.send([*pool._executor._processes])
            os.kill(os.getpid(), signal.SIGKILL)

    killed = context.Process(target=be_killed)
    killed.start()
    processes = ours.recv()
    killed.join()
    assert killed.exitcode == -signal.SIGKILL
    assert len(processes) == 2

    def runs(pid: int) -> bool:  # nobody may ask for the exit code of a process whose parent was killed
        try:
            return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
        except psutil.NoSuchProcess:
            return False

    wait_for(lambda: not any(map(runs, processes)))


def test_processes() -> None:
    assert count_processes("auto") >= 1
    assert count_processes(3) == 3
    for wrong in (0, 1.5, "all", True):
        with pytest.raises(UsageError, match=f"processes={wrong}: expected a whole number from 1 to 1024, or auto"):
            count_processes(wrong)


@pytest.fixture
def trained(run_folder: Path) -> Trained:
    trained = load_run(run_folder)
    trained.data.corpus.prepare()
    return trained


def test_the_output_layers_frames_give_the_stored_log_probabilities(trained: Trained) -> None:
    """The logits of the output layer under a softmax; to half precision, in which log-probabilities are stored."""
    h5py = pytest.importorskip("h5py")
    path = stored_activations(trained, "dev", ["output", "recurrent.0"], CPU, nullcontext)
    stored = stored_log_probs(trained, "dev", CPU, nullcontext)
    with h5py.File(path) as file:
        assert [id_.decode() for id_ in file["ids"]] == [u.id for u in stored.utterances]
        assert file["output/lengths"][:].tolist() == stored.lengths == file["recurrent.0/lengths"][:].tolist()
        log_probs = torch.from_numpy(file["output/frames"][:]).log_softmax(dim=-1)
        assert file["recurrent.0/frames"].shape == (sum(stored.lengths), 8)
    expected = torch.cat([torch.from_numpy(row.astype("float32")) for row in stored.read()])
    torch.testing.assert_close(log_probs, expected, atol=4e-3, rtol=0)


def test_evaluate_keeps_those_of_the_training_set_beside_the_decoding(
    run_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    h5py = pytest.importorskip("h5py")
    words = ["activations.layers=[convolutions.0]", "activations.sets=[train]", "sets=test"]
    evaluate([request(run_folder, *words)])
    (path,) = (run_folder / "activations").glob("train-*.h5")
    assert f"activations  {path}" in capsys.readouterr().out
    written = path.stat().st_mtime_ns
    with h5py.File(path) as file:
        assert len(file["ids"]) == 10
        assert file["convolutions.0/frames"].shape[0] == file["convolutions.0/lengths"][:].sum()
    evaluate([request(run_folder, *words)])
    assert path.stat().st_mtime_ns == written, "what is there is not computed again"


def test_a_part_that_gives_out_no_frames_and_a_wrong_layer_or_set_are_refused(
    run_folder: Path, trained: Trained
) -> None:
    check_layers(trained, ["recurrent"])
    with pytest.raises(UsageError, match=r"activations.layers=recurrent: it has no output for utterance"):
        stored_activations(trained, "test", ["recurrent"], CPU, nullcontext)
    assert not list((trained.folder / "activations").glob("*recurrent*"))
    for words, message in (
        (["activations.layers=[nowhere]"], "activations.layers=nowhere: expected convolutions, .*recurrent.0"),
        (["activations.layers=[output]", "activations.sets=[x]"], "activations.sets=x: expected train, dev, test"),
    ):
        with pytest.raises(UsageError, match=message):
            evaluate([request(run_folder, *words)])

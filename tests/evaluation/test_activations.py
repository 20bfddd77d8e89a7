"""Outputs of hidden layers as HDF5: against the model's own forward pass, utterance by utterance."""

from contextlib import nullcontext
from pathlib import Path

import pytest
import torch

from asr_ablations.evaluation.evaluate import evaluate
from asr_ablations.evaluation.outputs import check_layers, stored_activations, stored_log_probs
from asr_ablations.training.trained_model import Trained, load_run
from asr_verdicts.errors import UsageError
from tests.evaluation.test_evaluate import request
from tests.helpers.trained_runs import write_trained

h5py = pytest.importorskip("h5py")
CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory: pytest.TempPathFactory, tiny_corpus: Path) -> Path:
    return write_trained(tmp_path_factory.mktemp("activations"), tiny_corpus)


@pytest.fixture
def trained(run_folder: Path) -> Trained:
    trained = load_run(run_folder)
    trained.data.corpus.prepare()
    return trained


def test_the_output_layers_frames_give_the_stored_log_probabilities(trained: Trained) -> None:
    """The logits of the output layer under a softmax; to half precision, in which log-probabilities are stored."""
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


def test_a_wrong_layer_or_set_is_refused_before_anything_is_decoded(run_folder: Path) -> None:
    for words, message in (
        (["activations.layers=[nowhere]"], "activations.layers=nowhere: expected convolutions, .*recurrent.0"),
        (["activations.layers=[output]", "activations.sets=[x]"], "activations.sets=x: expected train, dev, test"),
    ):
        with pytest.raises(UsageError, match=message):
            evaluate([request(run_folder, *words)])


def test_a_part_that_gives_out_no_frames_is_named(trained: Trained) -> None:
    check_layers(trained, ["recurrent"])
    with pytest.raises(UsageError, match=r"activations.layers=recurrent: it has no output for utterance"):
        stored_activations(trained, "test", ["recurrent"], CPU, nullcontext)
    assert not list((trained.folder / "activations").glob("*recurrent*"))

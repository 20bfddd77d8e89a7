"""Other corpora, recordings heard under conditions, and log-probabilities and outputs of layers that are kept."""

import json
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
import soundfile
import torch

from asr_ablations.comparison.folders import compare_folders
from asr_ablations.components.condition.telephone import Telephone
from asr_ablations.data.rooms import read_response, reverberate, simulate_response
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
from asr_ablations.evaluation.sets import build_conditions
from asr_ablations.tools.random_streams import generator
from asr_ablations.training.trained_model import Trained, load_run
from asr_verdicts.design import Options
from asr_verdicts.errors import UsageError
from asr_verdicts.table_columns import rate_rows
from tests.evaluation.test_evaluate import evaluated, record_as_a_run, request
from tests.helpers.processes import wait_for
from tests.helpers.small_models import LETTERS, bigrams, decoder
from tests.helpers.support import group_options
from tests.helpers.trained_runs import write_trained

SECONDS = np.arange(16000) / 16000
SPEECH = (6000 * np.sin(2 * np.pi * 300 * SECONDS) * np.sin(2 * np.pi * 2 * SECONDS) ** 2).astype(np.int16)
NEEDS_FOLDER = ("recorded_noise10", "measured_reverb")


@pytest.fixture(scope="module")
def sounds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of noise, which also does as one of impulse responses."""
    folder = tmp_path_factory.mktemp("sounds")
    drawn = np.random.default_rng(0)
    for name in "ab":
        fading = drawn.standard_normal(8000) * 0.2 * np.exp(-np.arange(8000) / 1500)
        soundfile.write(folder / f"{name}.wav", fading, 16000)
    return folder


def chosen(name: str, sounds: Path, *overrides: str) -> Any:
    folder = [f"condition.{name}.folder={sounds}"] if name in NEEDS_FOLDER else []
    (condition,) = build_conditions(request(Path("x"), f"conditions=[{name}]", *folder, *overrides))
    return condition


def heard(condition: Any, id_: str = "a", samples: np.ndarray = SPEECH) -> np.ndarray:
    before = samples.copy()
    result = condition.condition(samples, id_, generator(condition.seed, "condition", id_))
    assert np.array_equal(samples, before), "a cache may hold these samples"
    return result


def test_clean_is_the_plain_recording(sounds: Path) -> None:
    assert chosen("clean", sounds) is None


@pytest.mark.parametrize("name", [name for name in group_options("condition") if name != "clean"])
def test_a_condition_keeps_length_and_type_and_changes_what_is_heard(name: str, sounds: Path) -> None:
    condition = chosen(name, sounds)
    for samples in (SPEECH, SPEECH[:0], SPEECH[4000:4001], np.zeros(300, np.int16)):
        result = heard(condition, samples=samples)
        assert (result.shape, result.dtype) == (samples.shape, np.int16)
    assert not np.array_equal(heard(condition), SPEECH)
    assert np.array_equal(heard(condition), heard(condition))
    if name != "telephone":
        reseeded = chosen(name, sounds, "condition_seed=1")
        assert reseeded.key != condition.key
        assert any(not np.array_equal(heard(condition), heard(condition, id_)) for id_ in "bcdef")
        assert any(not np.array_equal(heard(condition, id_), heard(reseeded, id_)) for id_ in "abcdef")


def test_noise_has_its_ratio_and_falls_with_frequency(sounds: Path) -> None:
    for name, snr in (("noise10", 0), ("noise10", 20), ("recorded_noise10", 20)):
        added = heard(chosen(name, sounds, f"condition.{name}.snr={snr}")).astype(float) - SPEECH
        ratio = 10 * np.log10(np.square(SPEECH.astype(float)).mean() / np.square(added).mean())
        assert ratio == pytest.approx(snr, abs=0.1)
    # by 3 dB per octave and unit of the exponent: the power of 500 to 1000 Hz over that of 2000 to 4000 Hz
    for exponent in (0, 2):
        condition = chosen("noise10", sounds, f"condition.noise10.exponent={exponent}")
        powers = np.zeros(8001)
        for id_ in "abcdefgh":
            powers += np.square(np.abs(np.fft.rfft(heard(condition, id_).astype(float) - SPEECH)))
        ratio = 10 * np.log10(powers[500:1000].mean() / powers[2000:4000].mean())
        assert ratio == pytest.approx(20 * np.log10(2) * exponent, abs=0.5)


def test_a_room_has_its_decay_and_its_direct_sound_and_changes_no_loudness(tmp_path: Path) -> None:
    """Against Schroeder's integral: from 5 to 35 dB below the reverberation's energy in half the time T60."""
    response = simulate_response(0.5, 3.0, np.random.default_rng(0))
    tail = np.square(response[1:])
    assert 10 * np.log10(response[0] ** 2 / tail.sum()) == pytest.approx(3.0)
    left = 10 * np.log10(tail[::-1].cumsum()[::-1] / tail.sum())
    begin, end = (int(np.argmax(left < level)) for level in (-5, -35))
    assert (end - begin) / 16000 == pytest.approx(0.25, rel=0.05)
    response = simulate_response(0.2, 0.0, np.random.default_rng(1))
    expected = np.convolve(SPEECH.astype(float), response)[: len(SPEECH)]
    expected *= np.sqrt(np.square(SPEECH.astype(float)).mean() / np.square(expected).mean())
    assert np.abs(reverberate(SPEECH, response) - expected).max() <= 0.51
    written = np.array([0, 0, 0.01, 0.5, 0.25, -0.125])
    soundfile.write(tmp_path / "room.wav", written, 16000)
    response = read_response(tmp_path / "room.wav")
    np.testing.assert_allclose(response / response[0], [1, 0.5, -0.25], atol=1e-3)


def test_a_telephone_lets_its_band_through_and_rounds_to_its_levels() -> None:
    line = Telephone(low=300, high=3400, levels=256, mu=255)
    gains = {}
    for frequency in (60, 1000, 6000):
        tone = (8000 * np.sin(2 * np.pi * frequency * SECONDS)).astype(np.int16)
        result = line(tone, "a", np.random.default_rng()).astype(float)
        gains[frequency] = 10 * np.log10(np.square(result).mean() / np.square(tone.astype(float)).mean())
    assert gains[1000] == pytest.approx(0, abs=0.3)
    assert max(gains[60], gains[6000]) < -30
    coarse = Telephone(low=300, high=3400, levels=3, mu=255)(SPEECH, "a", np.random.default_rng())
    assert len(np.unique(coarse[::2])) < len(np.unique(line(SPEECH, "a", np.random.default_rng())[::2]))


def test_a_wrong_condition_is_one_line() -> None:
    for overrides, message in (
        (["conditions=[noise10]", "condition.noise10.snr=loud"], "condition.noise10.snr=loud: expected a number"),
        (["conditions=[telephone]", "condition.telephone.low=3400"], "condition.telephone.low=3400"),
        (["conditions=[recorded_noise10]"], "condition.recorded_noise10.folder=None: expected a folder"),
    ):
        with pytest.raises(UsageError, match=message):
            build_conditions(request(Path("x"), *overrides))


def test_every_option_changes_what_is_heard_and_the_key(sounds: Path) -> None:
    for name, changes in {
        "noise10": {"snr": 5, "exponent": 1},
        "recorded_noise10": {"snr": 5},
        "reverb": {"decay": 0.5, "direct_ratio": 3},
        "telephone": {"low": 200, "high": 3000, "levels": 64, "mu": 100},
    }.items():
        written = chosen(name, sounds)
        for key, value in changes.items():
            changed = chosen(name, sounds, f"condition.{name}.{key}={value}")
            assert written.key != changed.key
            assert not np.array_equal(heard(written), heard(changed))


@pytest.mark.parametrize("name", NEEDS_FOLDER)
def test_the_key_is_of_the_source_and_the_content_of_the_folder(
    name: str, sounds: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for file in sounds.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    before = chosen(name, sounds).key
    assert chosen(name, tmp_path).key == before
    soundfile.write(tmp_path / "a.wav", np.ones(900) * 0.1, 16000)
    assert chosen(name, tmp_path).key != before
    monkeypatch.setattr("asr_ablations.evaluation.sets.hash_targets", lambda names: dict.fromkeys(names, "other"))
    assert chosen(name, sounds).key != before


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory, tiny_corpus: Path) -> list[Path]:
    outputs = tmp_path_factory.mktemp("heard")
    return [write_trained(outputs, tiny_corpus, f"rnn={rnn}") for rnn in ("lstm", "gru")]


@pytest.fixture(scope="module")
def manifest(tmp_path_factory: pytest.TempPathFactory, tiny_corpus: Path) -> Path:
    """Three utterances, one of them with a character that the run's alphabet lacks."""
    folder = tmp_path_factory.mktemp("made") / "other"
    folder.mkdir()
    files = sorted((tiny_corpus / "dev").rglob("*.flac"))[:3]
    texts = ["A Cab", "BAD", "bed 7"]
    lines = [
        json.dumps({"audio_filepath": str(file), "text": text, "speaker": f"s{place}"})
        for place, (file, text) in enumerate(zip(files, texts, strict=True))
    ]
    (folder / "talk.jsonl").write_text("\n".join(lines))
    return folder / "talk.jsonl"


def test_sets_in_conditions_are_compared_across_runs(runs: list[Path], tmp_path: Path) -> None:
    for run in runs:
        record_as_a_run(run)
        evaluated(run, "sets=[test]")
        record = evaluated(run, "sets=[test]", "conditions=[noise10]")
        assert record["test_sets"] == [*record["sets"]] == ["test/noise10"]
        assert record["condition"]["noise10"]["snr"] == 10
    comparison = compare_folders([run / "evaluations" for run in runs], Options())
    assert {arm.name for arm in comparison.arms} == {"rnn=lstm", "rnn=gru"}
    assert {row["set"] for row in rate_rows(comparison)} == {"test", "test/noise10"}
    (in_noise,) = [file for file in (runs[1] / "evaluations").glob("*.json") if '"noise10"' in file.read_text()]
    in_noise.unlink()
    evaluated(runs[1], "sets=[test]", "conditions=[noise10]", "condition.noise10.snr=0")
    with pytest.raises(UsageError, match=r"condition.noise10.snr"):
        compare_folders([run / "evaluations" for run in runs], Options())


def test_a_manifest_in_two_conditions(runs: list[Path], manifest: Path, caplog: pytest.LogCaptureFixture) -> None:
    record = evaluated(runs[0], f"corpora=[{manifest}]", "conditions=[clean,telephone]")
    assert [*record["sets"]] == ["other/talk", "other/talk/telephone"] == record["test_sets"]
    assert record["sets"]["other/talk"]["utterances"] == 2
    ((reason, ids),) = record["left_out"]["other/talk"].items()
    assert reason == "characters outside the alphabet"
    assert len(ids) == 1
    assert any(f"1 of 3 utterances of talk are left out, {reason}: {ids[0]}" in line for line in caplog.messages)
    names = [Path(name).name for name in record["log_probs"]]
    assert names[0].startswith("other+talk-")
    assert names[1].startswith("other+talk+telephone-")
    rows = [np.load(runs[0] / "logprobs" / name) for name in names]
    assert rows[0].shape == rows[1].shape
    assert not np.array_equal(*rows)


def test_an_utterance_is_heard_alike_alone_and_among_others(runs: list[Path], manifest: Path) -> None:
    """Each utterance as a manifest of its own, in another order."""
    whole = evaluated(runs[0], f"corpora=[{manifest}]", "conditions=[noise10]")
    lines = manifest.read_text().splitlines()[:2]
    (manifest.parent / "talk2.jsonl").write_text(lines[1])
    alone = evaluated(runs[0], f"corpora=[{manifest.parent}/talk2.jsonl]", "conditions=[noise10]")
    rows = [np.load(runs[0] / "logprobs" / record["log_probs"][0]).astype(float) for record in (whole, alone)]
    np.testing.assert_allclose(rows[0][-len(rows[1]) :], rows[1], atol=5e-3)


def test_a_corpus_by_name_has_its_own_sets(runs: list[Path], tiny_corpus: Path) -> None:
    run = runs[0]
    with pytest.raises(UsageError, match=r"corpora=an4: expected the corpus with its folder, such as an4:<folder>"):
        evaluate([request(run, "corpora=[an4]")])
    with pytest.raises(UsageError, match=r"corpora=nowhere: expected an4, .*or a manifest"):
        evaluate([request(run, "corpora=[nowhere]")])
    with pytest.raises(UsageError, match=r"sets=dev: expected mls/test"):
        evaluate([request(run, "corpora=[mls:/x]", "sets=[dev]")])
    with pytest.raises(UsageError, match="/nowhere"):
        evaluate([request(run, "corpora=[librispeech:/nowhere]")])


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

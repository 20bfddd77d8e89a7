"""Other corpora, and recordings heard under conditions."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

from asr_ablations.comparison.folders import compare_folders
from asr_ablations.components.condition.telephone import Telephone
from asr_ablations.data.rooms import read_response, reverberate, simulate_response
from asr_ablations.evaluation.evaluate import evaluate
from asr_ablations.evaluation.sets import build_conditions
from asr_ablations.tools.random_streams import generator
from asr_verdicts.design import Options
from asr_verdicts.errors import UsageError
from asr_verdicts.table_columns import rate_rows
from tests.evaluation.test_evaluate import evaluated, record_as_a_run, request
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

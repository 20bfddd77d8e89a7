"""src/evaluate.py, src/transcribe.py and src/export.py."""

import io
import json
import re
import shlex
from pathlib import Path

import numpy as np
import pytest
import soundfile
from omegaconf import DictConfig, open_dict

from asr_ablations.evaluation.evaluate import evaluate
from asr_ablations.evaluation.request import check_requests
from asr_ablations.language_models.model import SPACE
from asr_ablations.tools.files import REPOSITORY
from asr_serving.export import export
from asr_serving.requests import check_export, check_transcription
from asr_serving.transcribe import transcribe
from asr_verdicts.errors import UsageError
from tests.commands.test_readme import PYTHON, first_values
from tests.helpers.command import clean_environment
from tests.helpers.interpreter import expect, python
from tests.helpers.small_models import bigrams, recurrent_model
from tests.helpers.support import composed_by_hydra
from tests.helpers.sweep_files import composed
from tests.helpers.trained_runs import write_trained

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory, tiny_corpus):
    return write_trained(tmp_path_factory.mktemp("evaluate"), tiny_corpus)


def test_a_sweep_prints_one_table(run_folder, tmp_path):
    """Baunsgaard2020 table 3: beam width, time, WER, CER."""
    options = ["decoder=beam", "decoder.beam_width=1,3", "untrained=decode", "sets=test", "processes=2"]
    words = ["src/evaluate.py", "-m", f"run={run_folder}", *options]
    done = expect(0, python(words, clean_environment(tmp_path, tmp_path)))
    assert done.stderr == ""
    head, *rows = [line for line in done.stdout.splitlines() if line.startswith(("┃", "│"))]
    assert [name in head for name in ("decoder", "time s", "WER %", "CER %")] == [True] * 4
    assert [row.split()[1:3] for row in rows] == [["beam", "beam_width=1"], ["beam", "beam_width=3"]]
    assert len(list((run_folder / "evaluations").glob("beam-*.json"))) == 2
    assert not (REPOSITORY / "multirun").exists()


@pytest.mark.parametrize("line", [line for line in PYTHON if "evaluate.py" in line])
def test_the_documented_evaluations(line, run_folder, tmp_path, capsys):
    """On a model that was never trained, with a small language model and beam."""
    model = bigrams("commands.arpa", ["a", "cab"])
    (tmp_path / "words.txt").write_text("a\ncab\n")
    soundfile.write(tmp_path / "a.wav", np.random.default_rng(0).standard_normal(16000) * 0.1, 16000)
    (tmp_path / "talk.jsonl").write_text('{"audio_filepath": "a.wav", "text": "a cab", "speaker": "s"}')
    named = {"<run>": run_folder, "lm=<model>": f"lm={model}", "models.words=<model>": f"models.words={model}"}
    named |= {"decoder.words=<model>": f"decoder.words={tmp_path}/words.txt", "<manifest>": tmp_path / "talk.jsonl"}
    named["<recurrent model>"] = recurrent_model("commands", "abcdefghijklmnopqrstuvwxyz' ")
    named["<letters>"] = f"{bigrams('letters.arpa', ['a', 'c', 'b', SPACE])} models.trials=2"
    for name, value in named.items():
        line = line.replace(name, str(value))
    line = re.sub(r"(tune\.trials)=\d+", r"\1=2", re.sub(r"(beam_width)=[\d,]+", r"\1=2", line))
    words = first_values(shlex.split(line)[1:])
    words += ["decoder.beam_width=2"] if re.search("decoder=beam_|language_models", line) else []
    words += ["untrained=decode", "processes=1", "overrides=[]", *([] if "corpora=" in line else ["sets=[test]"])]
    if "-cn language_models" in line:
        kinds = [f"language_model={kind}" for kind in ("none", "words", "letters")]
        cfgs = [composed("language_models", kind, *words) for kind in kinds]
    else:
        cfgs = [composed_by_hydra(tuple(words), "evaluation")]
    for cfg in cfgs:
        with open_dict(cfg):
            cfg.pop("hydra", None)
        cfg.overrides = words
    check_requests(cfgs)
    results = evaluate(cfgs)
    assert len(results) == len(cfgs)
    assert all(rates.wer >= 0 for (one,) in results for rates in one.content["sets"].values())
    assert "WER" in capsys.readouterr().out


def transcription(*words: str) -> DictConfig:
    cfg = composed_by_hydra(words, "transcribe")
    check_transcription(cfg)
    return cfg


@pytest.fixture(scope="module")
def speaker(tiny_corpus: Path) -> Path:
    return tiny_corpus / "train" / "10" / "1"


def texts(speaker: Path) -> list[str]:
    lines = (speaker / "10-1.trans.txt").read_text().splitlines()
    return [line.partition(" ")[2].lower() for line in lines]


def test_one_file_gives_its_text(memorised_run, speaker, tmp_path):
    """The documented command."""
    assert "src/transcribe.py run=<run> audio=<file>" in PYTHON
    words = ["src/transcribe.py", f"run={memorised_run}", f"audio={speaker}/10-1-0000.flac"]
    done = python(words, clean_environment(tmp_path, tmp_path))
    assert (done.returncode, done.stdout, done.stderr) == (0, texts(speaker)[0] + "\n", "")


def test_a_list_with_bad_files_goes_on_and_fails_at_the_end(memorised_run, speaker, tmp_path, monkeypatch, capsys):
    (tmp_path / "empty.wav").touch()
    (tmp_path / "damaged.flac").write_bytes((speaker / "10-1-0001.flac").read_bytes()[:3000])
    good = sorted(speaker.glob("*.flac"))
    asked = [good[0], tmp_path / "empty.wav", tmp_path / "gone.wav", tmp_path / "damaged.flac", *good[1:]]
    monkeypatch.setattr("sys.stdin", io.StringIO("\n".join(map(str, asked))))
    assert transcribe(transcription(f"run={memorised_run}/checkpoints/best.ckpt", "audio=-")) == 3
    out, err = capsys.readouterr()
    found = [line.split("\t") for line in out.splitlines()]
    assert [path for path, _ in found] == [str(path) for path in good]
    *messages, last = [line for line in err.splitlines() if not line.startswith("low confidence throughout")]
    assert last == "3 of 8 files could not be transcribed"
    for name, line in zip(("empty.wav", "gone.wav", "damaged.flac"), messages, strict=True):
        assert line.startswith(f"error: cannot read audio {tmp_path}/{name}: ")


def test_a_folder_into_a_folder(memorised_run, speaker, tmp_path, capsys):
    """As JSON with a beam, and as the subtitles of the documented command."""
    common = [f"run={memorised_run}", f"audio={speaker}"]
    options = ["format=json", f"output={tmp_path}/out/", "decoder=beam", "decoder.beam_width=4", "batch_seconds=2"]
    assert transcribe(transcription(*common, *options)) == 0
    found = [json.loads(file.read_text()) for file in sorted((tmp_path / "out").iterdir())]
    assert [one["text"] for one in found] == texts(speaker)
    for one in found:
        assert " ".join(word["word"] for word in one["words"]) == one["text"]
        assert all(0 <= w["start"] < w["end"] <= one["seconds"] + 0.04 and w["confidence"] > 0.5 for w in one["words"])
    assert "src/transcribe.py run=<run> audio=<folder> format=srt output=subtitles/" in PYTHON
    assert transcribe(transcription(*common, "format=srt", f"output={tmp_path}/subtitles/")) == 0
    assert len(list((tmp_path / "subtitles").glob("*.srt"))) == len(found)
    assert capsys.readouterr().out == ""


def exported(*words: str) -> Path:
    cfg = composed_by_hydra(words, "export")
    check_export(cfg)
    return export(cfg)


def test_an_export_has_its_alphabet_beside_it_and_replaces_its_own_files_alone(
    memorised_run, tmp_path, monkeypatch, capsys
):
    """The graph itself: tests/asr_serving/test_export_parity.py."""
    monkeypatch.setattr("asr_serving.export.write_graph", lambda graph, file, *_: file.write_bytes(b"separation"))
    monkeypatch.setattr("asr_serving.export.largest_difference", lambda *_: 0.01)
    words = [f"run={memorised_run}", f"output={tmp_path}/README.onnx"]
    for ending in (".onnx", ".md", ".json"):
        mine = tmp_path / f"README{ending}"
        mine.write_text("# My notes")
        with pytest.raises(UsageError, match=f"^{re.escape(str(mine))}: not written by an export"):
            exported(*words)
        assert [path.read_text() for path in tmp_path.glob("README*")] == ["# My notes"]
        mine.unlink()
    assert exported(*words, "tolerance=0.02") == tmp_path / "README.onnx"
    assert capsys.readouterr().out == f"{tmp_path}/README.onnx\n"
    told = json.loads((tmp_path / "README.json").read_text())
    assert (told["symbols"][:3], told["blank"], told["sample_rate"]) == (["", "a", "b"], 0, 16000)
    monkeypatch.setattr("asr_serving.export.write_graph", lambda graph, file, *_: file.write_bytes(b"a separation"))
    with pytest.raises(UsageError, match="not written: the exported model's log-probabilities differ from torch's by"):
        exported(*words)
    assert (tmp_path / "README.onnx").read_bytes() == b"separation"
    exported(*words, "tolerance=0.02")
    assert (tmp_path / "README.onnx").read_bytes() == b"a separation", "its own file is replaced"

"""src/evaluate.py, src/transcribe.py and src/export.py."""

import json
import re
import shlex
import subprocess
from pathlib import Path

import numpy as np
import pytest
import soundfile

from asr_ablations.language_models.model import SPACE
from asr_ablations.tools.files import REPOSITORY
from tests.commands.test_readme import PYTHON
from tests.helpers.command import clean_environment
from tests.helpers.interpreter import expect, python
from tests.helpers.small_models import bigrams, recurrent_model
from tests.helpers.trained_runs import write_trained

pytestmark = pytest.mark.slow


def command(*arguments: object, folder: Path) -> subprocess.CompletedProcess[str]:
    return python(arguments, clean_environment(folder, folder))


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory, tiny_corpus):
    return write_trained(tmp_path_factory.mktemp("evaluate"), tiny_corpus)


def test_a_sweep_prints_one_table(run_folder, tmp_path):
    """Baunsgaard2020 table 3: beam width, time, WER, CER."""
    options = ["decoder=beam", "decoder.beam_width=1,3", "untrained=decode", "sets=test", "processes=2"]
    done = expect(0, command("src/evaluate.py", "-m", f"run={run_folder}", *options, folder=tmp_path))
    assert done.stderr == ""
    head, *rows = [line for line in done.stdout.splitlines() if line.startswith(("┃", "│"))]
    assert [name in head for name in ("decoder", "time s", "WER %", "CER %")] == [True] * 4
    assert [row.split()[1:3] for row in rows] == [["beam", "beam_width=1"], ["beam", "beam_width=3"]]
    assert len(list((run_folder / "evaluations").glob("beam-*.json"))) == 2
    assert not (REPOSITORY / "multirun").exists()


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["decoder=beam", "decoder.beam_width=0"], "decoder.beam_width=0: expected a whole number from 1 to 65536"),
        (["decoder=beam_lm", "decoder.lm=nowhere.arpa"], "decoder.lm=nowhere.arpa: there is no such file"),
        (
            ["decoder=beem"],
            "decoder=beem: expected attention_rescored, beam, beam_256, beam_charlm, beam_lm, beam_rescored, greedy",
        ),
        (["run=nowhere"], "nowhere: not a run folder"),
        (["decoder=beam_lm", "decoder.alpha=1,nan", "-m"], "decoder.alpha=nan: expected a number, such as 0.5"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(run_folder, tmp_path, arguments, told):
    model = bigrams("commands.arpa", ["a", "cab"])
    given = [f"decoder.lm={model}"] if "decoder=beam_lm" in arguments else []
    *overrides, last = arguments
    many, overrides = (["-m"], overrides) if last == "-m" else ([], arguments)
    done = expect(2, command("src/evaluate.py", *many, f"run={run_folder}", *given, *overrides, folder=tmp_path))
    assert re.match(f"error: .*{re.escape(told)}", done.stderr), done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert "Traceback" not in done.stderr


def write_manifest(folder: Path) -> Path:
    """A manifest of one recording, which is noise."""
    soundfile.write(folder / "a.wav", np.random.default_rng(0).standard_normal(16000) * 0.1, 16000)
    (folder / "talk.jsonl").write_text('{"audio_filepath": "a.wav", "text": "a cab", "speaker": "s"}')
    return folder / "talk.jsonl"


def test_help_helps(tmp_path):
    for script, key in (("evaluate", "untrained"), ("lm", "sweep=language_models")):
        done = expect(0, command(f"src/{script}.py", "--help", folder=tmp_path))
        assert f"python src/{script}.py" in done.stdout
        assert key in expect(0, command(f"src/{script}.py", "--help", "keys", folder=tmp_path)).stdout


@pytest.mark.parametrize("line", [line for line in PYTHON if "evaluate.py" in line])
def test_the_readmes_commands(line, run_folder, tmp_path):
    """On a model that was never trained, with a small language model and beam."""
    model = bigrams("commands.arpa", ["a", "cab"])
    (tmp_path / "words.txt").write_text("a\ncab\n")
    letters = bigrams("letters.arpa", ["a", "c", "b", SPACE])
    named = {"<run>": run_folder, "lm=<model>": f"lm={model}", "models.words=<model>": f"models.words={model}"}
    named["<manifest>"] = write_manifest(tmp_path)
    named["<recurrent model>"] = recurrent_model("commands", "abcdefghijklmnopqrstuvwxyz' ")
    for name, given in {**named, "<letters>": f"{letters} models.trials=2"}.items():
        line = line.replace(name, str(given))
    words = shlex.split(line.replace("<model>", str(tmp_path)))
    small = [re.sub(r"(tune\.trials)=\d+", r"\1=2", re.sub(r"(beam_width)=[\d,]+", r"\1=1,2", word)) for word in words]
    width = ["decoder.beam_width=2"] if {"decoder=beam_lm", "decoder=beam_rescored"} & {*small} else []
    done = expect(0, command(*small, *width, "untrained=decode", "processes=1", folder=tmp_path))
    assert "Warning" not in done.stderr


COMMANDS = [line for line in PYTHON if line.startswith(("src/transcribe", "src/export")) and "serve=true" not in line]
"""But for the page, which stays until it is ended: tests/asr_serving/test_server.py starts it."""


def transcribe_command(*arguments: object, folder: Path, stdin: str = "") -> subprocess.CompletedProcess[str]:
    return python(arguments, clean_environment(folder, folder), stdin=stdin)


@pytest.fixture(scope="module")
def speaker(tiny_corpus: Path) -> Path:
    return tiny_corpus / "train" / "10" / "1"


def texts(speaker: Path) -> list[str]:
    lines = (speaker / "10-1.trans.txt").read_text().splitlines()
    return [line.partition(" ")[2].lower() for line in lines]


def test_one_file_gives_its_text(memorised_run, speaker, tmp_path):
    done = transcribe_command(
        "src/transcribe.py", f"run={memorised_run}", f"audio={speaker}/10-1-0000.flac", folder=tmp_path
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, texts(speaker)[0] + "\n", "")


def test_a_list_with_bad_files_goes_on_and_fails_at_the_end(memorised_run, speaker, tmp_path):
    (tmp_path / "empty.wav").touch()
    (tmp_path / "damaged.flac").write_bytes((speaker / "10-1-0001.flac").read_bytes()[:3000])
    good = sorted(speaker.glob("*.flac"))
    asked = [good[0], tmp_path / "empty.wav", tmp_path / "gone.wav", tmp_path / "damaged.flac", *good[1:]]
    run = f"run={memorised_run}/checkpoints/best.ckpt"
    done = expect(
        1, transcribe_command("src/transcribe.py", run, "audio=-", folder=tmp_path, stdin="\n".join(map(str, asked)))
    )
    found = [line.split("\t") for line in done.stdout.splitlines()]
    assert [path for path, _ in found] == [str(path) for path in good]
    *messages, last = [line for line in done.stderr.splitlines() if not line.startswith("low confidence throughout")]
    assert last == "3 of 8 files could not be transcribed"
    for name, line in zip(("empty.wav", "gone.wav", "damaged.flac"), messages, strict=True):
        assert line.startswith(f"error: cannot read audio {tmp_path}/{name}: ")


def test_a_folder_into_a_folder(memorised_run, speaker, tmp_path):
    options = ["format=json", f"output={tmp_path}/out/", "decoder=beam", "decoder.beam_width=4", "batch_seconds=2"]
    expect(
        0,
        transcribe_command("src/transcribe.py", f"run={memorised_run}", f"audio={speaker}", *options, folder=tmp_path),
    )
    found = [json.loads(file.read_text()) for file in sorted((tmp_path / "out").iterdir())]
    assert [one["text"] for one in found] == texts(speaker)
    for one in found:
        assert " ".join(word["word"] for word in one["words"]) == one["text"]
        assert all(0 <= w["start"] < w["end"] <= one["seconds"] + 0.04 and w["confidence"] > 0.5 for w in one["words"])


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["audio=a.wav", "format=doc"], "format=doc: expected text, json, srt"),
        ([], "audio is not set: expected a file, a folder"),
        (["audio=a.wav", "longest=0"], "longest=0: expected a number above 0"),
        (["serve=true", "port=99999"], "port=99999: expected a whole number from 0 to 65535"),
        (["audio=a.wav", "decoder=beem"], "decoder=beem: expected attention_rescored, beam"),
    ],
)
def test_transcribe_a_mistake_is_one_line_and_exit_code_2(memorised_run, tmp_path, arguments, told):
    done = expect(2, transcribe_command("src/transcribe.py", f"run={memorised_run}", *arguments, folder=tmp_path))
    assert done.stderr.startswith(f"error: {told}")
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["run=nowhere"], "nowhere: not a run folder"),
        (["opset=3"], "opset=3: expected a whole number from 18 to 25, or null"),
        (["output=model.pt"], "output=model.pt: expected a file that ends in .onnx"),
        (["samples=mp3"], "samples=mp3: expected float, int16"),
        (["tolerance=0"], "tolerance=0: expected a number above 0"),
        (["tolerance=1e-12"], "not written: the exported model's log-probabilities differ"),
    ],
)
def test_a_mistaken_export_is_one_line_and_leaves_nothing(memorised_run, tmp_path, arguments, told):
    given = [f"run={memorised_run}", f"output={tmp_path}/model.onnx"]
    done = expect(2, transcribe_command("src/export.py", *given, *arguments, folder=tmp_path))
    assert told in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert list(tmp_path.glob("*model*")) == []


def test_an_export_has_its_alphabet_beside_it(memorised_run, tmp_path):
    done = expect(
        0, transcribe_command("src/export.py", f"run={memorised_run}", f"output={tmp_path}/model.onnx", folder=tmp_path)
    )
    assert done.stdout == f"{tmp_path}/model.onnx\n"
    assert "Warning" not in done.stderr
    told = json.loads((tmp_path / "model.json").read_text())
    assert (told["symbols"][:3], told["blank"], told["sample_rate"]) == (["", "a", "b"], 0, 16000)


@pytest.mark.parametrize("ending", [".onnx", ".md", ".json"])
def test_an_export_replaces_its_own_files_alone(memorised_run, tmp_path, ending):
    words = ["src/export.py", f"run={memorised_run}", f"output={tmp_path}/README.onnx"]
    mine = tmp_path / f"README{ending}"
    mine.write_text("# My notes")
    done = expect(2, transcribe_command(*words, folder=tmp_path))
    assert done.stderr.startswith(f"error: {mine}: not written by an export")
    assert [path.read_text() for path in tmp_path.glob("README*")] == ["# My notes"]
    mine.unlink()
    for _ in range(2):
        expect(0, transcribe_command(*words, folder=tmp_path))


def test_transcribe_help_helps(tmp_path):
    for script, key in (("transcribe", "subtitles"), ("export", "log_probs")):
        done = expect(0, transcribe_command(f"src/{script}.py", "--help", folder=tmp_path))
        assert f"python src/{script}.py" in done.stdout
        assert key in done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("line", COMMANDS)
def test_transcribe_the_readmes_commands(line, memorised_run, speaker, tmp_path):
    for mark, path in (("<run>", memorised_run), ("<file>", speaker / "10-1-0000.flac"), ("<folder>", speaker)):
        line = line.replace(mark, str(path))
    words = shlex.split(line.replace("output=", f"output={tmp_path}/"))
    own = [f"output={tmp_path}/model.onnx"] if "export" in words[0] else []
    done = expect(0, transcribe_command(*words, *own, folder=tmp_path))
    assert "Warning" not in done.stderr

"""python src/evaluate.py and src/lm.py: what they print, write and refuse."""

import re
import shlex
import subprocess
from pathlib import Path

import pytest

from asr_ablations.language_models.model import SPACE
from tests.commands.test_readme import PYTHON
from tests.helpers.command import REPOSITORY, clean_environment
from tests.helpers.interpreter import python
from tests.helpers.small_models import bigrams
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
    done = command("src/evaluate.py", "-m", f"run={run_folder}", *options, folder=tmp_path)
    assert done.returncode == 0, done.stderr
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
        (["decoder=beem"], "decoder=beem: expected beam, beam_256, beam_charlm, beam_lm, greedy, lexicon"),
        (["run=nowhere"], "nowhere: no run's folder"),
        (["decoder=beam_lm", "decoder.alpha=1,nan", "-m"], "decoder.alpha=nan: expected a finite number"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(run_folder, tmp_path, arguments, told):
    model = bigrams("commands.arpa", ["a", "cab"])
    given = [f"decoder.lm={model}"] if "decoder=beam_lm" in arguments else []
    *overrides, last = arguments
    many, overrides = (["-m"], overrides) if last == "-m" else ([], arguments)
    done = command("src/evaluate.py", *many, f"run={run_folder}", *given, *overrides, folder=tmp_path)
    assert done.returncode == 2
    assert re.match(f"error: .*{re.escape(told)}", done.stderr), done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert "Traceback" not in done.stderr


def test_help_helps(tmp_path):
    for script, key in (("evaluate", "untrained"), ("lm", "ngram")):
        done = command(f"src/{script}.py", "--help", folder=tmp_path)
        assert done.returncode == 0, done.stderr
        assert f"python src/{script}.py" in done.stdout
        assert key in done.stdout


@pytest.mark.parametrize("line", [line for line in PYTHON if "evaluate.py" in line])
def test_the_readmes_commands(line, run_folder, tmp_path):
    """On a model that was never trained, with a small language model and beam."""
    model = bigrams("commands.arpa", ["a", "cab"])
    (tmp_path / "words.txt").write_text("a\ncab\n")
    letters = bigrams("letters.arpa", ["a", "c", "b", SPACE])
    named = {"<run>": run_folder, "lm=<model>": f"lm={model}", "models.words=<model>": f"models.words={model}"}
    for name, given in {**named, "<letters>": f"{letters} models.trials=2"}.items():
        line = line.replace(name, str(given))
    words = shlex.split(line.replace("<model>", str(tmp_path)))
    small = [re.sub(r"(tune\.trials)=\d+", r"\1=2", re.sub(r"(beam_width)=[\d,]+", r"\1=1,2", word)) for word in words]
    width = ["decoder.beam_width=2"] if "decoder=beam_lm" in small else []
    done = command(*small, *width, "untrained=decode", "processes=1", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "Warning" not in done.stderr

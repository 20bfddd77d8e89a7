"""python src/prepare.py: corpora made, fetched and checked, and what it says of those that are wrong."""

import json
import re
import shlex

import pytest
import soundfile

from asr_ablations.commands.prepare_corpus import prepare
from asr_verdicts.errors import UsageError
from tests.commands.test_readme import PYTHON
from tests.helpers.command import SHORT_SPEECH, SMALL_MODEL, run, run_folders
from tests.helpers.interpreter import expect
from tests.helpers.layouts import lay_out
from tests.helpers.support import component, compose


def rows(text: str) -> dict[str, list[str]]:
    """The table's rows by their first cell."""
    cells = [[cell.strip() for cell in line.split("│")[1:-1]] for line in text.splitlines() if "│" in line]
    return {row[0]: row[1:] for row in cells}


def test_the_built_in_corpus_is_generated(corpora, tmp_path):
    done = expect(0, run(["src/prepare.py", *SHORT_SPEECH], corpora, tmp_path))
    assert list(rows(done.stdout)) == ["train", "dev-clean", "test-clean", "test-other"]
    assert re.search(r"fingerprint [0-9a-f]{16}", done.stdout)


def test_all_that_is_wrong_is_listed_and_what_is_skipped_stands_in_the_runs_record(corpora, tmp_path):
    sets = ["data=librispeech", "data.train=train", "data.validation=dev", "data.test=test"]
    sets.append(f"data.root={tmp_path / 'root'}")
    bad = {
        "1-2-0001": "missing file",
        "1-2-0002": "empty transcript",
        "1-2-0003": "characters outside the alphabet",
        "1-2-0004": "silent audio",
    }
    for split in ("train", "dev", "test"):
        chapter = tmp_path / "root" / split / "1" / "2"
        chapter.mkdir(parents=True)
        lines = ["1-2-0000 GOOD"]
        soundfile.write(chapter / "1-2-0000.flac", [0.1, -0.1] * 8000, 16000)
        if split == "train":
            lines += ["1-2-0001 MISSING", "1-2-0002", "1-2-0003 ÑANDÚ", "1-2-0004 SILENT"]
            for number, sample in ((2, 0.1), (3, 0.1), (4, 0.0)):
                soundfile.write(chapter / f"1-2-000{number}.flac", [sample, -sample] * 8000, 16000)
        (chapter / "1-2.trans.txt").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    done = expect(2, run(["src/prepare.py", *sets], corpora, tmp_path))
    *listed, last = done.stderr.splitlines()
    causes, examples = listed[::2], listed[1::2]
    assert [line.split(": ")[:2] for line in examples] == [[f"  {id_}", reason] for id_, reason in bad.items()]
    others = [f"1 of 5 utterances of train: {reason}" for reason in bad.values()]
    others[2] = "1 of 5 utterances of train contain 'ñ' 'ú': alphabet=derived learns them"
    assert causes == others
    assert last.startswith("error: 4 utterances cannot be used")

    overrides = [*sets, "data.on_bad=skip"]
    done = expect(0, run(["src/prepare.py", *overrides], corpora, tmp_path))
    assert rows(done.stdout)["train"][0] == "1"
    assert rows(done.stdout)["train"][-1] == "4"
    assert all(id_ in done.stderr for id_ in bad)
    (told,) = re.findall(r"fingerprint ([0-9a-f]{16})", done.stdout)
    expect(
        0,
        run(["src/train.py", *overrides, "model=tiny", *SMALL_MODEL, "max_epochs=1", "logger=csv"], corpora, tmp_path),
    )
    (folder,) = run_folders(tmp_path)
    record = json.loads((folder / "data.json").read_text())
    assert record["fingerprint"] == told
    assert record["sets"]["train"]["left_out"] == {
        reason: [id_] for id_, reason in sorted(bad.items(), key=lambda x: x[1])
    }
    assert json.loads((folder / "summary.json").read_text())["left_out"] == list(bad)


@pytest.mark.parametrize(
    ("overrides", "told"),
    [
        (["data=librispeech"], ["data.root is not set", "src/prepare.py data=librispeech data.root=FOLDER"]),
        (["data=an4", "data.root=/nowhere"], ["/nowhere", "no folder train"]),
        (["data=manifest"], ["train.jsonl is missing: expected a file of JSON lines"]),
        (["data.language=xx"], ["data.language=xx", "en, pl", "alphabet=derived"]),
        (["alphabet.separation=a"], ["alphabet.separation=a", "one character"]),
    ],
    ids=lambda value: " ".join(value),
)
def test_a_mistake_is_told_in_one_line(overrides, told, corpora, tmp_path, monkeypatch):
    monkeypatch.setenv("ASR_ABLATIONS_DATA", str(corpora))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError) as error:
        prepare(compose(*SHORT_SPEECH if "data=" not in overrides[0] else [], *overrides, "logger=csv", "gpus=0"))
    assert "\n" not in str(error.value)
    assert all(part in str(error.value) for part in told), error.value


def test_the_documented_line_prepares_a_corpus_of_ones_own(tiny_corpus, corpora, tmp_path):
    """As the pages give it, on the tones in that layout; 10, 6 and 2 utterances in three sets."""
    (line,) = [line for line in PYTHON if line.startswith("src/prepare.py") and "data=kaldi" in line]
    lay_out(component("data", "kaldi", root=str(tmp_path / "kaldi")), tiny_corpus)
    words = [word for word in shlex.split(line) if not word.startswith("data.root=")]
    done = expect(0, run([*words, f"data.root={tmp_path / 'kaldi'}"], corpora, tmp_path / "outputs"))
    assert [row[0] for row in rows(done.stdout).values() if row[0].isdigit()] == ["10", "6", "2"]

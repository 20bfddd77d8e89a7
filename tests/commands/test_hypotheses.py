"""src/compare.py on hypotheses of any toolkit."""

import json
import re
import shlex
import sys
import unicodedata

import pytest
import soundfile

from asr_ablations.commands import compare
from asr_ablations.tools.files import REPOSITORY
from asr_verdicts.cli import main
from tests.helpers import hypotheses as toolkits

RATES = {"base": 0.15, "mine": 0.06}


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def trn(tmp_path):
    spoken = toolkits.write_seeds(tmp_path / "exp", "hyp.trn", toolkits.trn, RATES, 3)
    (tmp_path / "ref.trn").write_text(toolkits.trn(spoken))
    return ["--references", "ref.trn", "base=exp/base/seed*/hyp.trn", "mine=exp/mine/seed*/hyp.trn"]


def test_compare_is_the_same_program(trn, tmp_path, capsys):
    assert compare.main([*trn, "--no-page", "--out", "suite", "--full"]) == 0
    suite = capsys.readouterr().out
    assert main(["compare", *trn, "--out", "wheel", "--full"]) == 0
    assert suite.partition("\nwrote")[0] == capsys.readouterr().out.partition("\nwrote")[0]
    assert (tmp_path / "suite/comparison.json").read_bytes() == (tmp_path / "wheel/comparison.json").read_bytes()


def test_the_unicode_form_of_a_text_changes_nothing(tmp_path, monkeypatch, capsys):
    """Neither that of the hypotheses, of the references, of ids and of speakers."""
    words = {f"ż{number}": f"zażółć gęślą IŞIK d’été numer{number}" for number in range(8)}
    written = []
    for form in ("NFC", "NFD"):
        folder = tmp_path / form
        folder.mkdir()
        heard = {id_: text.replace("gęślą", "x" * (number % 2)) for number, (id_, text) in enumerate(words.items())}
        (folder / "ref").write_text(toolkits.kaldi(words))
        (folder / "mine").write_text(unicodedata.normalize(form, toolkits.kaldi(heard)).replace("numer", "num\u200ber"))
        (folder / "base").write_text(toolkits.kaldi(dict.fromkeys(words, "ışık <unk>")))
        speakers = "".join(f"{id_} ó{number % 4}\n" for number, id_ in enumerate(words))
        (folder / "utt2spk").write_text(unicodedata.normalize(form, speakers))
        scored = ["--normalise", "case", "--language", "tr", "--drop", "<unk>", "--utt2spk", "utt2spk", "--no-page"]
        monkeypatch.chdir(folder)
        assert compare.main(["--references", "ref", "base=base", "mine=mine", *scored, "--out", "o"]) == 0
        written.append((folder / "o" / "comparison.json").read_bytes())
        assert "(--normalise case --language tr --drop <unk>)" in " ".join(capsys.readouterr().out.split())
    assert written[0] == written[1]
    rates = {row["arm"]: row["wer"] for row in json.loads(written[0])["rows"]}
    assert rates == {"base": 0.8, "mine": 0.2}


def test_the_page_has_aligned_utterances_with_audio(tmp_path):
    """Of a manifest that names the recordings."""
    spoken = dict(list(toolkits.references(4).items())[:12])
    (tmp_path / "wav").mkdir()
    for id_ in spoken:
        soundfile.write(tmp_path / "wav" / f"{id_}.wav", [0.1, -0.1] * 800, 16000)
    for arm, rate in RATES.items():
        lines = [
            {"audio_filepath": f"wav/{id_}.wav", "text": spoken[id_], "pred_text": text, "speaker": id_[:3]}
            for id_, text in toolkits.recognised(spoken, 2 * rate, 0).items()
        ]
        (tmp_path / f"{arm}.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    assert compare.main(["base=base.jsonl", "mine=mine.jsonl", "--out", "out"]) == 0
    page = (tmp_path / "out" / "index.html").read_text()
    assert "data:audio/mpeg;base64," in page
    assert list((tmp_path / "out").rglob("differences.svg"))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--references", "ref.trn"], "--references: no system is given"),
        (["base=exp/base/seed0/hyp.trn", "outputs"], "outputs: expected NAME=FILE, like the other systems"),
        (["base=exp/base/seed0/hyp.trn"], "(trn): it has no references; expected --references FILE"),
        (["base=exp/base/seed0/hyp.trn", "base=exp/base/seed0/hyp.trn"], "the same file is listed twice for base"),
        (["base=x:exp/base/seed0/hyp.trn", "--references", "ref.trn"], "--references: no system has the set test"),
        (
            ["base=exp/base/seed0/hyp.trn", "--references", "ref.trn", "--margin", "big"],
            "ablation.margin=big: expected",
        ),
        (
            ["base=exp/base/seed0/hyp.trn", "--references", "ref.trn", "--allow", "rnn"],
            "--allow is for runs; systems have only hypotheses",
        ),
        (
            ["base=exp/base/seed0/hyp.trn", "--references", "ref.trn", "--columns", "x=y"],
            "--columns=x=y: expected WHAT=NAME",
        ),
        (["outputs", "--normalise", "case"], "--normalise: only for hypotheses"),
    ],
)
def test_mistakes_are_one_line_and_exit_code_2(arguments, message, trn, tmp_path, capsys):
    assert compare.main(arguments) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert message in line
    assert not (tmp_path / "outputs").exists()


def test_every_line_of_the_page_runs(tmp_path, monkeypatch, capsys):
    """On the files that the page names, of each toolkit in its own format; without figures, which take seconds."""
    monkeypatch.setitem(sys.modules, "asr_verdicts.report.figures", None)
    monkeypatch.delattr("asr_verdicts.report.figures", raising=False)
    spoken = toolkits.write_seeds(tmp_path, "hyp.trn", toolkits.trn, RATES, 3)
    files = {
        "ref.trn": toolkits.trn(spoken),
        "utt2spk": "".join(f"{id_} {id_[:3]}\n" for id_ in spoken),
        "espnet/ref.trn": toolkits.espnet(spoken),
        "kaldi/text": toolkits.kaldi(spoken),
        "lines/ref.txt": "".join(f"{text}\n" for text in spoken.values()),
        "timed/ref.stm": "".join(
            f"talk 1 {id_[:3]} {5 * number}.0 {5 * number + 5}.0 {text}\n"
            for number, (id_, text) in enumerate(spoken.items())
        ),
        "clean.ref": toolkits.kaldi(spoken),
        "other.ref": toolkits.kaldi(spoken),
    }
    for arm, rate in RATES.items():
        texts = toolkits.recognised(spoken, rate, 0)
        files |= {
            f"nemo/{arm}.jsonl": toolkits.nemo(texts, spoken),
            f"espnet/{arm}.trn": toolkits.espnet(texts),
            f"icefall/{arm}.txt": toolkits.icefall(texts, spoken),
            f"speechbrain/{arm}.txt": toolkits.speechbrain(texts, spoken),
            f"kaldi/{arm}.txt": toolkits.kaldi(texts),
            f"tables/{arm}.csv": toolkits.table(texts, spoken),
            f"own/{arm}.csv": "name,said\n" + "".join(f"{id_},{text}\n" for id_, text in texts.items()),
            f"lines/{arm}.txt": "".join(f"{text}\n" for text in texts.values()),
            f"timed/{arm}.ctm": "".join(
                f"talk 1 {5 * number + 0.3 * place + 0.1:.2f} 0.20 {word}\n"
                for number, text in enumerate(texts.values())
                for place, word in enumerate(text.split())
            ),
            f"{arm}.clean": toolkits.kaldi(texts),
            f"{arm}.other": toolkits.kaldi(toolkits.recognised(spoken, 2 * rate, 1)),
        }
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content)
    blocks = re.findall(
        r"```bash\n(.*?)```", (REPOSITORY / "docs" / "verdicts.md").read_text(encoding="utf-8"), flags=re.DOTALL
    )
    lines = [line.split(" # ")[0].strip() for block in blocks for line in block.splitlines()]
    commands = [line.removeprefix("asr-verdicts ") for line in lines if line.startswith("asr-verdicts ")]
    assert len(commands) > 10
    for number, line in enumerate(commands):
        assert main([*shlex.split(line), "--out", f"out-{number}"]) == 0, line
        assert "mine is better than base on test" in " ".join(capsys.readouterr().out.split()), line
        rows = json.loads((tmp_path / f"out-{number}" / "comparison.json").read_text())["rows"]
        if "seed*" not in line:
            assert f"{100 * rows[0]['wer']:.2f}" == "22.36", f"{line}: the baseline's first seed, in every format"

"""python src/lm.py: its inputs, its outputs, what it refuses; KenLM's numbers."""

import gzip
import json
import unicodedata
from pathlib import Path
from typing import Any

import kenlm
import pytest
from omegaconf import DictConfig, OmegaConf

from asr_ablations.commands.make_lm import _fit, make
from asr_ablations.components.decoder.beam_lm import Fusion
from asr_ablations.config.build import build
from asr_ablations.data.alphabet import Letters
from asr_ablations.language_models.model import NATS, fit, install, load, load_words, read_words
from asr_ablations.language_models.ngram import find_program
from asr_ablations.language_models.text import collect
from asr_verdicts.errors import UsageError
from asr_verdicts.files import Json
from tests.helpers.archive_server import serving, sha256
from tests.helpers.small_models import LETTERS, bigrams, decoder
from tests.helpers.support import compose, composed_by_hydra, shared_data, standing_corpus, tiny_overrides

ENGLISH = Letters("abcdefghijklmnopqrstuvwxyz '")


def request(outputs: Path, root: Path | None, *overrides: str) -> DictConfig:
    data = tiny_overrides(root) if root else ["data=librispeech"]
    requested = [*data, f"outputs={outputs}", *overrides]
    cfg = composed_by_hydra(tuple(requested), "language_model")
    cfg.overrides = requested
    return cfg


def make_model(outputs: Path, root: Path | None, *overrides: str) -> tuple[Path, dict[str, Any]]:
    folder = make(request(outputs, root, *overrides))
    return folder, json.loads((folder / "lm.json").read_text())


def test_training_transcripts_make_a_model(tiny_corpus: Path, tmp_path: Path) -> None:
    folder, record = make_model(tmp_path, tiny_corpus, "lm.program=null")
    assert (record["unit"], record["order"], record["estimator"]) == ("word", 3, "python")
    (source,) = record["sources"]
    assert (source["source"], source["sentences"], source["held_out"]) == ("train", 10, False)
    assert record["fit"].keys() == {"dev"}
    words = (folder / "words.txt").read_text().split()
    assert words == sorted(load(str(folder)).words)
    assert record["vocabulary"] == len(words)
    assert decoder("beam_lm", ENGLISH, lm=str(folder)).model.file.parent == folder
    assert decoder("lexicon", ENGLISH, words=str(folder)).files == {"words": folder / "words.txt"}


def test_lmplz_makes_the_same_model_and_a_binary(tiny_corpus: Path, tmp_path: Path) -> None:
    if find_program("lmplz") is None or find_program("build_binary") is None:
        pytest.skip("no lmplz on the PATH (make lmplz builds it)")
    ours, _ = make_model(tmp_path / "a", tiny_corpus, "lm.program=null")
    theirs, record = make_model(tmp_path / "b", tiny_corpus)
    assert (record["estimator"], record["binary"]) == ("lmplz", True)
    models = [kenlm.Model(str(file)) for file in (ours / "lm.arpa", theirs / "lm.arpa", theirs / "lm.binary")]
    for sentence in ("a cab", "dad had a cab", "never heard", ""):
        scores = [model.score(sentence) for model in models]
        assert scores == pytest.approx([scores[0]] * 3, abs=1e-4)
    assert load(str(theirs)).file.name == "lm.binary"
    assert load(str(theirs)).words == load(str(theirs / "lm.arpa")).words
    cut = tmp_path / "cut.binary"
    cut.write_bytes((theirs / "lm.binary").read_bytes()[:-20])
    with pytest.raises(UsageError, match="damaged"):
        load(str(cut))
    cut.write_bytes((theirs / "lm.binary").read_bytes()[:300])
    with pytest.raises(UsageError, match="KenLM cannot read it"):
        load(str(cut))


def test_held_out_text_enters_only_on_request_with_a_warning(
    tiny_corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, record = make_model(tmp_path, tiny_corpus, "lm.include=[dev]", "lm.program=null")
    assert [(source["source"], source["held_out"]) for source in record["sources"]] == [("train", False), ("dev", True)]
    assert "HELD-OUT TEXT" in capsys.readouterr().out
    make_model(tmp_path, tiny_corpus, "lm.program=null")
    assert "HELD-OUT" not in capsys.readouterr().out
    with pytest.raises(UsageError, match=r"lm\.include=train: expected dev, test"):
        make(request(tmp_path, tiny_corpus, "lm.include=[train]"))


def test_a_text_file_and_a_text_of_other_letters(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "text.txt.gz"
    file.write_bytes(gzip.compress(b"A Cab\n\ndad   had a cab\nHe had 3 cabs\n"))
    folder, record = make_model(tmp_path, None, f"lm.text={file}", "lm.program=null")
    assert record["sources"][0]["sentences"] == 2
    assert record["fit"] == {}  # no corpus at hand
    assert (folder / "words.txt").read_text().split() == ["a", "cab", "dad", "had"]
    assert "1 of 3 lines have letters outside the alphabet" in capsys.readouterr().out
    (tmp_path / "greek.txt").write_text("αβ γδ\nab\nαβ\n", encoding="utf-8")
    with pytest.raises(UsageError, match=r"2 of its 3 lines have characters outside .*α β γ δ"):
        make(request(tmp_path, None, f"lm.text={tmp_path / 'greek.txt'}"))


def test_a_model_of_characters(tiny_corpus: Path, tmp_path: Path) -> None:
    folder, record = make_model(tmp_path, tiny_corpus, "lm.unit=character", "lm.order=4", "lm.program=null")
    assert set(load(str(folder)).words) == set("abcdefhd|")
    assert record["fit"]["dev"]["oov_rate"] == 0
    assert decoder("beam_charlm", ENGLISH, lm=str(folder)).model.ngrams.order == 4


def test_what_is_refused(tiny_corpus: Path, tmp_path: Path) -> None:
    for override, message in (
        ("lm.order=1", "lm.order=1: expected a whole number from 2 to 6"),
        ("lm.unit=phone", "lm.unit=phone: expected word, character"), ("lm.prune=[1]", "lm.prune="),
        ("lm.text=nowhere.txt", "lm.text=nowhere.txt: cannot be read"), ("lm=arpa", "lm.file is not set"),
        ("lm=librispeech lm.name=5-gram", "lm.name=5-gram: expected 3-gram"),
    ):  # fmt: skip
        with pytest.raises(UsageError, match=message) as error:
            make(request(tmp_path, tiny_corpus, *override.split()))
        assert "\n" not in str(error.value)
    for name, content, message in (
        ("bad.arpa.gz", b"not packed", "damaged: Not a gzipped file"),
        ("bad.arpa.gz", gzip.compress(b"\\data\\\n" * 999, mtime=0)[:-9], "damaged: "),
        ("bad.arpa", b"\\data\\\nngram 1=1\n\n\\1-grams:\na\n\n\\end\\\n", "not an n-gram: 'a'"),
    ):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(UsageError, match=message):
            install(tmp_path / name, tmp_path, "en")


def test_upper_case_becomes_lower(tmp_path: Path) -> None:
    upper = bigrams("make-upper.arpa", ["CAB", "DAD"])
    folder, record = make_model(tmp_path, None, "lm=arpa", f"lm.file={upper}")
    model = load_words(str(folder), ENGLISH)
    assert model.words == ["cab", "dad"]
    assert kenlm.Model(str(upper)).score("CAB DAD") == pytest.approx(model.ngrams.score("cab dad"))
    assert record["vocabulary"] == 2
    both = bigrams("make-both.arpa", ["CAB", "cab"])
    with pytest.raises(UsageError, match="are the same word in lower case"):
        make(request(tmp_path, None, "lm=arpa", f"lm.file={both}"))


def test_texts_lists_and_models_in_other_unicode_forms_get_that_of_transcripts(tmp_path: Path) -> None:
    model = bigrams("make-forms.arpa", [unicodedata.normalize("NFD", word) for word in ("IŞIK", "İZ", "d’été")])
    install(model, tmp_path, "tr")
    assert (tmp_path / "words.txt").read_text(encoding="utf-8").split() == ["d'été", "iz", "ışık"]
    file, polish = tmp_path / "text", Letters(" 'aćlźż")
    file.write_text("\ufeff" + unicodedata.normalize("NFD", "ŻA’\u00ad ĆLA\n"), encoding="utf-8")
    assert collect(standing_corpus(), polish, str(file), [])[0] == [["ża'", "ćla"]]
    file.write_text(unicodedata.normalize("NFD", "ża ćla\n"), encoding="utf-8")
    assert read_words(str(file), polish)[1] == ["ża", "ćla"]
    file.write_bytes("a\nża\n".encode("cp1250"))
    for read in (lambda: collect(standing_corpus(), polish, str(file), []), lambda: read_words(str(file), polish)):
        with pytest.raises(UsageError, match="text:2: byte 1 is not UTF-8; its encoding is not known"):
            read()


def test_a_model_is_downloaded_verified_and_recorded_with_its_checksum(tmp_path: Path) -> None:
    """A broken download is continued by the next run."""

    def download(address: str, expected: Json, outputs: Path) -> Path:
        cfg = request(outputs, None, "lm=librispeech", f"lm.address={address}")
        OmegaConf.update(cfg, "lm.files", {"small": expected}, force_add=True)
        cfg.lm.name = "small"
        return make(cfg)

    with serving() as server:
        content = gzip.compress(bigrams("make-served.arpa", ["CAB", "DAD"]).read_bytes())
        server.files["small.arpa.gz"], server.breaks = content, [40]
        expected: Json = {"bytes": len(content), "sha256": sha256(content)}
        with pytest.raises(UsageError, match=r"the connection ended after 40 of .*the same command continues"):
            download(server.address, expected, tmp_path / "a")
        server.requests.clear()
        folder = download(server.address, expected, tmp_path / "a")
        assert [requested for _, requested in server.requests] == ["bytes=40-"]
        assert load_words(str(folder), ENGLISH).words == ["cab", "dad"]
        source = {"source": f"{server.address}/small.arpa.gz", "sha256": expected["sha256"]}
        assert json.loads((folder / "lm.json").read_text())["sources"] == [source]
        assert not list((tmp_path / "a").rglob("*.gz"))
        for key, value, message in (
            ("bytes", 7, r"bytes \d+, expected 7;"), ("sha256", "0" * 64, "checksum [0-9a-f]{64}, expected 0{64};"),
        ):  # fmt: skip
            with pytest.raises(UsageError, match=rf"small\.arpa\.gz: {message} .*another lm\.address"):
                download(server.address, {**expected, "sha256": None, key: value}, tmp_path / key)
            assert not [path for path in (tmp_path / key).rglob("*") if path.name == "lm.arpa" or ".gz" in path.name]
        del server.files["small.arpa.gz"]
        for address, message in ((server.address, ".*404"), ("nowhere", "unknown url type")):
            with pytest.raises(UsageError, match=rf"cannot download {address}/small\.arpa\.gz: {message}"):
                download(address, expected, tmp_path / "b")


def test_perplexity_and_scores_are_kenlms_and_torchaudios() -> None:
    """query on KenLM's lm/test.arpa: the sum of the scores over words and sentence ends, base 10."""
    file = shared_data("golden/lm/test.arpa")
    model = kenlm.Model(str(file))
    sentences = ["looking on a little", "also would consider higher looking on a little", "unheard of"]
    measured = fit(model, [sentence.split() for sentence in sentences], "word")
    total = sum(model.score(sentence) for sentence in sentences)
    assert measured["perplexity"] == pytest.approx(10 ** (-total / (4 + 8 + 2 + 3)), rel=1e-4)
    assert measured["oov_rate"] == pytest.approx(2 / 14)
    assert measured["words"] == 14
    assert model.perplexity(sentences[0]) == pytest.approx(fit(model, [sentences[0].split()], "word")["perplexity"])
    # "the cat sat on the mat" with sentence ends scores -19.5123 (torchaudio's test of the same file)
    model = load_words(str(shared_data("golden/lm/librispeech_3gram_pruned_tiny.arpa")), ENGLISH)
    assert model.ngrams.score("the cat sat on the mat") == pytest.approx(-19.5123, abs=1e-3)
    assert len(model.words) == 200_000
    assert model.begins("manchest")
    assert "manchester" in model.ngrams
    assert not model.begins("manchestx")


def test_a_model_without_unknown_words_is_told(
    tiny_corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arpa = "\\data\\\nngram 1=4\nngram 2=1\n\n\\1-grams:\n-1\t<s>\t0\n-1\t</s>\n-1\ta\t0\n-1\tcab\t0\n"
    (tmp_path / "words.txt").write_text("a\ncab\n")
    corpus = build(compose(*tiny_overrides(tiny_corpus)).data)
    for start, told in ((arpa, True), (arpa.replace("=4", "=5") + "-2\t<unk>\t0\n", False)):
        (tmp_path / "lm.arpa").write_text(start + "\n\\2-grams:\n-1\ta cab\n\n\\end\\\n")
        _fit(corpus, tmp_path, "word")
        assert ("the model has no <unk>" in capsys.readouterr().out) == told


def test_scores_in_the_search_are_kenlms_own() -> None:
    """Word by word as the decoder scores, at α = 1 and β = 0, against score(); an unknown word costs `unknown` more."""
    search = decoder("beam_lm", LETTERS, lm=str(bigrams("fusion.arpa", ["a", "b"])), alpha=1.0, beta=0.0, unknown=-3.0)
    for name in ("test.arpa", "test_nounk.arpa"):
        file = shared_data(f"golden/lm/{name}")
        search.model, kenlms = load(str(file)), kenlm.Model(str(file))
        fusion = Fusion(search)
        for sentence in ("also would consider higher looking on a little", "unheard"):
            state, total, words = fusion.get_start_state(), 0.0, sentence.split()
            for i, word in enumerate(words):
                score, state = fusion.score(state, word, is_last_word=i == len(words) - 1)
                total += score
            unknown = sum(word not in kenlms for word in words)
            assert total == pytest.approx(kenlms.score(sentence) * NATS - 3.0 * unknown, rel=1e-5)

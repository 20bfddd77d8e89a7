"""Files of hypotheses: each toolkit's format gives the same rows, and what is wrong with a file is one line."""

import gzip
import json
import os
import re
import unicodedata
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from asr_verdicts.errors import UsageError
from asr_verdicts.text import normalisation
from asr_verdicts.texts import entries
from asr_verdicts.texts.entries import Reading, Texts
from asr_verdicts.texts.formats import read_texts
from asr_verdicts.texts.scoring import Scoring, about_signs, score
from asr_verdicts.texts.speakers import speakers_in, speakers_of
from asr_verdicts.texts.systems import columns, is_system, parse, read_given, to_records
from tests.helpers import hypotheses as toolkits

SPOKEN = toolkits.references()
HEARD = toolkits.recognised(SPOKEN, 0.1, 0)


def read(path: Path, content: str | bytes, **reading: Any) -> Texts:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    format_ = reading.pop("format", None)
    return read_texts(path, format_, Reading(**reading))


def texts(file: Texts) -> dict[str, str]:
    return {id_: entry.text for id_, entry in file.entries.items()}


@pytest.mark.parametrize("name", toolkits.SELF_CONTAINED)
def test_a_file_with_both_sides(name: str, tmp_path: Path) -> None:
    content = toolkits.SELF_CONTAINED[name](HEARD, SPOKEN)
    file = read(tmp_path / name, content)
    assert texts(file) == HEARD
    assert {id_: entry.reference for id_, entry in file.entries.items()} == SPOKEN
    assert texts(read(tmp_path / name, content, references=True)) == SPOKEN


@pytest.mark.parametrize("name", toolkits.PLAIN)
def test_a_file_with_one_text_an_utterance(name: str, tmp_path: Path) -> None:
    assert texts(read(tmp_path / name, toolkits.PLAIN[name](HEARD))) == HEARD


def test_espnets_ids_begin_with_the_speaker(tmp_path: Path) -> None:
    file = read(tmp_path / "hyp.trn", toolkits.espnet(HEARD))
    assert list(texts(file).values()) == list(HEARD.values())
    assert next(iter(file.entries)) == "100-100-7-0000"


EMPTY = {"a": "one", "b": "", "c": "two three"}


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("hyp.trn", toolkits.trn(EMPTY)),
        ("text", toolkits.kaldi(EMPTY)),
        ("recogs.txt", toolkits.icefall(EMPTY, EMPTY)),
        ("wer.txt", toolkits.speechbrain(EMPTY, EMPTY)),
        ("nemo.jsonl", toolkits.nemo(EMPTY, EMPTY)),
        ("table.csv", toolkits.table(EMPTY, EMPTY)),
        ("lines", "one\n\ntwo three\n"),
    ],
)
def test_an_empty_hypothesis_is_one(name: str, content: str, tmp_path: Path) -> None:
    file = read(tmp_path / name, content, format="lines" if name == "lines" else None)
    assert list(texts(file).values()) == list(EMPTY.values())


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_ends_of_lines_and_marks_of_windows_change_nothing(ending: str, mark: str, tmp_path: Path) -> None:
    for name, content in {
        "hyp.trn": toolkits.trn(HEARD),
        "text": toolkits.kaldi(HEARD),
        **{name: write(HEARD, SPOKEN) for name, write in toolkits.SELF_CONTAINED.items()},
    }.items():
        windows = mark + content.replace("\r\n", "\n").replace("\n", ending)
        assert texts(read(tmp_path / name, windows)) == HEARD, name


def test_a_list_of_objects_is_read_as_lines_are(tmp_path: Path) -> None:
    rows = [{"id": id_, "text": text} for id_, text in HEARD.items()]
    assert texts(read(tmp_path / "whisper.json", json.dumps(rows, indent=1))) == HEARD


def test_columns_can_be_named(tmp_path: Path) -> None:
    content = "".join(f"{json.dumps({'n': id_, 'said': text})}\n" for id_, text in HEARD.items())
    named = columns("id=n,hypothesis=said")
    assert texts(read(tmp_path / "own.jsonl", content, columns=named)) == HEARD


def test_a_named_column_that_no_file_has_is_refused(tmp_path: Path) -> None:
    """One that some files lack is not: systems come from different tools."""
    (tmp_path / "a.csv").write_text("Utterance,Said\nu,x\n")
    (tmp_path / "b.jsonl").write_text('{"id": "u", "text": "y"}\n')
    (tmp_path / "ref").write_text("u x\n")
    systems = parse([f"a={tmp_path}/a.csv", f"b={tmp_path}/b.jsonl"], [f"{tmp_path}/ref"])
    known, _ = read_given(systems, None, columns("hypothesis=Said"))
    assert [texts(known[name][""][0]) for name in ("a", "b")] == [{"u": "x"}, {"u": "y"}]
    with pytest.raises(
        UsageError, match=r"--columns id=utt: expected a column of a file; the columns read are Said, Utterance"
    ):
        read_given(systems, None, columns("id=utt,hypothesis=Said"))


def test_segments_of_one_recording_have_ids_of_their_own(tmp_path: Path) -> None:
    rows = [
        {"audio_filepath": "a.wav", "offset": start, "duration": 1, "pred_text": "x", "text": "x"} for start in (0, 1.5)
    ]
    file = read(tmp_path / "m.jsonl", "".join(f"{json.dumps(row)}\n" for row in rows))
    assert list(file.entries) == ["a", "a-0001500"]
    assert file.entries["a-0001500"].audio == str(tmp_path / "a.wav")


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ('id\ttext\na\t"one\nb\ttwo"\nc\tthree\n', {"a": '"one', "b": 'two"', "c": "three"}),
        ('id\ttext\na\t"""Bye,"" he said"\nb\ttwo\n', {"a": '"Bye," he said', "b": "two"}),
        ('id\ttext\na\t"one"\nb\ttw"o\n', {"a": '"one"', "b": 'tw"o'}),
        ('id,text\na,"one, ""two"""\nb,th"ree\n', {"a": 'one, "two"', "b": 'th"ree'}),
        (f"id,text\na,{'x ' * 100_000}\n", {"a": "x " * 100_000}),
    ],
)
def test_quotes_of_tables_join_no_rows(content: str, text: dict[str, str], tmp_path: Path) -> None:
    assert texts(read(tmp_path / "table", content)) == text


def test_long_runs_of_spaces_in_a_trn(tmp_path: Path) -> None:
    assert texts(read(tmp_path / "hyp.trn", f"one{' ' * 1_000_000}two{' ' * 1_000_000}x (a)\n")).keys() == {"a"}


FORMS = {**toolkits.PLAIN, **toolkits.SELF_CONTAINED}


def written(name: str, words: toolkits.Words) -> str:
    return toolkits.PLAIN[name](words) if name in toolkits.PLAIN else toolkits.SELF_CONTAINED[name](words, words)


@pytest.mark.parametrize("name", FORMS)
def test_texts_and_ids_in_other_unicode_forms_are_the_same(name: str, tmp_path: Path) -> None:
    words = {"ż-1": "zażółć gęślą jaźń", "ż-2": "l'amic d'été"}
    composed = read(tmp_path / name, written(name, words))
    decomposed = {unicodedata.normalize("NFD", id_): unicodedata.normalize("NFD", words[id_]) for id_ in words}
    decomposed = {id_: text.replace("g", "g\u00ad\u200b").replace("'", "’") for id_, text in decomposed.items()}
    files = [composed, read(tmp_path / name, written(name, decomposed))]
    plain = [{id_: replace(entry, audio="") for id_, entry in file.entries.items()} for file in files]
    assert plain[0] == plain[1]  # a path is kept as it is on the disk
    assert texts(composed) == words


def test_patterns_of_references(tmp_path: Path) -> None:
    """LibriSpeech's transcripts, one file a chapter."""
    for name, content in {"1/2/1-2": "1-2-0 ONE\n1-2-1 TWO\n", "3/4/3-4": "3-4-0 THREE\n"}.items():
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / f"{name}.trans.txt").write_text(content)
    (tmp_path / "hyp").write_text("1-2-0 ONE\n1-2-1 TWO\n3-4-0 X\n")
    pattern = f"{tmp_path}/*/*/*.trans.txt"
    _, references = read_given(parse([f"a={tmp_path}/hyp"], [pattern]), None, {})
    assert texts(references[""]) == {"1-2-0": "ONE", "1-2-1": "TWO", "3-4-0": "THREE"}
    (tmp_path / "3/4/3-5.trans.txt").write_text("1-2-0 FOUR\n")
    with pytest.raises(UsageError, match="the id 1-2-0 occurs twice"):
        read_given(parse([f"a={tmp_path}/hyp"], [pattern]), None, {})
    with pytest.raises(UsageError, match=r"--references .*: no file matches the pattern"):
        parse([f"a={tmp_path}/hyp"], [f"{tmp_path}/*.ref"])


@pytest.mark.parametrize("seeds", [1, 2])
def test_whispers_json_of_each_recording(seeds: int, tmp_path: Path) -> None:
    """The command-line tools of Whisper and of whisper.cpp; the id is the name of the file, a folder is a seed."""
    for seed in range(seeds):
        (tmp_path / f"s{seed}").mkdir()
        whisper = {"text": " One two.", "segments": [{"id": 0, "text": " One two."}], "language": "en"}
        (tmp_path / f"s{seed}/a.json").write_text(json.dumps(whisper))
        cpp = {"result": {"language": "en"}, "transcription": [{"text": " Three"}, {"text": " four."}]}
        (tmp_path / f"s{seed}/b.wav.json").write_text(json.dumps(cpp, indent="\t"))
    (tmp_path / "ref").write_text("a One two.\nb Three four.\n")
    systems, _ = read_given(parse([f"w={tmp_path}/s*/*.json"], [f"{tmp_path}/ref"]), None, {})
    assert [{id_: text.split() for id_, text in texts(file).items()} for file in systems["w"][""]] == [
        {"a": ["One", "two."], "b": ["Three", "four."]}
    ] * seeds


STM = """\
;; a comment
talk 1 anna 0.0 2.0 <o,f0,female> one two
talk 1 bob 2.0 4.0 three
talk 1 anna 4.0 6.0 IGNORE_TIME_SEGMENT_IN_SCORING
talk 1 inter_segment_gap 8.9 9.5 <o,,unknown>
"""
CTM = "talk 1 0.2 0.3 one 0.9\ntalk 1 1.9 0.05 two\ntalk 1 2.1 0.2 free\ntalk 1 9.0 0.1 gone\n"


def test_words_of_a_ctm_go_into_the_segments_of_an_stm(tmp_path: Path) -> None:
    spoken = read(tmp_path / "ref.stm", STM, references=True)
    assert texts(spoken) == {"talk-1-0.00": "one two", "talk-1-2.00": "three"}
    assert [entry.speaker for entry in spoken.entries.values()] == ["anna", "bob"]
    (tmp_path / "hyp.ctm").write_text(CTM)
    heard = read_texts(tmp_path / "hyp.ctm", None, Reading(), spoken.entries)
    assert texts(heard) == {"talk-1-0.00": "one two", "talk-1-2.00": "free"}
    assert "2 segments are marked as not scored" in spoken.notes[0]
    assert "1 words are outside the references' segments" in heard.notes[0]


def test_a_ctm_without_segments_is_a_text_for_each_recording(tmp_path: Path) -> None:
    assert texts(read(tmp_path / "hyp.ctm", CTM)) == {"talk": "one two free gone"}


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("none", " It's  3.5 km, Mr. O'Neil! ", "It's 3.5 km, Mr. O'Neil!"),
        ("case", "It's 3.5", "it's 3.5"),
        (
            "punctuation",
            "It\u2019s 3.5 km \u2013 1,000 m, 'so' O'Neil! one-two",
            "it's 3.5 km 1000 m so o'neil one two",
        ),
        ("punctuation", "Zażółć „gęślą” — jaźń…", "zażółć gęślą jaźń"),
        ("punctuation", "हिन्दी।", "हिन्दी"),  # vowel signs are marks, and part of the word
        ("whisper", "Um, Mr. Smith's colour: twenty-one!", "mister smith is color 21"),
    ],
)
def test_normalisation(name: str, text: str, expected: str) -> None:
    assert normalisation(name)(text) == expected


def given(**by_id: str) -> Texts:
    return Texts("made", "trn", {id_: entries.Entry(id_, text) for id_, text in by_id.items()})


def test_both_sides_are_normalised() -> None:
    scored = score("test", given(a="It IS."), [given(a="it is")], Scoring(normalise="punctuation"))
    row = scored.rows[0][0]
    assert (row["reference"], row["hypothesis"], row["words"], row["substitutions"]) == ("it is", "it is", 2, 0)
    raw = score("test", given(a="It IS."), [given(a="it is")], Scoring())
    assert raw.rows[0][0]["substitutions"] == 2
    (warning,) = about_signs(given(a="it is"), raw.rows[0], raw.spoken, Scoring())
    assert "test: case and punctuation alone make 100 % of the errors of made" in warning
    assert not about_signs(given(a="it is"), scored.rows[0], scored.spoken, Scoring())


@pytest.mark.parametrize(("missing", "ids", "deletions"), [("empty", ["a", "b"], 1), ("skip", ["a"], 0)])
def test_missing_ids_as_asked(missing: str, ids: list[str], deletions: int) -> None:
    scored = score("test", given(a="x", b="y"), [given(a="x", c="z"), given(a="x", b="y")], Scoring(missing=missing))
    assert [[row["id"] for row in rows] for rows in scored.rows] == [ids, ids]
    assert sum(row["deletions"] for row in scored.rows[0]) == deletions
    assert any("no hypothesis for 1 id (b)" in warning for warning in scored.warnings)
    assert any("no reference for 1 id (c)" in warning for warning in scored.warnings)


def test_copies_of_a_file_are_pointed_out() -> None:
    files = [Texts(name, "trn", {"a": entries.Entry("a", text)}) for name, text in (("p", "x"), ("q", "y"), ("r", "x"))]
    (warning,) = score("test", given(a="x"), files, Scoring()).warnings
    problem = "not independent, and counted once if they belong to one system"
    assert warning == f"test: p and r have the same hypotheses: {problem}"


def test_unknown_speakers_are_said_and_a_habit_is_proposed() -> None:
    spoken = {f"{speaker}-{number}": "x" for speaker in "ab" for number in range(3)}
    scored = score("test", given(**spoken), [given(**spoken)], Scoring())
    assert {row["unit"] for row in scored.rows[0]} == {f"utterance {id_}" for id_ in spoken}
    assert {row["speaker"] for row in scored.rows[0]} == {""}
    (warning,) = scored.warnings
    assert "with 2 speakers (a, b, …): add --speaker-of '^([^-]+)-' if that is right" in warning
    known = score("test", given(**spoken), [given(**spoken)], Scoring(speaker_of="^([^-]+)-"))
    assert {row["speaker"] for row in known.rows[0]} == {"a", "b"}
    assert {row["unit"] for row in known.rows[0]} == {""}
    assert not known.warnings


def test_units_of_own_tables_are_kept_and_a_pattern_of_speakers_comes_before_them(tmp_path: Path) -> None:
    """Two speakers of the built-in corpus who share a voice, in utterances.csv."""
    content = "set,id,speaker,unit,reference,hypothesis\ntest,a-1,a,voice x,one,one\ntest,b-1,b,voice x,two,too\n"
    file = read(tmp_path / "utterances.csv", content)
    for references in (None, read(tmp_path / "ref.csv", content, references=True)):
        (rows,) = score("test", references, [file], Scoring()).rows
        assert [(row["speaker"], row["unit"]) for row in rows] == [("a", "voice x"), ("b", "voice x")]
        (rows,) = score("test", references, [file], Scoring(speaker_of="(.)-")).rows
        assert [(row["speaker"], row["unit"]) for row in rows] == [("a", ""), ("b", "")]


def test_the_reading_of_alternatives_is_the_nearest_to_all_files() -> None:
    spoken = given(a="the { cat / dog / @ } ran")
    files = [given(a="the dog ran"), given(a="the dog sat"), given(a="the cat ran")]
    scored = score("test", spoken, files, Scoring())
    assert {rows[0]["reference"] for rows in scored.rows} == {"the dog ran"}
    assert "have alternatives" in " ".join(scored.warnings)


@pytest.mark.parametrize(
    ("format_", "text", "heard", "reference"),
    [
        ("trn", "the { cat / dog } ran", "the dog ran", "the dog ran"),
        ("stm", "{ a / b } } x", None, None),  # not closed
        ("trn", "} x { a / b }", "} x b", "} x b"),
        ("trn", "f{x}/2 { y }", "f x 2", "f{x}/2 { y }"),  # no braces and slashes of their own
        ("trn", "a } b { c/d", "a b", "a } b { c/d"),
        ("kaldi", "the { cat / dog } ran", "the dog ran", "the { cat / dog } ran"),
        ("texts", "{ a / b", "a", "{ a / b"),
    ],
)
def test_alternatives_are_of_trn_and_stm_alone(
    format_: str, text: str, heard: str | None, reference: str | None
) -> None:
    spoken = replace(given(a=text), format=format_)
    if heard is None:
        with pytest.raises(UsageError, match=r"not closed, .* give the references as Kaldi's text \(id words\)"):
            score("test", spoken, [given(a="x")], Scoring())
    else:
        assert score("test", spoken, [given(a=heard)], Scoring()).rows[0][0]["reference"] == reference


def warned(spoken: Texts, heard: Texts, scoring: Scoring) -> list[str]:
    scored = score("test", spoken, [heard], scoring)
    return about_signs(scored.files[0], scored.rows[0], scored.spoken, scoring)


@pytest.mark.parametrize("mark", ["<unk>", "[noise]", "(uh)", "(%hesitation)", "%hesitation", "{COUGH}"])
def test_errors_on_marks_are_said_and_marks_can_be_dropped(mark: str) -> None:
    spoken, heard = given(a=f"one {mark} two", b="three"), given(a="one two", b="four")
    (warning,) = warned(spoken, heard, Scoring())
    assert warning == f"test: marks such as <unk> alone make 50 % of the errors of made: --drop '{mark}' removes them"
    assert warning in warned(spoken, given(A="one two", B="four"), Scoring())  # ids in another case
    inserted = warned(given(a="one"), given(A=f"one {mark}"), Scoring())
    assert "alone make 100 %" in inserted[0]
    dropped = Scoring(drop=f"{mark.upper()}, <x>")
    assert not warned(spoken, heard, dropped)
    assert [row["words"] for row in score("test", spoken, [heard], dropped).rows[0]] == [2, 1]
    assert f"--drop {mark.upper()}" in dropped.meaning
    assert not warned(given(a=f"one {mark} two"), given(a=f"x {mark} two"), Scoring())  # recognised right


def test_a_mark_that_punctuation_makes_a_word_is_no_error() -> None:
    assert not warned(given(a="one (uh) two"), given(a="x uh two"), Scoring(normalise="punctuation"))


@pytest.mark.parametrize("normalise", ["none", "punctuation"])
def test_compatibility_forms_are_pointed_out(normalise: str) -> None:
    (warning,) = warned(given(a="ｏｎｅ ² three"), given(a="one 2 four"), Scoring(normalise=normalise))
    assert "(such as ﬁ or full-width letters) alone make 67 % of the errors of made" in warning


def test_the_language_decides_the_case_of_i() -> None:
    spoken, heard = given(a="IŞIK İZMİR"), given(a="ışık izmir")
    assert not score("test", spoken, [heard], Scoring(normalise="case", language="tr")).rows[0][0]["substitutions"]
    assert score("test", spoken, [heard], Scoring(normalise="case")).rows[0][0]["substitutions"] == 1


def test_characters_of_espnets_score_cer_are_read_as_words() -> None:
    spoken = {"a": "the cat sat", "b": "a"}
    characters = given(**{id_: " ".join(text).replace("   ", " <space> ") for id_, text in spoken.items()})
    scored = score("test", characters, [given(a="the cat", b="a")], Scoring())
    assert [row["reference"] for row in scored.rows[0]] == list(spoken.values())
    assert "made: single characters and <space>: read as the words that they spell" in scored.warnings
    words = score("test", given(a="a <space> bc"), [given(a="a")], Scoring())
    assert words.rows[0][0]["words"] == 3  # words, among which is <space>


def test_a_speaker_without_a_word_is_named() -> None:
    spoken = given(**{"anna-1": "x", "bob-1": "", "bob-2": ""})
    scored = score("test", spoken, [given(**{"anna-1": "x", "bob-1": "y", "bob-2": ""})], Scoring(speaker_of="(.*)-"))
    assert "test: the references of 1 of 2 units (bob) have no words, so all errors are insertions" in scored.warnings


def test_seeds_are_the_numbers_in_which_the_files_differ(tmp_path: Path) -> None:
    toolkits.write_seeds(tmp_path / "v2", "hyp.trn", toolkits.trn, {"a": 0.1}, 11)
    (tmp_path / "ref").write_text(toolkits.kaldi(SPOKEN))
    systems = parse([f"mine={tmp_path}/v2/a/seed*/hyp.trn"], [str(tmp_path / "ref")])
    runs = to_records(*read_given(systems, None, {}), Scoring(), {}).runs
    assert [run.seed for run in runs] == list(range(11))
    assert [run.folder.parent.name for run in runs] == [f"seed{number}" for number in range(11)]


@pytest.mark.parametrize("word", ["a=b", "my model=x/y.trn", "mine=test-other:c"])
def test_a_system_is_a_name_and_a_file(word: str) -> None:
    assert is_system(word)


@pytest.mark.parametrize("word", ["outputs/a=b", "wandb=a/b/c", "outputs", "=x"])
def test_other_words_are_none(word: str) -> None:
    assert not is_system(word)


BAD_FILES: dict[str, tuple[Any, dict[str, Any], str]] = {
    "no such file": (None, {}, "there is no such file"),
    "empty": ("", {}, "it is empty"),
    "blank lines": ("\n \n", {}, "it is empty"),
    "latin 2": (
        b"one (b)\n" + "żółw".encode("iso8859_2") + b" (a)\n",
        {},
        ":2: byte 1 is not UTF-8; its encoding is not known (CP1250 and LATIN1 are common); iconv -f ENCODING -t UTF-8",
    ),
    "utf-16": ("one (a)\n".encode("utf-16"), {}, ": it is in UTF-16, not UTF-8; iconv -f UTF-16 -t UTF-8 hyp.txt"),
    "nul": ("one\0 (a)\n", {}, ":1: it contains NUL"),
    "a carriage return within": ("one\rtwo (a)\n", {}, ":1: a carriage return in the middle"),
    "gzip": (gzip.compress(b"one (a)\n"), {}, "it is compressed by gzip"),
    "comments alone": (";; one\n;; two\n", {}, "it contains only comments"),
    "trn: an id twice": ("one (a)\ntwo (a)\n", {}, ":2: the id a is already in line 1"),
    "trn: mixed with kaldi": ("one (a)\ntwo (b)\nc three\n", {}, ":3: expected words (id), found 'c three'"),
    "sentences without ids": ("a one\nb two\na three\n", {}, "; --format lines reads sentences without ids"),
    "csv: unknown columns": ("when,words\n1,x\n", {"format": "csv"}, "no hypothesis column (columns: when, words)"),
    "kaldi: an id twice": ("a one\nb two\na three\n", {}, ":3: the id a is already in line 1"),
    "json: broken": ('{"id": "a", "text": "x"}\n{"id": \n', {}, ":2: not JSON: "),
    "json: a list of numbers": ("[\n1,\n2]\n", {"format": "json"}, "entry 1 is not an object"),
    "json: mixed with trn": ('{"id": "a", "text": "x"}\none (b)\n', {}, ":2: not JSON: "),
    "json: no text": (
        '{"id": "a", "words": "x"}\n',
        {},
        "no hypothesis column (columns: id, words); expected one of pred_text",
    ),
    "json: null": ('{"id": "a", "pred_text": null}\n', {}, ":1: pred_text: expected text, found null"),
    "json: NaN": ('{"id": "a", "pred_text": NaN}\n', {}, ":1: pred_text: expected text, found 'nan'"),
    "json: a list as text": (
        '{"id": "a", "pred_text": ["x"]}\n',
        {},
        ":1: pred_text: expected text, found \"['x']\"",
    ),
    "json: no id": ('{"id": "", "pred_text": "x"}\n', {}, ":1: expected an id, found none"),
    "json: a duration below 0": (
        '{"id": "a", "text": "x", "duration": -1}\n',
        {},
        ":1: duration: expected seconds",
    ),
    "json: deep": ('{"id": ' + "[" * 100_000 + "\n", {}, ":1: not JSON: "),
    "json: several sets": (
        '{"id": "a", "text": "x", "set": "p"}\n{"id": "b", "text": "x", "set": "q"}\n',
        {},
        "it contains the sets p, q",
    ),
    "json: another set": ('{"id": "a", "text": "x", "set": "p"}\n', {"set": "q"}, "it has no set q; expected p"),
    "csv: a short row": ("id,text\na,x\nb\n", {}, ":3: 1 fields, expected 2 as in the header"),
    "csv: a quote that is not closed": (
        'id,text\na,x\nb,"y\nc,z\nd,"w"\n',
        {},
        ":3: a quote opens here that is not closed in this line",
    ),
    "tsv: a tab too many": ("id\ttext\na\tx\ty\n", {}, ":2: 3 fields, expected 2 as in the header"),
    "ids that differ in their Unicode form": ("one (z\u0301)\ntwo (ź)\n", {}, ":2: the id ź is already in line 1"),
    "csv: no rows": ("id,text\n", {}, "it has a header but no rows"),
    "icefall: no hypothesis": ("a:\tref=['x']\n", {}, "the id a has no hyp"),
    "icefall: no list": ("a:\tref=['x']\na:\thyp=[x]\n", {}, ":2: expected a list of words in quotes, found '[x]'"),
    "icefall: an id twice": (
        "a:\tref=['x']\na:\thyp=['x']\n" * 2,
        {},
        ":3: the id a has a second ref, first in line 1",
    ),
    "speechbrain: no alignments": ("%WER 5.00 [ 1 / 20, 0 ins, 0 del, 1 sub ]\n", {}, "expected a line ALIGNMENTS"),
    "speechbrain: cut off": (
        "ALIGNMENTS\n" + "=" * 80 + "\na, %WER 0.00 [ 0 / 1, 0 ins, 0 del, 0 sub ]\none\n =\n",
        {},
        "has 2 lines of the alignment, expected 3",
    ),
    "ctm: back in time": ("r 1 1.0 0.1 a\nr 1 0.5 0.1 b\n", {}, ":2: r goes back in time, from 1 to 0.5 s"),
    "ctm: alternatives": (
        "r 1 1.0 0.1 a\nr 1 * * <ALT_BEGIN>\n",
        {"format": "ctm"},
        ":2: alternatives (<ALT_BEGIN>) are unsupported",
    ),
    "ctm: as references": ("r 1 1.0 0.1 a\nr 1 1.5 0.1 b\n", {"references": True}, "a CTM has no segments to score"),
    "ctm or kaldi": ("a 1 2 3 four\nb 1 2 3 four\n", {}, "it may be ctm or kaldi"),
    "stm: an end before its start": (
        "r 1 anna 3.0 2.0 x\n",
        {},
        ":1: the segment's end, 2 s, is not after its start, 3 s",
    ),
    "stm: a segment twice": ("r 1 anna 1.0 2.0 x\n" * 2, {}, ":2: the id r-1-1.00 is already in line 1"),
    "an unknown format": ("one (a)\n", {"format": "srt"}, "--format=srt: expected trn, kaldi, json"),
}


@pytest.mark.parametrize("case", BAD_FILES)
def test_a_bad_file_is_one_line_with_its_place(case: str, tmp_path: Path) -> None:
    content, options, message = BAD_FILES[case]
    reading: dict[str, Any] = dict(options)
    path = tmp_path / "hyp.txt"
    if content is not None:
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    format_ = reading.pop("format", None)
    with pytest.raises(UsageError) as error:
        read_texts(path, format_, Reading(**reading))
    assert message in str(error.value)
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 400 + len(str(path))


def test_a_long_line_is_refused_before_it_is_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sparse file of a gigabyte: what is read of it is the limit alone."""
    path = tmp_path / "huge"
    with path.open("wb") as file:
        file.truncate(1 << 30)
    monkeypatch.setattr(entries, "LONGEST_LINE", 1 << 20)
    with pytest.raises(UsageError, match=":1: the line is longer than 1 MB"):
        read_texts(path, None, Reading())


def test_a_folder_and_a_pipe_are_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for name, message in (("", "it is a folder"), ("pipe", "it is not a regular file")):
        with pytest.raises(UsageError, match=message):
            read_texts(tmp_path / name, None, Reading())


BAD_PAIRS: dict[str, tuple[Any, Any, dict[str, Any], str]] = {
    "a reference without hypothesis": (
        given(a="x", b="y"),
        [given(a="x")],
        {},
        "no hypothesis for 1 id (b); expected the same ids, or --missing empty",
    ),
    "a hypothesis without reference": (given(a="x"), [given(a="x", b="y")], {}, "no reference for 1 id (b)"),
    "other ids": (
        given(a="x"),
        [given(b="x")],
        {},
        "none of its ids is in the references: the file has b, the references have a; read as trn",
    ),
    "no references": (None, [given(a="x")], {}, "it has no references; expected --references FILE"),
    "a speaker that is not found": (
        given(a="x"),
        [given(a="x")],
        {"speaker_of": r"^(\d+)"},
        r"--speaker-of=^(\d+): finds no speaker in 1 id (a)",
    ),
    "no utterance left": (
        given(a="x", b="x"),
        [given(a="x"), given(b="x")],
        {"missing": "skip"},
        "no id has a hypothesis in every file",
    ),
    "alternatives within alternatives": (
        given(a="{ x / { y / z } }"),
        [given(a="x")],
        {},
        "are not closed, or are nested",
    ),
    "too many readings": (given(a="{ x / y } " * 20), [given(a="x")], {}, "have 1048576 readings"),
}


@pytest.mark.parametrize("case", BAD_PAIRS)
def test_files_that_do_not_fit_together(case: str) -> None:
    references, files, scoring, message = BAD_PAIRS[case]
    with pytest.raises(UsageError, match=re.escape(message)):
        score("test", references, files, Scoring(**scoring))


@pytest.mark.parametrize(
    ("scoring", "message"),
    [
        ({"normalise": "lower"}, "--normalise=lower: expected none, case, punctuation, whisper"),
        ({"language": "turkish"}, "--language=turkish: expected a language code, such as tr"),
        ({"missing": "ignore"}, "--missing=ignore: expected refuse, empty, skip"),
        ({"speaker_of": "("}, "--speaker-of=(: not a regular expression"),
        ({"speaker_of": "a.*"}, "expected a group for the speaker"),
        ({"speaker_of": "(a)", "speakers": {}}, "expected one of them"),
    ],
)
def test_wrong_options_of_scoring(scoring: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=re.escape(message)):
        Scoring(**scoring)


def with_references(**texts: str) -> list[Texts]:
    return [Texts(name, "json", {"a": entries.Entry("a", "x", reference)}) for name, reference in texts.items()]


def test_a_message_shows_forty_characters_of_a_text() -> None:
    files = with_references(p=40 * "x", q=41 * "y")
    with pytest.raises(UsageError, match=f"is '{37 * 'y'}[.]{{3}}', and '{40 * 'x'}' in another file"):
        score("test", None, files, Scoring())


def test_references_that_differ_between_files() -> None:
    files = with_references(p="x", q="y")
    with pytest.raises(UsageError, match="q: the reference of a is 'y', and 'x' in another file"):
        score("test", None, files, Scoring())
    scored = score("test", given(a="x"), files, Scoring())
    assert any("q: its own references differ in 1 id (a): only made counts" in warning for warning in scored.warnings)


@pytest.mark.parametrize(
    ("names", "seeds"),
    [
        (["run/7/hyp.txt", "run/12/hyp.txt"], [7, 12]),
        (["gru2-s30.txt", "gru2-s31.txt"], [30, 31]),  # the number in which they differ
        (["2026-01-s3.txt", "2025-02-s3.txt"], [0, 1]),  # they differ in two
        (["s03.txt", "s3.txt"], [0, 1]),  # one number twice
        (["a.txt", "b1.txt"], [0, 1]),
    ],
)
def test_seeds_are_the_numbers_in_which_the_names_of_files_differ(names: list[str], seeds: list[int]) -> None:
    files = [replace(given(**SPOKEN), source=name) for name in names]
    records = to_records({"base": {"": files}}, {"": given(**SPOKEN)}, Scoring(), {})
    assert [run.seed for run in records.runs] == seeds


def test_utt2spk(tmp_path: Path) -> None:
    path = tmp_path / "utt2spk"
    path.write_text("a anna\nb bob\n")
    assert speakers_in(path) == {"a": "anna", "b": "bob"}
    path.write_text("z\u0301 a\u0308\n")
    assert speakers_in(path) == {"ź": "ä"}
    path.write_text("a anna\na bob\n")
    with pytest.raises(UsageError, match=":2: a already has the speaker anna"):
        speakers_in(path)
    path.write_text("a anna extra\n")
    with pytest.raises(UsageError, match=":1: expected id and speaker"):
        speakers_in(path)


def test_a_group_in_the_middle_of_an_id() -> None:
    assert speakers_of(["x_anna_1", "x_bob_1"], "_([a-z]+)_", "--speaker-of") == {"x_anna_1": "anna", "x_bob_1": "bob"}

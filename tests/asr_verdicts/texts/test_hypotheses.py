"""Files of hypotheses: each toolkit's format gives the same rows, and what is wrong with a file is one line."""

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
from asr_verdicts.texts.speakers import speakers_in
from asr_verdicts.texts.systems import columns, parse, read_given, to_records
from tests.helpers import hypotheses as toolkits

SPOKEN = toolkits.references()
HEARD = toolkits.recognised(SPOKEN, 0.1, 0)


def read(path: Path, content: str | bytes, **reading: Any) -> Texts:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    format_ = reading.pop("format", None)
    return read_texts(path, format_, Reading(**reading))


def texts(file: Texts) -> dict[str, str]:
    return {id_: entry.text for id_, entry in file.entries.items()}


def test_segments_of_one_recording_have_ids_of_their_own(tmp_path: Path) -> None:
    rows = [
        {"audio_filepath": "a.wav", "offset": start, "duration": 1, "pred_text": "x", "text": "x"} for start in (0, 1.5)
    ]
    file = read(tmp_path / "m.jsonl", "".join(f"{json.dumps(row)}\n" for row in rows))
    assert list(file.entries) == ["a", "a-0001500"]
    assert file.entries["a-0001500"].audio == str(tmp_path / "a.wav")


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


def test_whispers_json_of_each_recording(tmp_path: Path) -> None:
    """The command-line tools of Whisper and of whisper.cpp; the id is the name of the file, a folder is a seed."""
    for seed in range(2):
        (tmp_path / f"s{seed}").mkdir()
        whisper = {"text": " One two.", "segments": [{"id": 0, "text": " One two."}], "language": "en"}
        (tmp_path / f"s{seed}/a.json").write_text(json.dumps(whisper))
        cpp = {"result": {"language": "en"}, "transcription": [{"text": " Three"}, {"text": " four."}]}
        (tmp_path / f"s{seed}/b.wav.json").write_text(json.dumps(cpp, indent="\t"))
    (tmp_path / "ref").write_text("a One two.\nb Three four.\n")
    systems, _ = read_given(parse([f"w={tmp_path}/s*/*.json"], [f"{tmp_path}/ref"]), None, {})
    assert [{id_: text.split() for id_, text in texts(file).items()} for file in systems["w"][""]] == [
        {"a": ["One", "two."], "b": ["Three", "four."]}
    ] * 2


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
    assert normalisation("none")(" It's  3.5 km, Mr. O'Neil! ") == "It's 3.5 km, Mr. O'Neil!"
    assert normalisation("whisper")("Um, Mr. Smith's colour: twenty-one!") == "mister smith is color 21"


def test_missing_ids_as_asked() -> None:
    for missing, ids, deletions in (("empty", ["a", "b"], 1), ("skip", ["a"], 0)):
        files = [given(a="x", c="z"), given(a="x", b="y")]
        scored = score("test", given(a="x", b="y"), files, Scoring(missing=missing))
        assert [[row["id"] for row in rows] for rows in scored.rows] == [ids, ids]
        assert sum(row["deletions"] for row in scored.rows[0]) == deletions
        assert any("no hypothesis for 1 id (b)" in warning for warning in scored.warnings)
        assert any("no reference for 1 id (c)" in warning for warning in scored.warnings)


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


def test_errors_on_marks_are_said_and_marks_can_be_dropped() -> None:
    def warned(spoken: Texts, heard: Texts, scoring: Scoring) -> list[str]:
        scored = score("test", spoken, [heard], scoring)
        return about_signs(scored.files[0], scored.rows[0], scored.spoken, scoring)

    for mark in ("<unk>", "(%hesitation)", "{COUGH}"):
        spoken, heard = given(a=f"one {mark} two", b="three"), given(a="one two", b="four")
        (warning,) = warned(spoken, heard, Scoring())
        said = "test: marks such as <unk> alone make 50 % of the errors of made"
        assert warning == f"{said}: --drop '{mark}' removes them"
        assert warning in warned(spoken, given(A="one two", B="four"), Scoring())  # ids in another case
        dropped = Scoring(drop=f"{mark.upper()}, <x>")
        assert not warned(spoken, heard, dropped)
        assert [row["words"] for row in score("test", spoken, [heard], dropped).rows[0]] == [2, 1]
        assert not warned(given(a=f"one {mark} two"), given(a=f"x {mark} two"), Scoring())  # recognised right


def test_characters_of_espnets_score_cer_are_read_as_words() -> None:
    spoken = {"a": "the cat sat", "b": "a"}
    characters = given(**{id_: " ".join(text).replace("   ", " <space> ") for id_, text in spoken.items()})
    scored = score("test", characters, [given(a="the cat", b="a")], Scoring())
    assert [row["reference"] for row in scored.rows[0]] == list(spoken.values())
    assert "made: single characters and <space>: read as the words that they spell" in scored.warnings
    words = score("test", given(a="a <space> bc"), [given(a="a")], Scoring())
    assert words.rows[0][0]["words"] == 3  # words, among which is <space>


def test_a_long_line_a_folder_and_a_pipe_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sparse file of a gigabyte: what is read of it is the limit alone."""
    path = tmp_path / "huge"
    with path.open("wb") as file:
        file.truncate(1 << 30)
    monkeypatch.setattr(entries, "LONGEST_LINE", 1 << 20)
    with pytest.raises(UsageError, match=":1: the line is longer than 1 MB"):
        read_texts(path, None, Reading())
    os.mkfifo(tmp_path / "pipe")
    for name, message in (("", "it is a folder"), ("pipe", "it is not a regular file")):
        with pytest.raises(UsageError, match=message):
            read_texts(tmp_path / name, None, Reading())


@pytest.mark.parametrize("name", [*toolkits.PLAIN, *toolkits.SELF_CONTAINED])
def test_every_format_gives_the_same_texts_and_ids_in_any_unicode_form(name: str, tmp_path: Path) -> None:
    def written(words: toolkits.Words) -> str:
        return toolkits.PLAIN[name](words) if name in toolkits.PLAIN else toolkits.SELF_CONTAINED[name](words, words)

    file = read(tmp_path / name, toolkits.SELF_CONTAINED.get(name, lambda words, _: written(words))(HEARD, SPOKEN))
    assert texts(file) == HEARD
    if name in toolkits.SELF_CONTAINED:
        assert {id_: entry.reference for id_, entry in file.entries.items()} == SPOKEN
        assert texts(read(tmp_path / name, toolkits.SELF_CONTAINED[name](HEARD, SPOKEN), references=True)) == SPOKEN
    windows = written(HEARD).replace("\r\n", "\n").replace("\n", "\r\n")
    assert texts(read(tmp_path / name, f"\ufeff{windows}")) == HEARD

    words = {"ż-1": "zażółć gęślą jaźń", "ż-2": "l'amic d'été"}
    composed = read(tmp_path / name, written(words))
    decomposed = {unicodedata.normalize("NFD", id_): unicodedata.normalize("NFD", words[id_]) for id_ in words}
    decomposed = {id_: text.replace("g", "g\u00ad\u200b").replace("'", "’") for id_, text in decomposed.items()}
    files = [composed, read(tmp_path / name, written(decomposed))]
    plain = [{id_: replace(entry, audio="") for id_, entry in file.entries.items()} for file in files]
    assert plain[0] == plain[1]  # a path is kept as it is on the disk
    assert texts(composed) == words


def test_an_empty_hypothesis_is_one(tmp_path: Path) -> None:
    empty = {"a": "one", "b": "", "c": "two three"}
    for name, content in {
        "hyp.trn": toolkits.trn(empty),
        "text": toolkits.kaldi(empty),
        "lines": "one\n\ntwo three\n",
        **{name: write(empty, empty) for name, write in toolkits.SELF_CONTAINED.items()},
    }.items():
        file = read(tmp_path / name, content, format="lines" if name == "lines" else None)
        assert list(texts(file).values()) == list(empty.values()), name


def test_columns_can_be_named_and_one_that_no_file_has_is_refused(tmp_path: Path) -> None:
    """One that some files lack is not: systems come from different tools."""
    (tmp_path / "a.csv").write_text("n,Said\nu,x\n")
    (tmp_path / "b.jsonl").write_text('{"id": "u", "text": "y"}\n')
    (tmp_path / "ref").write_text("u x\n")
    systems = parse([f"a={tmp_path}/a.csv", f"b={tmp_path}/b.jsonl"], [f"{tmp_path}/ref"])
    known, _ = read_given(systems, None, columns("id=n,hypothesis=Said"))
    assert [texts(known[name][""][0]) for name in ("a", "b")] == [{"u": "x"}, {"u": "y"}]
    with pytest.raises(UsageError, match="--columns id=utt: expected a column of a file; the columns read are Said, "):
        read_given(systems, None, columns("id=utt,hypothesis=Said"))


def test_quotes_of_tables_join_no_rows_and_long_runs_of_spaces_take_no_time(tmp_path: Path) -> None:
    for content, expected in (
        ('id\ttext\na\t"one\nb\ttwo"\nc\tthree\n', {"a": '"one', "b": 'two"', "c": "three"}),
        ('id\ttext\na\t"""Bye,"" he said"\nb\ttwo\n', {"a": '"Bye," he said', "b": "two"}),
        ('id\ttext\na\t"one"\nb\ttw"o\n', {"a": '"one"', "b": 'tw"o'}),
        ('id,text\na,"one, ""two"""\nb,th"ree\n', {"a": 'one, "two"', "b": 'th"ree'}),
        (f"id,text\na,{'x ' * 100_000}\n", {"a": "x " * 100_000}),
    ):
        assert texts(read(tmp_path / "table", content)) == expected
    assert texts(read(tmp_path / "hyp.trn", f"one{' ' * 1_000_000}two{' ' * 1_000_000}x (a)\n")).keys() == {"a"}


def test_words_of_a_ctm_go_into_the_segments_of_an_stm(tmp_path: Path) -> None:
    stm = (
        ";; a comment\ntalk 1 anna 0.0 2.0 <o,f0,female> one two\ntalk 1 bob 2.0 4.0 three\n"
        "talk 1 anna 4.0 6.0 IGNORE_TIME_SEGMENT_IN_SCORING\ntalk 1 inter_segment_gap 8.9 9.5 <o,,unknown>\n"
    )
    spoken = read(tmp_path / "ref.stm", stm, references=True)
    assert texts(spoken) == {"talk-1-0.00": "one two", "talk-1-2.00": "three"}
    assert [entry.speaker for entry in spoken.entries.values()] == ["anna", "bob"]
    ctm = "talk 1 0.2 0.3 one 0.9\ntalk 1 1.9 0.05 two\ntalk 1 2.1 0.2 free\ntalk 1 9.0 0.1 gone\n"
    assert texts(read(tmp_path / "hyp.ctm", ctm)) == {"talk": "one two free gone"}  # without segments: by recording
    heard = read_texts(tmp_path / "hyp.ctm", None, Reading(), spoken.entries)
    assert texts(heard) == {"talk-1-0.00": "one two", "talk-1-2.00": "free"}
    assert "2 segments are marked as not scored" in spoken.notes[0]
    assert "1 words are outside the references' segments" in heard.notes[0]


def test_alternatives_are_of_trn_and_stm_alone() -> None:
    for format_, text, heard, reference in (
        ("trn", "the { cat / dog } ran", "the dog ran", "the dog ran"),
        ("trn", "} x { a / b }", "} x b", "} x b"),
        ("trn", "f{x}/2 { y }", "f x 2", "f{x}/2 { y }"),  # no braces and slashes of their own
        ("trn", "a } b { c/d", "a b", "a } b { c/d"),
        ("kaldi", "the { cat / dog } ran", "the dog ran", "the { cat / dog } ran"),
        ("texts", "{ a / b", "a", "{ a / b"),
    ):
        spoken = replace(given(a=text), format=format_)
        assert score("test", spoken, [given(a=heard)], Scoring()).rows[0][0]["reference"] == reference
    with pytest.raises(UsageError, match=r"not closed, .* give the references as Kaldi's text \(id words\)"):
        score("test", replace(given(a="{ a / b } } x"), format="stm"), [given(a="x")], Scoring())


def test_a_bad_file_is_one_line_with_its_place(tmp_path: Path) -> None:
    path = tmp_path / "hyp.txt"
    with pytest.raises(UsageError, match="there is no such file"):
        read_texts(path, None, Reading())
    cut = f"ALIGNMENTS\n{'=' * 80}\na, %WER 0.00 [ 0 / 1, 0 ins, 0 del, 0 sub ]\none\n =\n"
    cases: list[tuple[str | bytes, dict[str, Any], str]] = [
        ("\n \n", {}, "it is empty"),
        ("one\0 (a)\n", {}, ":1: it contains NUL"),
        ("one\rtwo (a)\n", {}, ":1: a carriage return in the middle"),
        ("one (a)\ntwo (a)\n", {}, ":2: the id a is already in line 1"),
        ("one (a)\ntwo (b)\nc three\n", {}, ":3: expected words (id), found 'c three'"),
        ("a one\nb two\na three\n", {}, "; --format lines reads sentences without ids"),
        ("when,words\n1,x\n", {"format": "csv"}, "no hypothesis column (columns: when, words)"),
        ('{"id": "a", "text": "x"}\n{"id": \n', {}, ":2: not JSON: "),
        ('{"id": ' + "[" * 100_000 + "\n", {}, ":1: not JSON: "),
        ("[\n1,\n2]\n", {"format": "json"}, "entry 1 is not an object"),
        ('{"id": "a", "words": "x"}\n', {}, "no hypothesis column (columns: id, words); expected one of pred_text"),
        ('{"id": "a", "pred_text": null}\n', {}, ":1: pred_text: expected text, found null"),
        ('{"id": "", "pred_text": "x"}\n', {}, ":1: expected an id, found none"),
        ('{"id": "a", "text": "x", "duration": -1}\n', {}, ":1: duration: expected seconds"),
        ('{"id": "a", "text": "x", "set": "p"}\n{"id": "b", "text": "x", "set": "q"}\n', {}, "the sets p, q"),
        ('{"id": "a", "text": "x", "set": "p"}\n', {"set": "q"}, "it has no set q; expected p"),
        ("id,text\na,x\nb\n", {}, ":3: 1 fields, expected 2 as in the header"),
        ('id,text\na,x\nb,"y\nc,z\nd,"w"\n', {}, ":3: a quote opens here that is not closed in this line"),
        ("id,text\n", {}, "it has a header but no rows"),
        ("one (z\u0301)\ntwo (ź)\n", {}, ":2: the id ź is already in line 1"),
        ("a:\tref=['x']\n", {}, "the id a has no hyp"),
        ("a:\tref=['x']\na:\thyp=[x]\n", {}, ":2: expected a list of words in quotes, found '[x]'"),
        ("a:\tref=['x']\na:\thyp=['x']\n" * 2, {}, ":3: the id a has a second ref, first in line 1"),
        ("%WER 5.00 [ 1 / 20, 0 ins, 0 del, 1 sub ]\n", {}, "expected a line ALIGNMENTS"),
        (cut, {}, "has 2 lines of the alignment, expected 3"),
        ("r 1 1.0 0.1 a\nr 1 0.5 0.1 b\n", {}, ":2: r goes back in time, from 1 to 0.5 s"),
        ("r 1 1.0 0.1 a\nr 1 * * <ALT_BEGIN>\n", {"format": "ctm"}, ":2: alternatives (<ALT_BEGIN>) are unsupported"),
        ("r 1 1.0 0.1 a\nr 1 1.5 0.1 b\n", {"references": True}, "a CTM has no segments to score"),
        ("a 1 2 3 four\nb 1 2 3 four\n", {}, "it may be ctm or kaldi"),
        ("r 1 anna 3.0 2.0 x\n", {}, ":1: the segment's end, 2 s, is not after its start, 3 s"),
        ("one (a)\n", {"format": "srt"}, "--format=srt: expected trn, kaldi, json"),
    ]
    for content, options, message in cases:
        with pytest.raises(UsageError) as error:
            read(path, content, **options)
        assert message in str(error.value)
        assert "\n" not in str(error.value)
        assert len(str(error.value)) < 400 + len(str(path))


def test_files_that_do_not_fit_together() -> None:
    x, y = given(a="x"), given(a="x", b="y")
    other = "none of its ids is in the references: the file has b, the references have a; read as trn"
    cases: list[tuple[Texts | None, list[Texts], dict[str, Any], str]] = [
        (y, [x], {}, "no hypothesis for 1 id (b); expected the same ids, or --missing empty"),
        (x, [y], {}, "no reference for 1 id (b)"),
        (x, [given(b="x")], {}, other),
        (None, [x], {}, "it has no references; expected --references FILE"),
        (x, [x], {"speaker_of": r"^(\d+)"}, r"--speaker-of=^(\d+): finds no speaker in 1 id (a)"),
        (y, [x, given(b="x")], {"missing": "skip"}, "no id has a hypothesis in every file"),
        (given(a="{ x / { y / z } }"), [x], {}, "are not closed, or are nested"),
        (given(a="{ x / y } " * 20), [x], {}, "have 1048576 readings"),
    ]
    for references, files, scoring, message in cases:
        with pytest.raises(UsageError, match=re.escape(message)):
            score("test", references, files, Scoring(**scoring))
    cases: list[tuple[dict[str, Any], str]] = [
        ({"normalise": "lower"}, "--normalise=lower: expected none, case, punctuation, whisper"),
        ({"language": "turkish"}, "--language=turkish: expected a language code, such as tr"),
        ({"missing": "ignore"}, "--missing=ignore: expected refuse, empty, skip"),
        ({"speaker_of": "("}, "--speaker-of=(: not a regular expression"),
        ({"speaker_of": "a.*"}, "expected a group for the speaker"),
        ({"speaker_of": "(a)", "speakers": {}}, "expected one of them"),
    ]
    for scoring, message in cases:
        with pytest.raises(UsageError, match=re.escape(message)):
            Scoring(**scoring)
    files = [Texts(name, "json", {"a": entries.Entry("a", "x", text)}) for name, text in (("p", "x"), ("q", "y"))]
    with pytest.raises(UsageError, match="q: the reference of a is 'y', and 'x' in another file"):
        score("test", None, files, Scoring())
    scored = score("test", given(a="x"), files, Scoring())
    assert any("q: its own references differ in 1 id (a): only made counts" in warning for warning in scored.warnings)


def test_seeds_are_the_numbers_in_which_the_names_of_files_differ() -> None:
    for names, seeds in (
        (["run/7/hyp.txt", "run/12/hyp.txt"], [7, 12]),
        (["gru2-s30.txt", "gru2-s31.txt"], [30, 31]),  # the number in which they differ
        (["2026-01-s3.txt", "2025-02-s3.txt"], [0, 1]),  # they differ in two
        (["s03.txt", "s3.txt"], [0, 1]),  # one number twice
        (["a.txt", "b1.txt"], [0, 1]),
    ):
        files = [replace(given(**SPOKEN), source=name) for name in names]
        records = to_records({"base": {"": files}}, {"": given(**SPOKEN)}, Scoring(), {})
        assert [run.seed for run in records.runs] == seeds


def test_utt2spk(tmp_path: Path) -> None:
    path = tmp_path / "utt2spk"
    path.write_text("a anna\nz\u0301 a\u0308\n")
    assert speakers_in(path) == {"a": "anna", "ź": "ä"}
    for content, message in (
        ("a anna\na bob\n", ":2: a already has the speaker anna"),
        ("a anna x\n", ":1: expected id"),
    ):
        path.write_text(content)
        with pytest.raises(UsageError, match=message):
            speakers_in(path)

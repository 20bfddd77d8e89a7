"""Score hypotheses against references: match ids, find speakers, and count errors in rows like those of a run."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from itertools import product
from unicodedata import normalize

from asr_verdicts.error_counts import COLUMNS, error_columns, recorded_errors, total_errors, word_errors
from asr_verdicts.errors import UsageError, choices
from asr_verdicts.record import UtteranceRow
from asr_verdicts.terminal import bar
from asr_verdicts.text import MEANING, clean, normalisation, without_punctuation
from asr_verdicts.texts.entries import Entry, Texts, some_of
from asr_verdicts.texts.speakers import speakers_and_units, speakers_of

MISSING = ("refuse", "empty", "skip")
WORTH_A_WARNING = 0.1  # minimum share of errors from case, punctuation or Unicode forms alone that causes a warning
# matches marks that are not ordinary words: <unk>, [noise], (uh), {COUGH}, %hesitation
MARK = re.compile(r"(?<!\S)(?:<[^<>\s]+>|\[[^][\s]+\]|\([^()\s]+\)|\{[^{}\s]+\}|%[^\W\d]\w*)(?!\S)")
MARKS_WORTH_A_WARNING = 0.01
COMPATIBILITY = "Unicode compatibility characters (such as ﬁ or full-width letters)"
SPACE = "<space>"  # ESPnet's symbol for a space between characters
MOST_READINGS = 256  # maximum number of readings of a reference with alternatives; sclite's examples have about ten


@dataclass(frozen=True)
class Scoring:
    """How to compare hypotheses with references.

    - normalise: one of text.NAMES
    - missing: how to treat ids that a file and the references do not share, one of MISSING
    - speakers: speakers by id
    - speaker_of: regular expression whose first group is the speaker in an id
    - language: language code, such as tr
    - drop: comma-separated words to remove from references and hypotheses, regardless of case
    """

    normalise: str = "none"
    missing: str = "refuse"
    speakers: Mapping[str, str] | None = None
    speaker_of: str | None = None
    language: str = ""
    drop: str = ""

    def __post_init__(self) -> None:
        self.build_normalisation()
        if not re.fullmatch(r"([A-Za-z]{2,3}([-_]\w+)*)?", self.language):
            raise choices("--language", self.language, "a language code, such as tr")
        if self.missing not in MISSING:
            raise choices("--missing", self.missing, list(MISSING))
        if self.speaker_of is not None and self.speakers is not None:
            raise UsageError("--speaker-of and --utt2spk: expected one of them")
        if self.speaker_of is not None:
            speakers_of([], self.speaker_of, "--speaker-of")

    @property
    def meaning(self) -> str:
        options = {"normalise": self.normalise, "language": self.language, "drop": self.drop}
        return f"{MEANING[self.normalise]} ({' '.join(f'--{key} {value}' for key, value in options.items() if value)})"

    def build_normalisation(self) -> Callable[[str], str]:
        """Return the function that normalises a transcript before scoring: it also removes the words in `drop`."""
        normalise = normalisation(self.normalise, self.language)
        words = "|".join(re.escape(word.strip()) for word in clean(self.drop).split(",") if word.strip())
        dropped = re.compile(rf"(?<!\S)({words})(?!\S)", re.IGNORECASE)
        return (lambda text: normalise(dropped.sub(" ", text))) if words else normalise


@dataclass
class Scored:
    """The scored utterances of a test set.

    - rows: list of rows for each file, in the order of the files
    - spoken: references by id, before normalisation
    - files: hypotheses of each file, before normalisation
    """

    rows: list[list[UtteranceRow]] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    spoken: dict[str, str] = field(default_factory=dict)
    files: list[Texts] = field(default_factory=list)


ROWS_BETWEEN_BARS = 1000  # a progress bar costs more than a short utterance


def score(set_: str, references: Texts | None, files: Sequence[Texts], scoring: Scoring) -> Scored:
    """Score all hypothesis files of a test set on the same ids. references: None if the files contain references.

    Raises UsageError if ids differ and scoring.missing is refuse, if files have different references, or if an id has
    no speaker in scoring.speakers.
    """
    scored = Scored()
    references = references and _join_characters(references, scored.warnings)
    spoken = _collect_references(references, files, scored.warnings)
    files = [_match_case(_join_characters(file, scored.warnings), spoken, scored.warnings) for file in files]
    scored.files = files
    ids = _choose_ids(set_, spoken, files, scoring, scored.warnings)
    normalise, count = cache(scoring.build_normalisation()), cache(error_columns)
    scored.spoken = {id_: spoken[id_].text for id_ in ids}
    if references is not None and references.format in ("trn", "stm"):
        scored.spoken = _choose_readings(set_, scored.spoken, files, normalise, scored.warnings)
    speakers = speakers_and_units(set_, ids, spoken, files, scoring.speakers, scoring.speaker_of, scored.warnings)
    with bar(f"scoring {set_}", len(files) * len(ids)) as advance:
        for file in files:
            rows: list[UtteranceRow] = []
            for id_ in ids:
                entry = file.entries.get(id_)
                reference = normalise(scored.spoken[id_])
                hypothesis = normalise(entry.text) if entry is not None else ""
                row = {"set": set_, "id": id_, **speakers[id_], "reference": reference, "hypothesis": hypothesis}
                rows.append(row | count(reference, hypothesis) | _place_of_audio(entry, spoken[id_]))  # type: ignore[arg-type]
                if not len(rows) % ROWS_BETWEEN_BARS:
                    advance(ROWS_BETWEEN_BARS)
            scored.rows.append(rows)
    scored.warnings += _copy_warnings(set_, files, scored.rows)
    words = Counter[str]()
    for counted in scored.rows[0]:
        words[counted["unit"] or counted["speaker"]] += counted["words"]
    if silent := [unit for unit, number in words.items() if not number]:
        units = f"{len(silent)} of {len(words)} units ({', '.join(silent[:3])})"
        scored.warnings.append(f"{set_}: the references of {units} have no words, so all errors are insertions")
    return scored


def _join_characters(file: Texts, warnings: list[str]) -> Texts:
    """Join the single characters and <space> of ESPnet's score_cer/*.trn into words."""
    words = {word for entry in file.entries.values() for word in entry.text.split()}
    if SPACE not in words or any(len(word) > 1 and not MARK.fullmatch(word) for word in words):
        return file
    warnings.append(f"{file.source}: single characters and {SPACE}: read as the words that they spell")
    spelled = {id_: "".join(entry.text.split()).replace(SPACE, " ") for id_, entry in file.entries.items()}
    return replace(file, entries={id_: replace(entry, text=spelled[id_]) for id_, entry in file.entries.items()})


def _copy_warnings(set_: str, files: Sequence[Texts], rows: Sequence[Sequence[UtteranceRow]]) -> list[str]:
    """Return warnings about files with identical hypotheses, because copies are not independent seeds or systems."""
    by_content: dict[tuple[str, ...], list[str]] = {}
    for file, of_file in zip(files, rows, strict=True):
        by_content.setdefault(tuple(row["hypothesis"] for row in of_file), []).append(file.source)
    problem = "the same hypotheses: not independent, and counted once if they belong to one system"
    return [f"{set_}: {' and '.join(sources)} have {problem}" for sources in by_content.values() if len(sources) > 1]


def _place_of_audio(*entries: Entry | None) -> dict[str, object]:
    """Return the columns that locate the utterance's audio, from the first entry with an audio path."""
    for entry in entries:
        if entry is not None and entry.audio:
            return {"audio": entry.audio, "offset": entry.offset, "duration": entry.duration}
    return {}


def _collect_references(references: Texts | None, files: Sequence[Texts], warnings: list[str]) -> dict[str, Entry]:
    """Return the references by id, from the reference file if there is one, else from the hypothesis files."""
    if references is not None:
        for file in files:
            inline = {id_: entry.reference for id_, entry in file.entries.items() if entry.reference is not None}
            entries = references.entries
            if other := [
                id_
                for id_, text in inline.items()
                if id_ in entries and _split_words(entries[id_].text) != _split_words(text)
            ]:
                warnings.append(
                    f"{file.source}: its own references differ in {some_of(other)}: only {references.source} counts"
                )
        return references.entries
    spoken: dict[str, Entry] = {}
    for file in files:
        for id_, entry in file.entries.items():
            if entry.reference is None:
                raise UsageError(f"{file.source} ({file.format}): it has no references; expected --references FILE")
            first = spoken.setdefault(id_, entry)
            if _split_words(first.reference) != _split_words(entry.reference):
                raise UsageError(
                    f"{file.source}: the reference of {id_} is {_cut(entry.reference)}, and {_cut(first.reference)} in "
                    "another file; expected the same, or --references FILE"
                )
    return {id_: replace(entry, text=entry.reference or "", reference=None) for id_, entry in spoken.items()}


def _match_case(file: Texts, spoken: Mapping[str, Entry], warnings: list[str]) -> Texts:
    """Replace ids that differ only in case from the references' ids, because sclite treats them as equal."""
    by_lower = {id_.lower(): id_ for id_ in spoken}
    if all(id_ in spoken for id_ in file.entries) or len(by_lower) < len(spoken):
        return file
    renamed = {by_lower.get(id_.lower(), id_): entry for id_, entry in file.entries.items()}
    changed = [id_ for id_ in file.entries if id_ not in spoken and id_.lower() in by_lower]
    if not changed or len(renamed) < len(file.entries):
        return file
    warnings.append(
        f"{file.source}: {some_of(changed)} differ from the references' ids only in case, and count as the same ids"
    )
    return replace(file, entries=renamed)


def _split_words(text: str | None) -> list[str]:
    return (text or "").split()


def _cut(text: str | None) -> str:
    words = text or ""
    return repr(words if len(words) <= 40 else f"{words[:37]}...")


def _choose_ids(
    set_: str, spoken: Mapping[str, Entry], files: Sequence[Texts], scoring: Scoring, warnings: list[str]
) -> list[str]:
    """Return the ids to score, in the order of the references."""
    common = set(spoken)
    for file in files:
        missing = [id_ for id_ in spoken if id_ not in file.entries]
        additional = [id_ for id_ in file.entries if id_ not in spoken]
        if len(missing) == len(spoken):
            first, other = next(iter(spoken)), next(iter(file.entries))
            raise UsageError(
                f"{file.source}: none of its ids is in the references: the file has {other}, the references have "
                f"{first}; read as {file.format}"
            )
        lacking = [
            f"{what} {some_of(ids)}"
            for what, ids in (("no hypothesis for", missing), ("no reference for", additional))
            if ids
        ]
        if lacking and scoring.missing == "refuse":
            raise UsageError(
                f"{file.source}: {'; '.join(lacking)}; expected the same ids, or --missing empty (no words were "
                "recognised) or skip (the utterance is left out of all files)"
            )
        if missing:
            how = "counted as empty" if scoring.missing == "empty" else "left out of all files"
            warnings.append(f"{set_}: {file.source} has no hypothesis for {some_of(missing)}: {how}")
        if additional:
            warnings.append(f"{set_}: {file.source} has no reference for {some_of(additional)}: left out")
        if scoring.missing == "skip":
            common -= set(missing)
    if not common:
        raise UsageError(f"{set_}: no id has a hypothesis in every file; --missing empty counts missing ones as empty")
    return [id_ for id_ in spoken if id_ in common]


def _choose_readings(
    set_: str,
    spoken: Mapping[str, str],
    files: Sequence[Texts],
    normalise: Callable[[str], str],
    warnings: list[str],
) -> dict[str, str]:
    """Choose one reading of each reference that contains NIST's alternatives { a / b / @ }.

    The reading with the fewest errors over all files together is chosen, because all systems must be compared with
    the same reference.
    """
    chosen, several = dict(spoken), []
    for id_, reference in spoken.items():
        if len(readings := _list_readings(id_, reference)) > 1:
            several.append(id_)
            heard = [normalise(file.entries[id_].text) for file in files if id_ in file.entries]
            chosen[id_] = min(readings, key=lambda text: _count_errors(normalise(text), heard))
    if several:
        warnings.append(
            f"{set_}: the references of {some_of(several)} have alternatives {{ a / b }}: the reading nearest to all "
            "files together counts"
        )
    return chosen


def _count_errors(reference: str, hypotheses: Iterable[str]) -> tuple[int, int]:
    errors = [word_errors(reference, hypothesis) for hypothesis in hypotheses]
    return sum(each.count for each in errors), sum(each.substitutions for each in errors)


def _list_readings(id_: str, text: str) -> list[str]:
    """Return all readings of a reference. Only braces and slashes that are separate words mark alternatives."""
    if (opening := re.search(r"(?<!\S)\{\s.*\s/\s", text)) is None:
        return [text]
    _, *parts = re.split(r"(?<!\S)([{}])(?!\S)", text[opening.start() :])
    if "".join(parts[::2]) != "{}" * (len(parts) // 4):
        raise UsageError(
            f"{id_}: the alternatives in {_cut(text)} are not closed, or are nested; if {{ is a word, give the "
            "references as Kaldi's text (id words)"
        )
    parts = [text[: opening.start()], *parts[1::2]]
    options = [[part] if place % 2 == 0 else re.split(r"(?<!\S)/(?!\S)", part) for place, part in enumerate(parts)]
    count = 1
    for each in options:
        count *= len(each)
    if count > MOST_READINGS:
        raise UsageError(f"{id_}: its alternatives have {count} readings; expected at most {MOST_READINGS}")
    return [" ".join(word for word in " ".join(reading).split() if word != "@") for reading in product(*options)]


PLAIN = re.compile(r"[a-z0-9 ]*(?:(?<=[a-z])'[a-z][a-z0-9 ]*)*")
"""Matches a text that neither a change of case, punctuation nor Unicode form would change: most texts, and quickly."""


def about_signs(file: Texts, rows: Sequence[UtteranceRow], spoken: Mapping[str, str], scoring: Scoring) -> list[str]:
    """Return warnings if marks, case and punctuation, or Unicode forms alone cause many of a file's errors.

    - rows: the file's rows of one test set
    - spoken: the test set's references, as in Scored
    """
    normalise, marks, on_marks = scoring.build_normalisation(), Counter[str](), 0
    wrong = [row for row in rows if any(row[column] for column in COLUMNS["wer"][1:])]  # type: ignore[literal-required]
    for row in wrong:
        heard = file.entries[row["id"]].text if row["id"] in file.entries else ""
        if not (found := MARK.findall(f"{spoken[row['id']]} {heard}")):
            continue
        words = {mark: normalise(mark) for mark in found}
        left, right = row["reference"].split(), row["hypothesis"].split()
        unmatched = {mark: abs(left.count(word) - right.count(word)) for mark, word in words.items() if word}
        on_marks += min(recorded_errors(row).count, sum(unmatched.values()))
        marks.update(unmatched)
    names = ",".join(mark for mark, _ in marks.most_common(5))
    bare, total = partial(without_punctuation, language=scoring.language), total_errors(wrong, "wer").count
    composed, least = partial(normalize, "NFKC"), WORTH_A_WARNING
    odd = [row for row in wrong if not (PLAIN.fullmatch(row["reference"]) and PLAIN.fullmatch(row["hypothesis"]))]
    among = total_errors(odd, "wer").count
    shares = (
        ("marks such as <unk>", on_marks, MARKS_WORTH_A_WARNING, f"--drop '{names}' removes them"),
        ("case and punctuation", among - _recount(odd, bare), least, "--normalise punctuation scores only the words"),
        (COMPATIBILITY, among - _recount(odd, composed), least, "in NFKC they are equal"),
    )  # fmt: skip
    return [
        f"{rows[0]['set']}: {what} alone make {100 * errors / total:.0f} % of the errors of {file.source}: {remedy}"
        for what, errors, least, remedy in shares
        if total and errors >= least * total
    ]


def _recount(rows: Sequence[UtteranceRow], function: Callable[[str], str]) -> int:
    return sum(word_errors(function(row["reference"]), function(row["hypothesis"])).count for row in rows)

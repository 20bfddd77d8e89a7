"""Hypotheses against references: which ids belong together, who speaks, and the counted rows of an own run."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product

from asr_ablations.metrics.error_counts import character_errors, word_errors
from asr_ablations.runs.hypotheses.entries import Entry, Texts
from asr_ablations.runs.hypotheses.speakers import speakers_and_units
from asr_ablations.runs.record import UtteranceRow
from asr_ablations.tools.checks import some_of, speakers_of
from asr_ablations.tools.errors import UsageError, choices
from asr_ablations.tools.text import MEANING, normalisation, without_punctuation

MISSING = ("refuse", "empty", "skip")
WORTH_A_WARNING = 0.1
"""Share of the errors that case and punctuation may make alone without a warning."""
MOST_READINGS = 256
"""Readings of a reference with alternatives; sclite's own examples have some ten."""


@dataclass(frozen=True)
class Scoring:
    """How texts are compared. normalise: NAMES of normalisation; missing: what is done where ids of a file and of the
    references differ; speakers: by id; speaker_of: a regular expression whose first group is the speaker of an id.
    """

    normalise: str = "none"
    missing: str = "refuse"
    speakers: Mapping[str, str] | None = None
    speaker_of: str | None = None

    def __post_init__(self) -> None:
        normalisation(self.normalise)
        if self.missing not in MISSING:
            raise choices("--missing", self.missing, list(MISSING))
        if self.speaker_of is not None and self.speakers is not None:
            raise UsageError("--speaker-of and --utt2spk: expected one of them")
        if self.speaker_of is not None:
            speakers_of([], self.speaker_of, "--speaker-of")

    @property
    def meaning(self) -> str:
        return f"{MEANING[self.normalise]} (--normalise {self.normalise})"


@dataclass
class Scored:
    """The rows of each file of a set, in the order of the files, and what a reader has to be warned of."""

    rows: list[list[UtteranceRow]] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    utterances: int = 0


def score(set_: str, references: Texts | None, files: Sequence[Texts], scoring: Scoring) -> Scored:
    """The rows of all files of a set, over the same ids. references: None where the files hold them.

    Raises UsageError for ids that differ, where scoring.missing refuses them, for files with different references, and
    for speakers that are not found.
    """
    scored = Scored()
    spoken = _references(references, files, scored.warnings)
    files = [_without_case(file, spoken, scored.warnings) for file in files]
    ids = _common(set_, spoken, files, scoring, scored.warnings)
    normalise = _remembered(normalisation(scoring.normalise))
    chosen = _chosen(set_, {id_: spoken[id_] for id_ in ids}, files, normalise, scored.warnings)
    speakers = speakers_and_units(set_, ids, spoken, files, scoring.speakers, scoring.speaker_of, scored.warnings)
    counted: dict[tuple[str, str], dict[str, int]] = {}
    for file in files:
        rows: list[UtteranceRow] = []
        for id_ in ids:
            entry = file.entries.get(id_)
            reference, hypothesis = chosen[id_], normalise(entry.text) if entry is not None else ""
            if (counts := counted.get((reference, hypothesis))) is None:
                counts = counted[reference, hypothesis] = _counts(reference, hypothesis)
            row = {"set": set_, "id": id_, **speakers[id_], "reference": reference, "hypothesis": hypothesis, **counts}
            rows.append(row | _recording(entry, spoken[id_]))  # type: ignore[arg-type]
        scored.rows.append(rows)
    scored.warnings += _copies(set_, files, scored.rows)
    scored.utterances = len(ids)
    return scored


def _copies(set_: str, files: Sequence[Texts], rows: Sequence[Sequence[UtteranceRow]]) -> list[str]:
    """A warning for files with the same hypotheses: copies are no seeds, and no two systems. A few short utterances,
    all of them right, may be the same by chance.
    """
    by_content: dict[tuple[str, ...], list[str]] = {}
    for file, of_file in zip(files, rows, strict=True):
        by_content.setdefault(tuple(row["hypothesis"] for row in of_file), []).append(file.source)
    return [
        f"{set_}: {' and '.join(sources)} hold the same hypotheses: copies are no independent results"
        for sources in by_content.values()
        if len(sources) > 1
    ]


def _remembered(function: Callable[[str], str]) -> Callable[[str], str]:
    known: dict[str, str] = {}

    def remembered(text: str) -> str:
        if (result := known.get(text)) is None:
            result = known[text] = function(text)
        return result

    return remembered


def _counts(reference: str, hypothesis: str) -> dict[str, int]:
    words, characters = word_errors(reference, hypothesis), character_errors(reference, hypothesis)
    return {
        "words": words.total,
        "substitutions": words.substitutions,
        "deletions": words.deletions,
        "insertions": words.insertions,
        "characters": characters.total,
        "character_substitutions": characters.substitutions,
        "character_deletions": characters.deletions,
        "character_insertions": characters.insertions,
    }


def _recording(*entries: Entry | None) -> dict[str, object]:
    """Where the audio is, by the first entry that says so."""
    for entry in entries:
        if entry is not None and entry.audio:
            return {"audio": entry.audio, "offset": entry.offset, "duration": entry.duration}
    return {}


def _references(references: Texts | None, files: Sequence[Texts], warnings: list[str]) -> dict[str, Entry]:
    """The utterances as they were spoken, by id: of the file of references, else of the files of hypotheses."""
    if references is not None:
        for file in files:
            own = [id_ for id_, entry in file.entries.items() if entry.reference is not None]
            other = [id_ for id_ in own if id_ in references.entries and not _same(file, references, id_)]
            if other:
                warnings.append(
                    f"{file.source}: its own references differ in {some_of(other)}: {references.source} counts"
                )
        return references.entries
    spoken: dict[str, Entry] = {}
    for file in files:
        for id_, entry in file.entries.items():
            if entry.reference is None:
                raise UsageError(f"{file.source} ({file.format}): it holds no references; expected --references FILE")
            known = spoken.setdefault(id_, entry)
            if _words(known.reference) != _words(entry.reference):
                raise UsageError(
                    f"{file.source}: the reference of {id_} is {_cut(entry.reference)}, and {_cut(known.reference)} in "
                    "another file; expected the same, or --references FILE"
                )
    return {id_: replace(entry, text=entry.reference or "", reference=None) for id_, entry in spoken.items()}


def _without_case(file: Texts, spoken: Mapping[str, Entry], warnings: list[str]) -> Texts:
    """The file with the ids of the references, where these differ in case alone; for sclite they are the same."""
    own = {id_.lower(): id_ for id_ in spoken}
    if all(id_ in spoken for id_ in file.entries) or len(own) < len(spoken):
        return file
    renamed = {own.get(id_.lower(), id_): entry for id_, entry in file.entries.items()}
    changed = [id_ for id_ in file.entries if id_ not in spoken and id_.lower() in own]
    if not changed or len(renamed) < len(file.entries):
        return file
    warnings.append(f"{file.source}: {some_of(changed)} are the references' in another case, and count as these")
    return replace(file, entries=renamed)


def _same(file: Texts, references: Texts, id_: str) -> bool:
    return _words(file.entries[id_].reference) == _words(references.entries[id_].text)


def _words(text: str | None) -> list[str]:
    return (text or "").split()


def _cut(text: str | None) -> str:
    words = text or ""
    return repr(words if len(words) <= 40 else f"{words[:37]}...")


def _common(
    set_: str, spoken: Mapping[str, Entry], files: Sequence[Texts], scoring: Scoring, warnings: list[str]
) -> list[str]:
    """The ids that are scored, in the order of the references."""
    kept = set(spoken)
    for file in files:
        missing = [id_ for id_ in spoken if id_ not in file.entries]
        additional = [id_ for id_ in file.entries if id_ not in spoken]
        if len(missing) == len(spoken):
            first, other = next(iter(spoken)), next(iter(file.entries))
            raise UsageError(
                f"{file.source}: none of its ids is one of the references: it has {other}, these have {first}; it was "
                f"read as {file.format}"
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
            kept -= set(missing)
    if not kept:
        raise UsageError(f"{set_}: no id has a hypothesis in every file; --missing empty counts those as empty")
    return [id_ for id_ in spoken if id_ in kept]


def _chosen(
    set_: str,
    spoken: Mapping[str, Entry],
    files: Sequence[Texts],
    normalise: Callable[[str], str],
    warnings: list[str],
) -> dict[str, str]:
    """The references as they are scored. Of alternatives, NIST's { a / b / @ }, that reading counts which all files
    together are nearest to: the systems are compared on the same words.
    """
    chosen, several = {}, []
    for id_, entry in spoken.items():
        if "{" not in entry.text or "/" not in entry.text:
            chosen[id_] = normalise(entry.text)
            continue
        several.append(id_)
        readings = [normalise(text) for text in _readings(id_, entry.text)]
        said = [normalise(file.entries[id_].text) for file in files if id_ in file.entries]
        chosen[id_] = min(readings, key=lambda text: _distance(text, said))
    if several:
        warnings.append(
            f"{set_}: the references of {some_of(several)} have alternatives {{ a / b }}: the reading that all files "
            "together are nearest to counts"
        )
    return chosen


def _distance(reference: str, hypotheses: Iterable[str]) -> tuple[int, int]:
    errors = [word_errors(reference, hypothesis) for hypothesis in hypotheses]
    return sum(each.count for each in errors), sum(each.substitutions for each in errors)


def _readings(id_: str, text: str) -> list[str]:
    parts = re.split(r"[{}]", text)
    if len(parts) % 2 == 0 or re.search(r"\{[^}]*\{", text):
        raise UsageError(f"{id_}: the alternatives in {_cut(text)} are not closed, or lie in each other")
    options = [[part] if place % 2 == 0 else part.split("/") for place, part in enumerate(parts)]
    count = 1
    for each in options:
        count *= len(each)
    if count > MOST_READINGS:
        raise UsageError(f"{id_}: its alternatives have {count} readings; expected at most {MOST_READINGS}")
    return [" ".join(word for word in " ".join(reading).split() if word != "@") for reading in product(*options)]


def about_signs(source: str, rows: Sequence[UtteranceRow], scoring: Scoring) -> list[str]:
    """A warning where case and punctuation alone make a tenth of the errors of a file. rows: of one set."""
    if scoring.normalise not in ("none", "case"):
        return []
    errors = bare = 0
    for row in rows:
        own = row["substitutions"] + row["deletions"] + row["insertions"]
        if own:
            errors += own
            bare += word_errors(*map(without_punctuation, (row["reference"], row["hypothesis"]))).count
    if not errors or errors - bare < WORTH_A_WARNING * errors:
        return []
    share = 100 * (errors - bare) / errors
    signs = f"case and punctuation alone make {share:.0f} % of the errors of {source}"
    return [f"{rows[0]['set']}: {signs}: --normalise punctuation scores words alone"]

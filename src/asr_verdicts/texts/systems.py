"""Read systems from hypothesis files, and convert them to the records that comparisons use."""

import glob
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path

from asr_verdicts.errors import UsageError, choices
from asr_verdicts.files import Json
from asr_verdicts.record import ONE_SYSTEM, SYSTEM, Record, Records, Summary, UtteranceRow
from asr_verdicts.texts.entries import Reading, Texts, lines_of, unique
from asr_verdicts.texts.formats import read_texts, recognise
from asr_verdicts.texts.scoring import Scoring, about_signs, score
from asr_verdicts.texts.tables import NAMES as COLUMNS
from asr_verdicts.texts.tables import recording_id

DEFAULT_SET = "test"  # name of the set if the user gives none
NAME = re.compile(r"[^\s=:/][^=:/]*")

Systems = Mapping[str, Mapping[str, Sequence[Texts]]]  # hypotheses by system and test set, one Texts per seed


@dataclass
class Given:
    """The files that the user listed on the command line.

    - systems: hypothesis files of each system, by test set
    - references: reference files, by test set

    The name of the default test set is "".
    """

    systems: dict[str, dict[str, list[Path]]] = field(default_factory=dict)
    references: dict[str, list[Path]] = field(default_factory=dict)


def is_system(word: str) -> bool:
    """Return whether a command-line argument defines a system, as in name=file."""
    name, equals, _ = word.partition("=")
    return bool(equals) and NAME.fullmatch(name) is not None and name not in ("wandb", "run")


def parse(words: Sequence[str], references: Sequence[str]) -> Given:
    """Parse systems of the form `name=[set:]pattern`, and references of the form `[set:]pattern`.

    Raises UsageError if no file matches a pattern, or if a set or file is given twice.
    """
    given = Given()
    for word in words:
        name, _, rest = word.partition("=")
        set_, pattern = _split_set(rest)
        if not pattern:
            raise UsageError(f"{word}: expected {name}=FILE, or a pattern of files, one for each seed")
        files = given.systems.setdefault(name, {}).setdefault(set_, [])
        files += files_of(word, pattern)
        if len(set(files)) < len(files):
            raise UsageError(f"{word}: the same file is listed twice for {name}")
    for word in references:
        set_, pattern = _split_set(word)
        if set_ in given.references:
            raise UsageError(f"--references {word}: references of {set_ or 'the default set'} are given twice")
        given.references[set_] = files_of(f"--references {word}", pattern)
    return given


def _split_set(text: str) -> tuple[str, str]:
    """Split an argument such as test-other:hyp.trn into set and path. An existing file's path may contain a colon."""
    head, colon, path = text.partition(":")
    return (head, path) if colon and NAME.fullmatch(head) and not Path(text).exists() else ("", text)


def files_of(word: str, pattern: str) -> list[Path]:
    """Return the files that match a pattern, sorted by the numbers in their names. word: argument to show in errors."""
    if Path(pattern).exists() or not glob.has_magic(pattern):
        return [Path(pattern)]
    files = [Path(path) for path in glob.glob(pattern, recursive=True)]
    if not files:
        raise UsageError(f"{word}: no file matches the pattern")
    return sorted(files, key=_number_key)


def _number_key(path: Path) -> list[tuple[int, str]]:
    """Return a sort key that compares numbers in a path as numbers: seed2 comes before seed10."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", str(path))]


def columns(text: str | None) -> dict[str, str]:
    """Parse the option --columns, such as id=utt,hypothesis=pred. Raises UsageError if the option is malformed."""
    named: dict[str, str] = {}
    for part in filter(None, (text or "").split(",")):
        what, _, name = part.partition("=")
        if what not in COLUMNS or not name:
            raise choices("--columns", text, f"WHAT=NAME, with {', '.join(COLUMNS)}")
        named[what] = name
    return named


def read_given(
    given: Given, format_: str | None, columns: Mapping[str, str]
) -> tuple[dict[str, dict[str, list[Texts]]], dict[str, Texts]]:
    """Read all hypothesis and reference files. Return the hypotheses by system and set, and the references by set."""
    sets = list(dict.fromkeys(set_ for by_set in given.systems.values() for set_ in by_set))
    if unused := [set_ for set_ in given.references if set_ not in sets]:
        named = " and ".join(set_ or DEFAULT_SET for set_ in unused)
        raise UsageError(
            f"--references: no system has the set {named}; expected {' or '.join(s or 'no set' for s in sets)}"
        )
    references = {
        set_: join_texts(
            [read_texts(path, _reference_format(path, format_), Reading(True, set_ or None, columns)) for path in paths]
        )
        for set_, paths in given.references.items()
    }
    systems = {
        name: {
            set_: read_systems(paths, format_, references.get(set_), set_, columns) for set_, paths in by_set.items()
        }
        for name, by_set in given.systems.items()
    }
    read = {
        column for by_set in systems.values() for files in by_set.values() for file in files for column in file.columns
    }
    read |= {column for file in references.values() for column in file.columns}
    for what, name in columns.items():
        if name not in read:
            raise choices(
                f"--columns {what}",
                name,
                f"a column of a file; the columns read are {', '.join(sorted(read)) or 'none'}",
            )
    return systems, references


def _reference_format(path: Path, format_: str | None) -> str | None:
    """Return the reference file's format if --format (kaldi or lines) applies to the file, or None to recognise it."""
    if format_ not in ("kaldi", "lines"):
        return None
    return format_ if recognise(path, lines_of(path), or_else=format_) == "kaldi" else None


def read_systems(
    paths: Sequence[Path],
    format_: str | None,
    references: Texts | None = None,
    set_: str = "",
    columns: Mapping[str, str] | None = None,
) -> list[Texts]:
    """Read the hypotheses of each seed, from one file per seed or from one folder per seed.

    A folder must contain one JSON file per recording. references: the set's references. If they are an STM, the words
    of CTM hypotheses are assigned to the STM's segments.
    """
    segments = references.entries if references is not None and references.format == "stm" else None
    reading = Reading(False, set_ or None, columns or {})
    files = [read_texts(path, format_, reading, segments) for path in paths]
    ids = [recording_id(path) for path in paths]
    if len(files) < 2 or any([*file.entries] != [id_] for file, id_ in zip(files, ids, strict=True)):
        return files
    several = len(set(ids)) < len(ids)
    by_folder = groupby(files, key=lambda file: several and Path(file.source).parent)
    return [join_texts([*of_folder]) for _, of_folder in by_folder]


def join_texts(files: Sequence[Texts]) -> Texts:
    """Join the utterances of several files in one Texts. Raises UsageError if an id occurs in two files."""
    if len(files) == 1:
        return files[0]
    source = Path(os.path.commonpath([Path(file.source).parent for file in files]))
    entries = [(0, entry) for file in files for entry in file.entries.values()]
    notes = [note for file in files for note in file.notes]
    return Texts(str(source), files[0].format, unique(source, entries), notes, files[0].columns)


def to_records(systems: Systems, references: Mapping[str, Texts], scoring: Scoring, declared: Json) -> Records:
    """Convert systems to records, one record per seed. Every system must have every test set.

    declared: section `ablation` of the config, without its factor

    Raises UsageError if a system lacks a test set, or has different numbers of seeds on its test sets.
    """
    names = list(systems)
    sets = list(dict.fromkeys(set_ for by_set in systems.values() for set_ in by_set))
    rows: dict[str, list[list[UtteranceRow]]] = {}
    warnings: list[str] = []
    scored = []
    for set_ in sets:
        if lacking := [name for name in names if set_ not in systems[name]]:
            raise UsageError(
                f"{' and '.join(lacking)}: no hypotheses of the set {set_ or DEFAULT_SET}, which other systems have"
            )
        files = [file for name in names for file in systems[name][set_]]
        of_set = score(set_ or DEFAULT_SET, references.get(set_), files, scoring)
        left = iter(zip(of_set.files, of_set.rows, strict=True))
        for name in names:
            (first, _), *_ = scored_files = [next(left) for _ in systems[name][set_]]
            seeds = [of_file for _, of_file in scored_files]
            earlier = rows.setdefault(name, [[] for _ in seeds])
            if len(earlier) != len(seeds):
                counts = f"{len(earlier)} files of {sets[0] or DEFAULT_SET} and {len(seeds)} of {set_ or DEFAULT_SET}"
                raise UsageError(f"{name}: {counts}; expected one file per set and seed")
            warnings += about_signs(first, seeds[0], of_set.spoken, scoring)
            rows[name] = [[*before, *new] for before, new in zip(earlier, seeds, strict=True)]
        texts = references.get(set_)
        source = f"{texts.source} ({texts.format})" if texts else "the references in the files"
        scored.append(f"{len(of_set.spoken):,} utterances of {set_ or DEFAULT_SET} against {source}")
        warnings += of_set.warnings
        warnings += [note for file in [*([texts] if texts else []), *files] for note in file.notes]
    formats = {file.format for by_set in systems.values() for files in by_set.values() for file in files}
    text = f"Scored: {scoring.meaning}; {'; '.join(scored)}; hypotheses read as {' and '.join(sorted(formats))}"
    tested = [set_ or DEFAULT_SET for set_ in sets]
    sources = {name: [file.source for file in systems[name][sets[0]]] for name in names}
    for name in names:
        for copy in reversed(_find_copies(rows[name])):
            del sources[name][copy], rows[name][copy]
    return Records(_build_records(sources, rows, tested, declared), warnings=list(dict.fromkeys(warnings)), scored=text)


def _find_copies(seeds: Sequence[list[UtteranceRow]]) -> list[int]:
    """Return the indices of seeds whose hypotheses equal those of an earlier seed, unless they contain no errors."""
    texts = [[row["hypothesis"] for row in rows] for rows in seeds]
    wrong = [any(row["hypothesis"] != row["reference"] for row in rows) for rows in seeds]
    return [place for place, text in enumerate(texts) if wrong[place] and text in texts[:place]]


def _build_records(
    sources: Mapping[str, Sequence[str]],
    rows: Mapping[str, Sequence[list[UtteranceRow]]],
    tested: list[str],
    declared: Json,
) -> list[Record]:
    """Return one record for each seed of each system, with the seed's rows on all test sets."""
    alone = all(len(seeds) == 1 for seeds in rows.values())
    return [
        Record(
            folder=Path(source),
            config={
                "seed": seed,
                SYSTEM: name,
                "ablation": {**declared, "factor": [SYSTEM]},
                "data": {"root": _find_audio_folder(of_seed)},
            },
            overrides=[],
            summary=Summary(sets={}, test_sets=tested),
            utterances=of_seed,
            model=ONE_SYSTEM if alone else f"{name}/{seed}",
        )
        for name in sources
        for source, seed, of_seed in zip(sources[name], _read_seeds(sources[name]), rows[name], strict=True)
    ]


def _find_audio_folder(rows: Sequence[UtteranceRow]) -> str | None:
    """Return the folder of the recordings, which the web page plays; None if the rows contain no audio paths."""
    folders = {os.path.dirname(os.path.abspath(row["audio"])) for row in rows if row.get("audio")}
    return os.path.commonpath(folders) if folders else None


def _read_seeds(paths: Sequence[str]) -> list[int]:
    """Return the seeds in the paths if the paths differ in exactly one number, else 0, 1, 2, …"""
    numbers = [re.findall(r"\d+", path) for path in paths]
    if len({len(of) for of in numbers}) == 1:
        differ = [place for place in range(len(numbers[0])) if len({of[place] for of in numbers}) > 1]
        if len(differ) == 1 and len({int(of[differ[0]]) for of in numbers}) == len(paths):
            return [int(of[differ[0]]) for of in numbers]
    return list(range(len(paths)))

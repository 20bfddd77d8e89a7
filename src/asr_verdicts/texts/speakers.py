"""Find each utterance's speaker in the transcript files, in a table, or by a pattern in its id."""

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from pathlib import Path

from asr_verdicts.errors import UsageError
from asr_verdicts.text import clean
from asr_verdicts.texts.entries import Entry, Texts, lines_of, some_of

UNKNOWN = "utterance"  # kind of sampling unit if speakers are unknown
# common forms of ids: a pattern for the whole id, a pattern that finds the speaker, and the form's name
HABITS = (
    (r"\d+-\d+-\d+", r"^(\d+)-", "LibriSpeech's speaker-chapter-number"),
    (r"[^-]+-.+", r"^([^-]+)-", "sclite's speaker-utterance"),
    (r"[^_]+_.+", r"^([^_]+)_", "speaker_utterance"),
)
LOOKED_AT = 100  # number of utterances that are examined to find out whether a file contains speakers


def speakers_in(path: Path) -> dict[str, str]:
    """Read Kaldi's utt2spk (`id speaker`). Raises UsageError if an id has two speakers or a line is malformed."""
    speakers: dict[str, str] = {}
    for number, line in lines_of(path):
        fields = clean(line).split()
        if len(fields) != 2:
            raise UsageError(f"{path}:{number}: expected id and speaker, found {line[:60]!r}")
        if speakers.setdefault(fields[0], fields[1]) != fields[1]:
            raise UsageError(f"{path}:{number}: {fields[0]} already has the speaker {speakers[fields[0]]}")
    return speakers


def speakers_of(ids: Iterable[str], pattern: str, name: str) -> dict[str, str]:
    """Return the speaker in each id, which is what the first group of the regular expression `pattern` matches.

    Raises UsageError if the pattern is invalid, has no group, or finds no speaker in an id. name: option, for errors.
    """
    try:
        compiled = re.compile(str(pattern))
    except re.error as error:
        raise UsageError(f"{name}={pattern}: not a regular expression: {error}") from error
    if compiled.groups < 1:
        raise UsageError(f"{name}={pattern}: expected a group for the speaker, as in ^([^-]+)-")
    speakers = {id_: match[1] if (match := compiled.search(id_)) else None for id_ in ids}
    if lacking := [id_ for id_, speaker in speakers.items() if not speaker]:
        raise UsageError(f"{name}={pattern}: finds no speaker in {some_of(lacking)}")
    return {id_: speaker for id_, speaker in speakers.items() if speaker}


def speakers_and_units(
    set_: str,
    ids: Sequence[str],
    spoken: Mapping[str, Entry],
    files: Sequence[Texts],
    table: Mapping[str, str] | None,
    pattern: str | None,
    warnings: list[str],
) -> dict[str, dict[str, str]]:
    """Return the columns speaker and unit by id.

    - table: speakers by id
    - pattern: regular expression whose first group is the speaker in an id

    If table and pattern are None, speakers and units come from the files. If they contain neither all units nor all
    speakers, every utterance is its own unit. Raises UsageError if the table or the pattern lacks a speaker for an id.
    """
    if table is not None:
        if lacking := [id_ for id_ in ids if id_ not in table]:
            raise UsageError(f"--utt2spk: no speaker for {some_of(lacking)}")
        speakers: Mapping[str, str] = table
    elif pattern is not None:
        speakers = speakers_of(ids, pattern, "--speaker-of")
    else:
        speakers = _read_recorded("speaker", ids, spoken, files)
    units = _read_recorded("unit", ids, spoken, files)
    if table is None and pattern is None and all(units.values()):
        return {id_: {"speaker": speakers[id_], "unit": units[id_]} for id_ in ids}
    unknown = [id_ for id_ in ids if not speakers[id_]]
    if not unknown:
        return {id_: {"speaker": speakers[id_], "unit": ""} for id_ in ids}
    if len(unknown) < len(ids):
        warnings.append(
            f"{set_}: {some_of(unknown)} of {len(ids)} have no speaker, so utterances are sampled instead of speakers"
        )
    elif len(ids) > 1:
        warnings.append(f"{set_}: speakers are unknown{_propose_pattern(ids)}")
    return {id_: {"speaker": "", "unit": f"{UNKNOWN} {id_}"} for id_ in ids}


def _read_recorded(
    name: str, ids: Sequence[str], spoken: Mapping[str, Entry], files: Sequence[Texts]
) -> dict[str, str]:
    """Return each utterance's speaker or unit, from the references or else from the first files that contain it."""
    recorded: dict[str, str] = dict.fromkeys(ids, "")
    for entries in (spoken, *(file.entries for file in files)):
        if any(getattr(entry, name) for entry in islice(entries.values(), LOOKED_AT)):
            for id_ in ids:
                recorded[id_] = recorded[id_] or (getattr(entries[id_], name) if id_ in entries else "")
            if all(recorded.values()):
                break
    return recorded


def _propose_pattern(ids: Sequence[str]) -> str:
    """Return a hint with a pattern that seems to find speakers in the ids. It may be wrong, so the user must set it."""
    for form, pattern, name in HABITS:
        if all(re.fullmatch(form, id_) for id_ in ids):
            speakers = {match[1] for id_ in ids if (match := re.search(pattern, id_))}
            if 1 < len(speakers) < len(ids):
                return (
                    f"; ids look like {name}, with {len(speakers)} speakers ({', '.join(sorted(speakers)[:3])}, …): "
                    f"add --speaker-of '{pattern}' if that is right"
                )
    return "; --speaker-of REGEX or --utt2spk FILE names them"

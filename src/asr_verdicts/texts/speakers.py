"""The speakers of utterances: from the files, a table or a pattern of ids, or unknown."""

import re
from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path

from asr_verdicts.errors import UsageError
from asr_verdicts.text import clean
from asr_verdicts.texts.entries import Entry, Texts, lines_of
from asr_verdicts.texts.ids import some_of, speakers_of

UNKNOWN = "utterance"  # the kind of unit of an utterance with an unknown speaker
# forms of ids, each with the pattern that finds the speaker, and a name
HABITS = (
    (r"\d+-\d+-\d+", r"^(\d+)-", "LibriSpeech's speaker-chapter-number"),
    (r"[^-]+-.+", r"^([^-]+)-", "sclite's speaker-utterance"),
    (r"[^_]+_.+", r"^([^_]+)_", "speaker_utterance"),
)
LOOKED_AT = 100  # utterances that show whether a file names speakers


def speakers_in(path: Path) -> dict[str, str]:
    """Read Kaldi's utt2spk: lines of id and speaker. Raises UsageError for other lines, and an id with two speakers."""
    speakers: dict[str, str] = {}
    for number, line in lines_of(path):
        fields = clean(line).split()
        if len(fields) != 2:
            raise UsageError(f"{path}:{number}: expected id and speaker, found {line[:60]!r}")
        if speakers.setdefault(fields[0], fields[1]) != fields[1]:
            raise UsageError(f"{path}:{number}: {fields[0]} has the speaker {speakers[fields[0]]} already")
    return speakers


def speakers_and_units(
    set_: str,
    ids: Sequence[str],
    spoken: Mapping[str, Entry],
    files: Sequence[Texts],
    table: Mapping[str, str] | None,
    pattern: str | None,
    warnings: list[str],
) -> dict[str, dict[str, str]]:
    """The columns speaker and unit by id. If a speaker is unknown, each utterance is a unit.

    table: speakers by id; pattern: its group is the speaker in an id; both None to read the files. Raises UsageError
    for ids without a speaker in the table, or by the pattern.
    """
    speakers = _find_speakers(ids, spoken, files, table, pattern)
    units = _read_recorded("unit", ids, spoken, files)
    if table is None and pattern is None and all(units.values()):
        return {id_: {"speaker": speakers[id_], "unit": units[id_]} for id_ in ids}
    unknown = [id_ for id_ in ids if not speakers[id_]]
    if not unknown:
        return {id_: {"speaker": speakers[id_], "unit": ""} for id_ in ids}
    if len(unknown) < len(ids):
        warnings.append(
            f"{set_}: {some_of(unknown)} of {len(ids)} have no speaker, so utterances are drawn instead of speakers"
        )
    elif len(ids) > 1:
        warnings.append(f"{set_}: speakers are unknown{_propose_pattern(ids)}")
    return {id_: {"speaker": "", "unit": f"{UNKNOWN} {id_}"} for id_ in ids}


def _find_speakers(
    ids: Sequence[str],
    spoken: Mapping[str, Entry],
    files: Sequence[Texts],
    table: Mapping[str, str] | None,
    pattern: str | None,
) -> dict[str, str]:
    if table is not None:
        if lacking := [id_ for id_ in ids if id_ not in table]:
            raise UsageError(f"--utt2spk: no speaker for {some_of(lacking)}")
        return {id_: table[id_] for id_ in ids}
    if pattern is not None:
        return speakers_of(ids, pattern, "--speaker-of")
    return _read_recorded("speaker", ids, spoken, files)


def _read_recorded(
    name: str, ids: Sequence[str], spoken: Mapping[str, Entry], files: Sequence[Texts]
) -> dict[str, str]:
    """The speaker or unit of each utterance, from the references, or from the first files that name it."""
    recorded: dict[str, str] = dict.fromkeys(ids, "")
    for entries in (spoken, *(file.entries for file in files)):
        if any(getattr(entry, name) for entry in islice(entries.values(), LOOKED_AT)):
            for id_ in ids:
                recorded[id_] = recorded[id_] or (getattr(entries[id_], name) if id_ in entries else "")
            if all(recorded.values()):
                break
    return recorded


def _propose_pattern(ids: Sequence[str]) -> str:
    """Propose the pattern by which ids seem to name speakers. It is not applied, because it may be wrong."""
    for form, pattern, name in HABITS:
        if all(re.fullmatch(form, id_) for id_ in ids):
            speakers = {match[1] for id_ in ids if (match := re.search(pattern, id_))}
            if 1 < len(speakers) < len(ids):
                return (
                    f"; ids look like {name}, with {len(speakers)} speakers ({', '.join(sorted(speakers)[:3])}, …): "
                    f"add --speaker-of '{pattern}' if that is right"
                )
    return "; --speaker-of REGEX or --utt2spk FILE names them"

"""Cut manifests of lhotse: JSON Lines, plain or compressed by gzip, with a MonoCut in each line.

See https://lhotse.readthedocs.io/en/latest/cuts.html. The package lhotse is not needed.
"""

import json
from pathlib import Path
from typing import Any

from asr_ablations.components.data.manifest import IMPOSSIBLE, join_parts
from asr_ablations.data.audio import AVERAGED
from asr_ablations.data.corpus import Paths, faulty, indexed, text_of
from asr_ablations.data.utterances import Utterance
from asr_ablations.tools.checks import is_number
from asr_verdicts.errors import UsageError
from asr_verdicts.text import spelled_on_disk


class Lhotse(Paths):
    """A corpus of lhotse cuts, with one or more manifests for each of train, validation and test.

    - Paths of manifests and audio files are relative to `root`, by default the current folder, as in icefall's recipes.
    - A cut is one utterance: a part of a recording, with the text and the speaker of its only supervision.
    - The audio must be in a file, without transforms other than Resample. Precomputed features are not read.
    - If supervisions lack a speaker and `speaker_of` is not set, recordings are the independent units.
    """

    layout = "a cut manifest of lhotse, cuts.jsonl or cuts.jsonl.gz"

    @indexed("path", "speaker_of")
    def find(self, split: str) -> list[Utterance]:
        path = self.path(split)
        lines = enumerate(text_of(path).split("\n"), start=1)
        utterances = [self._parse_line(path, number, line) for number, line in lines if line.strip()]
        if not utterances:
            raise UsageError(f"no utterances in {path}")
        return self.add_speakers(utterances, lambda u: join_parts(u.audio.with_suffix(""), self.root))

    def _parse_line(self, path: Path, number: int, line: str) -> Utterance:
        where = f"{path.name}:{number}"
        try:
            return _read_cut(json.loads(line), self.root)
        except (json.JSONDecodeError, RecursionError) as error:
            return faulty(where, path, f"not JSON: {error}")
        except ValueError as error:
            return faulty(where, path, str(error))
        except (KeyError, TypeError, AttributeError) as error:
            return faulty(where, path, f"not a valid Lhotse cut: {type(error).__name__}: {error}")


def _read_cut(cut: Any, root: Path) -> Utterance:
    """Return the utterance of a cut. Raises ValueError("<reason>: <detail>") for a cut that cannot be used."""
    if not isinstance(cut, dict) or cut.get("type") != "MonoCut":
        kind = cut["type"] if isinstance(cut, dict) and "type" in cut else "another kind of manifest"
        raise ValueError(f"wrong type of cut: expected MonoCut, found {kind}")
    recording, supervisions = cut.get("recording"), cut.get("supervisions", [])
    if not recording:
        raise ValueError("no recording: the cut has only features")
    if len(supervisions) != 1:
        raise ValueError(f"wrong number of supervisions: expected 1 (trim_to_supervisions), found {len(supervisions)}")
    names = {str(transform["name"]) for transform in recording.get("transforms") or []}
    if names - {"Resample"}:
        raise ValueError(f"transformed recording: {', '.join(sorted(names))}; lhotse's save_audios writes its audio")
    start, duration, (text, speaker) = cut["start"], cut["duration"], map(supervisions[0].get, ("text", "speaker"))
    if not isinstance(text, str):
        raise ValueError(f"no text: expected a string, found {text!r}")
    if not (is_number(start) and start >= 0 and is_number(duration) and duration > 0):
        raise ValueError(f"wrong times: expected start and duration in seconds, found {start!r} and {duration!r}")
    source, channel = _find_source(recording["sources"], cut["channel"])
    if IMPOSSIBLE.search(f"{cut['id']}{text}{speaker}{source}{recording['id']}"):
        raise ValueError(f"wrong characters: contains NUL or half of a character: {cut['id']!r}")
    audio = spelled_on_disk(root / source)
    return Utterance(str(cut["id"]), str(speaker or ""), audio, float(start), float(duration), text, channel=channel)


def _find_source(sources: list[dict[str, Any]], channel: object) -> tuple[str, int]:
    """Return the path of the file that contains a recording's channel, and the number of the channel in the file."""
    source = next((source for source in sources if channel in source["channels"]), None)
    if source is None:
        raise ValueError(f"wrong channel: the recording has no channel {channel!r}")
    if source["type"] != "file":
        raise ValueError(f"wrong source: expected a file, found {source['type']}; lhotse's save_audios writes files")
    channels = source["channels"]
    return str(source["source"]), AVERAGED if len(channels) == 1 else channels.index(channel)

"""In what two runs of one config differ beside their results."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from omegaconf import DictConfig, OmegaConf

from asr_ablations.reproduction.original import Original
from asr_ablations.runs.checkpoint import read_checkpoint
from asr_ablations.runs.identity import BEHAVIOUR, content, differences, identity
from asr_ablations.runs.layout import last_checkpoint
from asr_ablations.runs.record import RunRecord

DETERMINING = ("config", "data", "code")
"""Kinds that make another experiment. The others are the machine's, and move the last bits only."""


@dataclass(frozen=True)
class Cause:
    """kind: config, data, code, versions, hardware or threads; what: a key, set, file or package, with its value in the
    original and in the reproduction.
    """

    kind: str
    what: str
    original: Any
    reproduction: Any


def causes(original: Original, reproduction: RunRecord) -> list[Cause]:
    """Every difference there is, those of config, data and code first."""
    here = OmegaConf.create(reproduction.config)
    assert isinstance(here, DictConfig)
    there = original.record.environment
    found = [*changed_since(original), *_config(original.cfg, here), *_data(original.record.data, reproduction.data)]
    # a run that was resumed may have gone on with other code, or elsewhere
    for part in (*_resumed(there), reproduction.environment, *_resumed(reproduction.environment)):
        found += [one for one in surroundings(there, part) if one not in found]
    return sorted(found, key=lambda one: (*DETERMINING, one.kind).index(one.kind))


def changed_since(original: Original) -> list[Cause]:
    """What was written into config.yaml after the run: it is not the config that the run's checkpoint holds."""
    if (ran := _config_that_ran(original)) is not None:
        return [Cause("config", key, was, now) for key, was, now in differences(content(ran), content(original.cfg))]
    told = original.record.environment
    own = identity(original.cfg, str(told.get("data_fingerprint", "")))
    if told.get("behaviour") != BEHAVIOUR or told.get("id") in (None, own):
        return []
    return [Cause("config", "config.yaml, some key of it", f"id {told['id']}", f"id {own}")]


def _config_that_ran(original: Original) -> DictConfig | None:
    path = last_checkpoint(original.folder)
    if not path.exists():
        return None
    config = read_checkpoint(path).get("run", {}).get("config")
    return None if config is None else OmegaConf.create(config)


def _config(there: DictConfig, here: DictConfig) -> list[Cause]:
    return [Cause("config", key, was, now) for key, was, now in differences(content(there), content(here))]


def _data(there: Mapping[str, Any], here: Mapping[str, Any]) -> list[Cause]:
    """One cause a set, whatever data.json tells of it, and one for each other key."""
    sets = [told.get("sets", {}) for told in (there, here)]
    found = []
    for name in dict.fromkeys([*sets[0], *sets[1]]):
        differing = differences(sets[0].get(name), sets[1].get(name))
        if differing:
            was, now = ({key: values[side] for key, *values in differing} for side in (0, 1))
            found.append(Cause("data", name, was, now))
    rest = [{key: value for key, value in told.items() if key not in ("sets", "fingerprint")} for told in (there, here)]
    return found + _differing("data", rest[0], rest[1])


def surroundings(there: Mapping[str, Any], here: Mapping[str, Any]) -> list[Cause]:
    """Differences of two environment.json: code, versions, hardware, threads."""
    hardware = [dict(told.get("hardware", {})) for told in (there, here)]
    threads = [told.pop("threads", None) for told in hardware]
    return [
        *_code(there, here),
        *_differing("versions", there.get("versions", {}), here.get("versions", {})),
        *_differing("hardware", *hardware),
        *_differing("threads", {"threads": threads[0]}, {"threads": threads[1]}),
    ]


def _code(there: Mapping[str, Any], here: Mapping[str, Any]) -> Iterator[Cause]:
    """Source files by name; commits only of a record that has no hashes of files, since equal files are equal code."""
    yield from _differing("code", {"behaviour": there.get("behaviour")}, {"behaviour": here.get("behaviour")})
    codes = [told.get("code", {}) for told in (there, here)]
    files = [code.get("files") for code in codes]
    if all(files):
        for name in sorted({*files[0], *files[1]}):
            was, now = files[0].get(name), files[1].get(name)
            if was != now:
                yield Cause("code", name, was, now)
        return
    commits = [{key: code.get(key) for key in ("commit", "dirty_diff")} for code in codes]
    yield from _differing("code", *commits)


def _differing(kind: str, there: Any, here: Any) -> list[Cause]:
    return [Cause(kind, key, was, now) for key, was, now in differences(there, here)]


def _resumed(environment: Mapping[str, Any]) -> list[dict[str, Any]]:
    return list(environment.get("resumed", []))

"""Every key of the composed config and every option of its groups, found in conf/, and how each is made to act.

Numbers are halved, switches flipped and checksums zeroed. What cannot be guessed is in tests/knobs.yaml, by option
(`config` for conf/config.yaml) and key as its file has it, dotted: the value that it is turned to, or several of `to`:
that value; `beside`: overrides without which the key has nothing to do; `refused`: words of the error that refuses one
of the values; `rounds`: sums may be taken in another order. `<name>` is a file or folder of layouts.write_layouts.

Three names are no keys. beside: the overrides that the option and all its keys are turned beside; itself: how the
option is made to act, where another choice is not enough; exempt: properties of its group that it has not, and why.
"""

import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf import DictConfig, OmegaConf

from tests.helpers.support import CONF, another, compose, defaults, group_options, tiny_overrides

SMALL = ("width=8", "layers=2", "gpus=0", "logger=csv", "max_epochs=2", "dropout=0.1", "init=xavier")
GLOBAL = "# @package _global_"
KNOBS = Path(__file__).parents[1] / "knobs.yaml"
GUESS = object()
BASE = {"data": "librispeech", "logger": "csv", "cache": "none"}


@dataclass(frozen=True)
class Case:
    """How a key is made to act: see above."""

    to: Any = GUESS
    beside: tuple[str, ...] = ()
    refused: str = ""
    rounds: bool = False


def hints(option: str) -> dict[str, Any]:
    """What tests/knobs.yaml says of an option's keys, or of those of config.yaml if option is empty."""
    return every_hint().get(option or "config", {})


@functools.cache
def every_hint() -> dict[str, dict[str, Any]]:
    """tests/knobs.yaml."""
    return OmegaConf.to_container(OmegaConf.load(KNOBS))  # type: ignore[return-value]


def exempt(option: str, property: str) -> bool:
    """Whether an option has not got a property that the others of its group have."""
    return property in hints(option).get("exempt", {})


def refused(option: str) -> bool:
    """Whether an option is an error by design, which builds nothing."""
    return "refused" in hints(option).get("itself", {})


def file_keys(option: str) -> list[str]:
    """The keys of an option, without its group, that must name a file or folder."""
    beside = [word.partition("=") for word in hints(option).get("beside", ())]
    return [key.partition(".")[2] for key, _, value in beside if value.startswith("<")]


def yaml_of(option: str) -> Path:
    """conf/<group>/<name>.yaml of <group>=<name>; config.yaml where option is empty."""
    return CONF / f"{option.replace('=', '/') or 'config'}.yaml"


def stale_hints(option: str) -> list[str]:
    """The names in tests/knobs.yaml that are neither keys of the option's file nor of special meaning."""
    keys = {knob.name for knob in every_knob() if knob.option == option}
    special = {"beside", "itself", "exempt"} if option else set()
    return [name for name in hints(option) if name not in keys | special]


@dataclass(frozen=True)
class Knob:
    """A key of the config or, with an empty key, an option. option: the file with the key, empty for config.yaml."""

    option: str
    key: str

    def __str__(self) -> str:
        return f"{self.option}/{self.key}" if self.option and self.key else self.option or self.key

    @property
    def root(self) -> str:
        """The first part of the key, or the group."""
        return self.key.split(".")[0] if self.key else self.option.split("=")[0]

    @property
    def name(self) -> str:
        """The key as its file has it; `itself` for an option."""
        return self.key.removeprefix(_package(self.option)) or "itself"

    @property
    def case(self) -> Case:
        hint = hints(self.option).get(self.name, {})
        case = hint if isinstance(hint, dict) else {"to": hint}
        return Case(**{**case, "beside": tuple(case.get("beside", ()))})

    def before(self, places: Path) -> DictConfig:
        """The config that the knob is turned in."""
        return compose(*self.words(places))

    def after(self, places: Path) -> DictConfig:
        """The same with the knob turned. Raises LookupError where nobody has said how."""
        if not self.key:
            return compose(*self._words(places, self.option))
        cfg = self.before(places)
        value = self._another(OmegaConf.select(cfg, self.key))
        OmegaConf.update(cfg, self.key, _placed(value, places) if isinstance(value, str) else value, merge=False)
        return cfg

    def _another(self, old: Any) -> Any:
        if self.case.to is not GUESS:
            return self.case.to
        if isinstance(old, (bool, int, float)):
            value = another(old)
            return value | 1 if "kernel" in self.key else value  # kernels have a middle
        if re.fullmatch("[0-9a-f]{32}|[0-9a-f]{64}", str(old)):  # an MD5, a SHA-256
            return "0" * len(str(old))
        raise LookupError(f"{self}={old}: say in {KNOBS} under {self.option or 'config'} what else it may be")

    def words(self, places: Path) -> list[str]:
        """The overrides beside which the knob is turned."""
        return self._words(places, self.option if self.key else "")

    def _words(self, places: Path, option: str) -> list[str]:
        own_data = option.startswith("data=") and option != "data=librispeech"
        data = [option] if own_data else tiny_overrides(places / "tones")
        small = [word for word in SMALL if not (self.option.startswith("init=") and word.startswith("init="))]
        beside = hints(option).get("beside", ()) if option else ()
        words = [*data, *small, *([option] if option and not own_data else []), *beside, *self.case.beside]
        placed = [_placed(word, places) for word in words]
        return list({_key_of(word): word for word in placed}.values())  # the last of each key


def _placed(text: str, places: Path) -> str:
    return re.sub("<(.*?)>", lambda found: str(places / found[1]), text)


@functools.cache
def _key_of(override: str) -> str:
    return OverridesParser.create().parse_override(override).key_or_group


def chosen() -> dict[str, str]:
    """The groups that conf/config.yaml chooses from, with the choice that knobs are turned in."""
    return {**{group: BASE.get(group, name) for group, name in defaults().items()}, "callbacks": "none"}


@functools.cache
def every_knob() -> tuple[Knob, ...]:
    """Each key of the composed config outside the groups, each key of each option of each group, and each option."""
    options = [(group, name) for group in chosen() for name in group_options(group)]
    plain = [Knob("", key) for key in _walk(compose()) if key.split(".")[0] not in chosen()]
    inside = [
        Knob(f"{group}={name}", key) for group, name in options for key in _leaves(f"{group}={name}") if key != group
    ]
    others = [Knob(f"{group}={name}", "") for group, name in options if chosen()[group] != name]
    return (*plain, *inside, *others)


def _leaves(option: str) -> list[str]:
    """Dotted keys of one option, as the composed config has them."""
    keys = _walk(OmegaConf.load(yaml_of(option)))
    return [f"{_package(option)}{key}" for key in keys if not key.startswith("defaults.")]


def _package(option: str) -> str:
    """What the composed config puts before the keys of an option's file."""
    everywhere = not option or GLOBAL in yaml_of(option).read_text(encoding="utf-8")
    group, _, name = option.partition("=")
    return "" if everywhere else f"{group}.{name}." if group == "callbacks" else f"{group}."


def _walk(node: Any, prefix: str = "") -> Iterator[str]:
    items = node.items_ex(resolve=False) if isinstance(node, DictConfig) else enumerate(node._iter_ex(False))
    for key, value in items:
        if OmegaConf.is_config(value) and len(value):
            yield from _walk(value, f"{prefix}{key}.")
        elif key not in ("_target_", "_partial_"):  # which class it is: the options themselves
            yield f"{prefix}{key}"

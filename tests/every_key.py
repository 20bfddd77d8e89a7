"""Every key of the composed config and every option of its groups, found in conf/, and what else makes each one act."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf import DictConfig, OmegaConf

from support import CONF, another, compose, group_options, tiny_overrides

SMALL = ("width=8", "layers=2", "gpus=0", "logger=csv", "max_epochs=2", "dropout=0.1")
GLOBAL = "# @package _global_"
SYNTHETIC = ("data.hours=0.02", "data.words=60", "batch.size=8", "max_epochs=1")
GUESS = object()


@dataclass(frozen=True)
class Case:
    """How a key is made to act. beside: overrides without which it has nothing to do; value: another one that is
    allowed, where half of a number or the opposite of a switch is not; refused: why this value's effect is that a run
    on this machine refuses it.
    """

    beside: tuple[str, ...] = ()
    value: Any = GUESS
    refused: str = ""


NEEDS = {
    "data=synthetic": SYNTHETIC,
    "data=an4": ("data.root={root}", "data.held_out=1", "max_epochs=1"),
    "schedule=newbob": ("max_epochs=4",),
    "gradient=outliers": ("gradient.warm_up=1",),
}
"""What every key of an option stands beside."""

CASES = {
    # plain keys
    "max_epochs": Case(value=1),
    "precision": Case(value="bf16"),
    "gpus": Case(value=2, refused="this machine has"),
    "nodes": Case(value=2, refused="was started on 1"),
    "seeds.init": Case(value=1),
    "seeds.order": Case(value=1),
    "seeds.augment": Case(("augment=specaugment",), 1),
    "seeds.dropout": Case(value=1),
    "alphabets.en": Case(value="abcdefghijklmnopqrstuvwxyz 'ä"),
    "alphabets.pl": Case(("data.language=pl",), "aąbcćdeęfghijklłmnńoópqrsśtuvwxyzźż 'ä"),
    # corpora
    "data.language": Case(value="pl"),
    "data.train.0": Case(value="dev"),
    "data.validation.0": Case(value="test"),
    "data.test.0": Case(value="dev"),
    "data=synthetic/data.words": Case(value=80),
    "data=synthetic/data.train.0": Case(value="dev-clean"),
    "data=synthetic/data.validation.0": Case(value="test-clean"),
    "data=synthetic/data.test.0": Case(value="dev-clean"),
    "data=synthetic/data.test.1": Case(value="dev-clean"),
    "data=an4/data.held_out": Case(("data.held_out=0",), 1),
    # choices by name
    "model.directions": Case(value="concat"),
    "model.lookahead": Case(value=2),
    "rnn=rnn/rnn.nonlinearity": Case(value="relu"),
    "schedule=newbob/schedule.monitor": Case(("optimizer.lr=1e-6", "schedule.threshold=1e-9"), "wer"),
    "schedule=newbob/schedule.threshold": Case(value=10.0),
    "schedule=newbob/schedule.factor": Case(("schedule.threshold=10",)),
    "trainer=local_sgd/trainer.every": Case(value=1),
}
"""By the name of a knob, or by its bare key for all options that have it."""


@dataclass(frozen=True)
class Knob:
    """A key of the config, or (key is a group) its other option. option: the file that it stands in, '' for config.yaml."""

    option: str
    key: str

    def __str__(self) -> str:
        return f"{self.option}/{self.key}" if self.option and self.key else self.option or self.key

    @property
    def case(self) -> Case:
        return CASES.get(str(self), CASES.get(self.key, Case()))

    def before(self, root: Path) -> DictConfig:
        """The config that the knob is turned in."""
        option = [] if not self.key else [self.option] if self.option else []
        return self._compose(root, *option)

    def after(self, root: Path) -> DictConfig:
        """The same with the knob turned. Raises LookupError where nobody has said how."""
        if not self.key:
            return self._compose(root, self.option)
        cfg = self.before(root)
        value = self._another(OmegaConf.select(cfg, self.key))
        OmegaConf.update(cfg, self.key, value)
        return cfg

    def _another(self, old: Any) -> Any:
        if self.case.value is not GUESS:
            return self.case.value
        if isinstance(old, (bool, int, float)):
            value = another(old)
            return value | 1 if "kernel" in self.key else value  # kernels have a middle
        raise LookupError(f"{self}={old}: say in CASES (tests/every_key.py) what else it may be")

    def _compose(self, root: Path, *option: str) -> DictConfig:
        data = option if option and option[0].startswith("data=") else tiny_overrides(root)
        other = [word for word in option if not word.startswith("data=")]
        needs = [word for name in option for word in NEEDS.get(name, ())]
        words = [*data, *SMALL, *other, *needs, *self.case.beside]
        return compose(*_last_of_each(word.format(root=root) for word in words))


def _last_of_each(words: Iterator[str]) -> list[str]:
    """Overrides without those that a later one of the same key replaces."""
    parser = OverridesParser.create()
    return list({parser.parse_override(word).key_or_group: word for word in words}.values())


def groups() -> list[str]:
    """The groups that conf/config.yaml chooses from."""
    chosen = OmegaConf.load(CONF / "config.yaml").defaults
    return [str(next(iter(entry))) for entry in chosen if isinstance(entry, DictConfig)]


def every_knob() -> list[Knob]:
    """Each key of config.yaml, each key of each option of each group, and each option that is not the default."""
    plain = [Knob("", key) for key in _leaves(CONF / "config.yaml", "")]
    options = [(group, name) for group in groups() for name in group_options(group)]
    inside = [
        Knob(f"{group}={name}", key) for group, name in options for key in _leaves(CONF / group / f"{name}.yaml", group)
    ]
    return [*plain, *inside, *(Knob(f"{group}={name}", "") for group, name in options)]


def _leaves(file: Path, group: str) -> list[str]:
    """Dotted keys of one yaml, as the composed config has them."""
    node = OmegaConf.load(file)
    keys = [key for key in _walk(node) if not key.startswith(("defaults.", "hydra.")) and "_target_" not in key]
    inside = "" if GLOBAL in file.read_text(encoding="utf-8") or not group else f"{group}."
    return [f"{inside}{key}" for key in keys if not key.endswith("_partial_")]


def _walk(node: Any, prefix: str = "") -> Iterator[str]:
    items = node.items_ex(resolve=False) if isinstance(node, DictConfig) else enumerate(node)
    for key, value in items:
        if OmegaConf.is_config(value) and len(value):
            yield from _walk(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}"

"""Every key of the composed config and every option of its groups, found in conf/, and what else makes each one act."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf import DictConfig, OmegaConf

from tests.helpers.support import CONF, another, compose, group_options, tiny_overrides

SMALL = ("width=8", "layers=2", "gpus=0", "logger=csv", "max_epochs=2", "dropout=0.1")
GLOBAL = "# @package _global_"
GUESS = object()
BASE = {"data": "librispeech", "logger": "csv", "cache": "none"}
"""Choices that all knobs are turned in, where they are not those of conf/config.yaml."""


@dataclass(frozen=True)
class Case:
    """How a key is made to act. beside: overrides without which it has nothing to do; value: another one that is
    allowed, where half of a number or the opposite of a switch is not; refused: what a run says that refuses one of
    the two values, where that is the effect; rounds: sums may be taken in another order. <name> stands for what
    layouts.write_layouts leaves under that name.
    """

    beside: tuple[str, ...] = ()
    value: Any = GUESS
    refused: str = ""
    rounds: bool = False


NEEDS = {
    "data=synthetic": ("data.hours=0.02", "data.words=60", "batch.size=8", "max_epochs=1"),
    "data=an4": ("data.root=<tones>", "data.held_out=1", "max_epochs=1"),
    "data=manifest": ("data.root=<manifests>", "batch.size=4", "max_epochs=1"),
    "data=kaldi": ("data.root=<kaldi>", "batch.size=4", "max_epochs=1"),
    "data=mls": ("data.root=<mls>", "data.language=en", "batch.size=4", "max_epochs=1"),
    "schedule=newbob": ("max_epochs=4",),
    "model=ds2": ("max_epochs=1",),
    "model=ds2_large": ("max_epochs=1",),
    "model=itu": ("max_epochs=1",),
    "gradient=outliers": ("gradient.warm_up=1", "gradient.factor=1.01", "batch.size=1", "max_epochs=1"),
    "averaging=last": ("max_epochs=3", "averaging.count=3"),
    "pretrain=layers": ("max_epochs=3",),
    "decoder=beam_lm": ("decoder.lm=<words.arpa>",),
    "decoder=beam_charlm": ("decoder.lm=<letters.arpa>",),
    "decoder=lexicon": ("decoder.words=<words.txt>",),
    "loss=aligned": ("loss.run=<trained>",),
    "augment=noise": ("augment.folder=<tones>",),
}
"""What every key of an option stands beside."""

NAMED = "data.named={clean100: [train], clean460: [train, dev], full960: [train, dev, test]}"
LOGMEL = "asr_ablations.components.features.logmel.LogMel"
BANDS = {"bins": 40, "window": 0.025, "hop": 0.010, "high": 8000.0}
FOREIGN = ("alphabet=english", "alphabet.characters='abcde '")
"""An alphabet in which an utterance cannot be written."""

CASES = {
    # plain keys
    "max_epochs": Case(value=1),
    "precision": Case(value="bf16"),
    "gpus": Case(value=2, refused="this machine has"),
    "nodes": Case(value=2, refused="was started on 1"),
    "ranks": Case(value=2),
    "batch.seconds": Case(("batch.size=null", "batch.seconds=2"), 4.0),
    "seeds.init": Case(value=1),
    "seeds.order": Case(value=1),
    "seeds.augment": Case(("augment=specaugment",), 1),
    "seeds.dropout": Case(value=1),
    "languages.pl.characters": Case(("data.language=pl",), "aąbcćdeęfghijklłmnńoópqrsśtuvwxyzźż 'ä"),
    "languages.en.characters": Case(value="abcdefghijklmnopqrstuvwxyz 'ä"),
    "languages.en.separation": Case(value="_"),
    "languages.pl.separation": Case(value="_"),
    "alphabet.characters": Case(value="abcdefghijklmnopqrstuvwxyz 'ä"),
    "alphabet.separation": Case(value="_"),
    "alphabet=english": Case(("data.language=pl",)),
    # corpora
    "data.language": Case(value="pl"),
    "data.train": Case(value=["dev"]),
    "data.train.0": Case(value="dev"),
    "data.validation.0": Case(value="test"),
    "data.test.0": Case(value="dev"),
    "data.max_seconds": Case(value=0.8),
    "data.on_bad": Case(FOREIGN, "skip", refused="data.on_bad=skip leaves"),
    "data.root": Case(value="<copy>"),
    "loss=aligned/loss.run": Case(value="<trained-too>"),
    "data.named.clean100.0": Case(("data.train=clean100", NAMED), "dev"),
    "data.named.clean460.0": Case(("data.train=clean460", NAMED), "test"),
    "data.named.clean460.1": Case(("data.train=clean460", NAMED), "test"),
    "data.named.full960.0": Case(("data.train=full960", NAMED), "elsewhere", refused="no folder elsewhere"),
    "data.named.full960.1": Case(("data.train=full960", NAMED), "elsewhere", refused="no folder elsewhere"),
    "data.named.full960.2": Case(("data.train=full960", NAMED), "elsewhere", refused="no folder elsewhere"),
    "data.download.address": Case(value="http://nowhere.invalid"),
    "data.ending": Case(value="opus", refused="opus"),
    "data=synthetic/data.words": Case(value=80),
    "data=synthetic/data.max_seconds": Case(value=2.0),
    "data=synthetic/data.train.0": Case(value="dev-clean"),
    "data=synthetic/data.validation.0": Case(value="test-clean"),
    "data=synthetic/data.test.0": Case(value="dev-clean"),
    "data=synthetic/data.test.1": Case(value="dev-clean"),
    "data=librispeech/data.validation.1": Case(("data.validation=[dev, train]",), "test"),
    "data=librispeech/data.test.1": Case(("data.test=[test, train]",), "dev"),
    "data=an4/data.held_out": Case(value=2, refused="held_out"),
    "data=an4/max_epochs": Case(value=2),
    "data=manifest/data.train": Case(value="dev.jsonl"),
    "data=manifest/data.validation": Case(value="test.jsonl"),
    "data=manifest/data.test": Case(value="dev.jsonl"),
    "data=manifest/data.root": Case(value="<manifests-copy>"),
    "data=kaldi/data.train": Case(value="data/dev"),
    "data=kaldi/data.validation": Case(value="data/test"),
    "data=kaldi/data.test": Case(value="data/dev"),
    "data=kaldi/data.root": Case(value="<kaldi-copy>"),
    "data=mls/data.root": Case(value="<mls-copy>"),
    "data=mls/data.language": Case(value="pl"),
    "cache.root": Case(("cache.root=<store>",), "<store-copy>"),
    "cache.features": Case(("cache.root=<store>",), {"_target_": LOGMEL, **BANDS, "low": 100.0}),
    # decoding
    "decoder.beam_width": Case(value=1),
    "decoder.prune_beams": Case(value=0.1),
    "decoder.prune_symbols": Case(value=0.5),
    "decoder.lm": Case(value="<other.arpa>"),
    "decoder=beam_charlm/decoder.lm": Case(value="<other-letters.arpa>"),
    "decoder.unknown": Case(("decoder.alpha=2",), 0.0),
    "decoder.words": Case(value="<other.txt>"),
    # choices by name
    "model.directions": Case(value="concat"),
    "model.lookahead": Case(value=2),
    "rnn=rnn/rnn.nonlinearity": Case(value="relu"),
    "gradient.limit": Case(value=1e-3),
    "augment.time_width": Case(value=2),  # the tones are short: half is over time_share of them, too
    "augment.steps.1.time_width": Case(value=2),
    "augment.folder": Case(value="<quiet>"),
    "gradient.factor": Case(value=100.0),
    "gradient=outliers/gradient.momentum": Case(value=0.0),
    "gradient.warm_up": Case(value=100),
    "order=chunked": Case(refused="CTC cannot train on chunks"),
    "order.buckets": Case(("batch.size=1",), 2),
    "schedule=newbob/schedule.monitor": Case(("optimizer.lr=1e-6", "schedule.threshold=1e-9"), "wer"),
    "schedule=newbob/schedule.threshold": Case(value=0.99),
    "schedule=newbob/schedule.factor": Case(("schedule.threshold=0.99",)),
    "pretrain=layers/pretrain.first": Case(value=2),
    "pretrain=layers/pretrain.epochs": Case(value=2),
    "pretrain=layers/pretrain.layers": Case(value=1),
    "pretrain=layers/pretrain.max_epochs": Case(value=1, refused="max_epochs=1: expected 2 or more"),
    # what two processes do to one another
    "norm=batch_synchronised": Case(("ranks=2",)),
    "trainer.every": Case(("ranks=2",), 1),
    # keys that steer the machine
    "workers": Case(value=1),
    "sweep": Case(value="another"),
    "ablation": Case(value={"question": "?"}),
    "outputs": Case(value="<copy>"),
    "overrides": Case(value=["seed=7"]),
    "hardware.price_per_hour": Case(value=2.5),
    "threads": Case(value=2, rounds=True),
    "checkpoint_minutes": Case(value=0),
    "logger.project": Case(value="another"),
    "logger.entity": Case(value="nobody"),
}
"""By the name of a knob, or by its bare key for all options that have it."""


@dataclass(frozen=True)
class Knob:
    """A key of the config or, where key is empty, an option of a group. option: the file that the key stands in, empty
    for a key that config.yaml has.
    """

    option: str
    key: str

    def __str__(self) -> str:
        return f"{self.option}/{self.key}" if self.option and self.key else self.option or self.key

    @property
    def root(self) -> str:
        """The first part of the key, or the group."""
        return self.key.split(".")[0] if self.key else self.option.split("=")[0]

    @property
    def case(self) -> Case:
        return CASES.get(str(self), CASES.get(self.key, Case()))

    def before(self, places: Path) -> DictConfig:
        """The config that the knob is turned in."""
        return self._compose(places, self.option if self.key else "")

    def after(self, places: Path) -> DictConfig:
        """The same with the knob turned. Raises LookupError where nobody has said how."""
        if not self.key:
            return self._compose(places, self.option)
        cfg = self.before(places)
        value = self._another(OmegaConf.select(cfg, self.key))
        OmegaConf.update(cfg, self.key, _placed(value, places) if isinstance(value, str) else value, merge=False)
        return cfg

    def _another(self, old: Any) -> Any:
        if self.case.value is not GUESS:
            return self.case.value
        if isinstance(old, (bool, int, float)):
            value = another(old)
            return value | 1 if "kernel" in self.key else value  # kernels have a middle
        if self.key.startswith("data.download.sha256"):
            return "0" * 64
        raise LookupError(f"{self}={old}: say in CASES (tests/helpers/every_key.py) what else it may be")

    def _compose(self, places: Path, option: str) -> DictConfig:
        own_data = option.startswith("data=") and option != "data=librispeech"
        data = [option] if own_data else [*tiny_overrides(places / "tones"), "data.named={}"]
        words = [*data, *SMALL, *([option] if option and not own_data else []), *NEEDS.get(option, ())]
        return compose(*_last_of_each(_placed(word, places) for word in (*words, *self.case.beside)))


def _placed(text: str, places: Path) -> str:
    return re.sub("<(.*?)>", lambda found: str(places / found[1]), text)


def _last_of_each(words: Iterable[str]) -> list[str]:
    """Overrides without those that a later one of the same key replaces."""
    parser = OverridesParser.create()
    return list({parser.parse_override(word).key_or_group: word for word in words}.values())


def chosen() -> dict[str, str]:
    """The groups that conf/config.yaml chooses from, with the choice that knobs are turned in."""
    entries = [entry for entry in OmegaConf.load(CONF / "config.yaml").defaults if isinstance(entry, DictConfig)]
    choices = {str(group): str(name) for entry in entries for group, name in entry.items()}
    return {group: BASE.get(group, name) for group, name in choices.items() if "@" not in group}


def every_knob() -> list[Knob]:
    """Each key of the composed config outside the groups, each key of each option of each group, and each option."""
    options = [(group, name) for group in chosen() for name in group_options(group)]
    plain = [Knob("", key) for key in _walk(compose()) if key.split(".")[0] not in chosen()]
    inside = [Knob(f"{group}={name}", key) for group, name in options for key in _leaves(group, name)]
    others = [Knob(f"{group}={name}", "") for group, name in options if chosen()[group] != name]
    return [*plain, *inside, *others]


def _leaves(group: str, name: str) -> list[str]:
    """Dotted keys of one option, as the composed config has them."""
    file = CONF / group / f"{name}.yaml"
    inside = "" if GLOBAL in file.read_text(encoding="utf-8") else f"{group}."
    return [f"{inside}{key}" for key in _walk(OmegaConf.load(file)) if not key.startswith("defaults.")]


def _walk(node: Any, prefix: str = "") -> Iterator[str]:
    items = node.items_ex(resolve=False) if isinstance(node, DictConfig) else enumerate(node._iter_ex(False))
    for key, value in items:
        if OmegaConf.is_config(value) and len(value):
            yield from _walk(value, f"{prefix}{key}.")
        elif key not in ("_target_", "_partial_"):  # which class it is: the options themselves
            yield f"{prefix}{key}"

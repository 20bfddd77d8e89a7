"""Find and read the sets of an evaluation, from the run's corpus or other corpora, and alter the audio if requested."""

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version

from omegaconf import DictConfig, OmegaConf

from asr_ablations.components.cache.none import NoCache
from asr_ablations.config.build import build
from asr_ablations.config.targets import options_by_name
from asr_ablations.data.corpus import Corpus
from asr_ablations.data.datamodule import Speech, SpeechData
from asr_ablations.data.description import content_hash
from asr_ablations.data.recording_cache import Recording, Store
from asr_ablations.data.utterances import Utterance
from asr_ablations.evaluation.request import as_list
from asr_ablations.tools.content_keys import content_key, hash_targets
from asr_ablations.tools.files import expanded
from asr_ablations.tools.random_streams import generator
from asr_ablations.training.contracts import Condition
from asr_ablations.training.trained_model import Trained
from asr_verdicts.config import by_content
from asr_verdicts.errors import UsageError, choices
from asr_verdicts.files import Json

MANIFEST = "manifest"
"""The option in conf/data that reads manifests."""
ENDINGS = (".jsonl", ".json")
STREAMS = "asr_ablations.tools.random_streams"
"""The module that seeds the random numbers of conditions. Its source code is part of a condition's key."""


@dataclass(frozen=True)
class ChosenCondition:
    """A condition that alters the audio in an evaluation.

    - options: the condition's options, with hashes instead of paths
    - key: hash of everything that affects the altered audio, apart from the original audio
    """

    name: str
    condition: Condition
    options: Json
    seed: int
    key: str


class ConditionedStore:
    """A store that reads recordings from another store and applies a condition to them."""

    decodes = True

    def __init__(self, store: Store, chosen: ChosenCondition) -> None:
        self.store, self.chosen, self.condition_key = store, chosen, chosen.key

    def read(self, utterance: Utterance) -> Recording:
        samples, _ = self.store.read(utterance)
        rng = generator(self.chosen.seed, "condition", utterance.id)
        heard = self.chosen.condition(samples, utterance.id, rng)
        return heard, len(heard)


@dataclass(frozen=True)
class HeardSet:
    """A set to decode.

    - recorded: name without the condition: a split of the run's corpus, or <corpus>/<split>
    - data: the data to which the split belongs
    - condition: condition that alters the audio, or None for the original audio
    """

    recorded: str
    data: SpeechData
    split: str
    condition: ChosenCondition | None = None

    @property
    def name(self) -> str:
        return self.recorded if self.condition is None else f"{self.recorded}/{self.condition.name}"

    @property
    def is_test(self) -> bool:
        return self.split in self.data.corpus.test

    def read(self) -> Speech:
        """Return the set's utterances, with the audio altered by the condition. Read the set first if necessary."""
        if self.split not in self.data.sets:
            self.data.read(self.split)
        speech = self.data.sets[self.split]
        if self.condition is None:
            return speech
        store: Store = speech.store
        if self.data.cache.holds_features:  # a condition alters waveforms, not features
            store = NoCache(gigabytes=0.0).open(self.split, speech.utterances, 0)
        return Speech(speech.utterances, speech.alphabet, ConditionedStore(store, self.condition))


def build_conditions(cfg: DictConfig) -> list[ChosenCondition | None]:
    """Build a request's conditions, where None means the original audio. Raise UsageError for wrong values."""
    conditions: list[ChosenCondition | None] = []
    for name in as_list(cfg.conditions):
        node = OmegaConf.create({"condition": OmegaConf.to_container(cfg.condition[name])}).condition
        try:
            condition: Condition = build(node)
        except UsageError as error:
            raise UsageError(str(error).replace("condition.", f"condition.{name}.")) from error
        options = by_content(OmegaConf.to_container(node))  # type: ignore[arg-type]
        sources = hash_targets([str(node._target_), STREAMS])
        key = content_key(options=options, seed=cfg.condition_seed, sources=sources, scipy=version("scipy"))
        chosen = ChosenCondition(name, condition, options, cfg.condition_seed, key)
        conditions.append(chosen if condition.changes else None)
    return conditions or [None]


def list_sets(trained: Trained, corpora: Sequence[str], opened: dict[str, SpeechData]) -> dict[str, HeardSet]:
    """Return the available sets by name: validation and test sets of the run, or the test sets of other corpora.

    corpora: manifests, and options of conf/data with their folder, such as an4:/x/an4. Raise UsageError if one is
      wrong.
    opened: data of corpora that earlier requests for this run use, by entry of `corpora`. New corpora are added.
    """
    own = trained.data
    if not corpora:
        names = dict.fromkeys([*own.corpus.validation, *own.corpus.test])
        return {name: HeardSet(name, own, name) for name in names}
    sets: dict[str, HeardSet] = {}
    for entry in corpora:
        name, corpus = _build_corpus(entry, trained.cfg.data)
        data = opened.setdefault(entry, _with_corpus(own, corpus))
        for split in data.corpus.test:
            heard = HeardSet(f"{name}/{split}", data, split)
            if sets.setdefault(heard.recorded, heard) is not heard:
                raise UsageError(f"corpora: {entry} and another entry both have a set named {heard.recorded}")
    return sets


def _build_corpus(entry: str, of_run: DictConfig) -> tuple[str, Corpus]:
    """Build the corpus of an entry of `corpora`. Return its name and the corpus. of_run: the run's node `data`."""
    options = options_by_name("data")
    name, _, root = entry.partition(":")
    if name in options:
        node = _resolve(options[name]) | ({"root": root} if root else {})
        if node["root"] is None:
            raise UsageError(f"corpora={name}: expected the corpus with its folder, such as {name}:<folder>")
    elif entry.endswith(ENDINGS):
        file = expanded(entry, "corpora").absolute()
        name = file.parent.name
        texts = {key: of_run[key] for key in ("language", "normalise") if key in of_run}
        paths = dict.fromkeys(("train", "validation", "test"), str(file))
        node = {**_resolve(options[MANIFEST]), **texts, **paths, "root": str(file.parent)}
    else:
        raise choices("corpora", entry, [*options, f"or a manifest ({' or '.join(ENDINGS)})"])
    # skip bad utterances, because unknown letters or damaged files in it must not stop the evaluation
    corpus: Corpus = build(OmegaConf.create({"data": {**node, "on_bad": "skip"}}).data)
    corpus.train, corpus.validation = [], []  # these splits may be missing, and are not decoded
    return name, corpus


def _resolve(node: Mapping[str, object]) -> Json:
    return OmegaConf.to_container(OmegaConf.create(dict(node)), resolve=True)  # type: ignore[return-value]


def _with_corpus(data: SpeechData, corpus: Corpus) -> SpeechData:
    other = copy.copy(data)
    other.corpus, other.sets, other.screened = corpus, {}, {}
    return other


def separate(trained: Trained) -> Trained:
    """Copy a run's dictionary of sets, because other requests may use the same name for other sets."""
    data = copy.copy(trained.data)
    data.sets = dict(data.sets)
    return trained._replace(data=data)


def hear_sets(sets: Sequence[HeardSet], conditions: Sequence[ChosenCondition | None]) -> dict[str, HeardSet]:
    """Return a set for each combination of a set and a condition, by name."""
    heard = [HeardSet(s.recorded, s.data, s.split, condition) for s in sets for condition in conditions]
    return {one.name: one for one in heard}


def prepare_sets(trained: Trained, sets: Mapping[str, HeardSet], cfg: DictConfig) -> None:
    """Check that a request's corpora are present, and read its sets if they are from other corpora or have conditions.

    Unusable utterances are counted and listed in a warning. Raise UsageError if a set has no usable utterances.
    """
    corpora = {id(heard.data.corpus): heard.data.corpus for heard in sets.values()}
    if not cfg.corpora or cfg.tune.trials or cfg.activations.sets:
        corpora[id(trained.data.corpus)] = trained.data.corpus
    for corpus in corpora.values():
        corpus.prepare()
    if cfg.corpora or cfg.conditions:
        trained.data.sets |= {name: heard.read() for name, heard in sets.items()}


def describe_sets(trained: Trained, sets: Mapping[str, HeardSet]) -> Json:
    """Describe the conditions and other corpora of an evaluation for its record. Empty entries are omitted.

    - condition: options and seed of each condition
    - corpora: number of utterances and content hash of each set from another corpus
    - left_out: ids of the utterances in these sets that were not decoded, by reason
    """
    used = {heard.condition.name: heard.condition for heard in sets.values() if heard.condition is not None}
    conditions = {name: {**chosen.options, "seed": chosen.seed} for name, chosen in used.items()}
    corpora, left_out = {}, {}
    for heard in sets.values():
        if heard.data.corpus is not trained.data.corpus:
            utterances = heard.data.sets[heard.split].utterances
            corpora[heard.recorded] = f"{len(utterances)} utterances {content_hash(utterances)[:12]}"
            groups = heard.data.screened[heard.split].left_out
            left_out[heard.recorded] = {reason: sorted(u.id for u in group) for reason, group in groups.items()}
    described = {"condition": conditions, "corpora": corpora, "left_out": left_out}
    return {key: value for key, value in described.items() if value}

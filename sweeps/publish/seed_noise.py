"""The noise of seeds over all published sweeps."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from asr_ablations.runs.seed_noise import content_but_seed
from asr_verdicts.comparison import Comparison
from asr_verdicts.record import Record
from asr_verdicts.statistics.seed_noise import TOTALS, pooled_deviation

COMMON = 5
"""Seeds that two arms must share: the correlation of fewer is nearly any number."""


@dataclass(frozen=True)
class NamedArm:
    """A metric's values on a test set by seed, of an arm that is named by the first sweep that has it."""

    name: str
    values: Mapping[int, float]

    @property
    def mean(self) -> float:
        return float(np.mean(list(self.values.values())))

    @property
    def deviation(self) -> float:
        return float(np.std(list(self.values.values()), ddof=1))


@dataclass
class SetNoise:
    """The noise of seeds on one test set.

    corpus: its class and language; set, metric: of the verdicts; drawn: as `drawn_of` has it; utterances: of the set;
    grain: a single error, the step in which the metric changes, 0 where it is no rate. arms: those with two seeds and
    more, each once, whichever sweeps share its runs; correlations: over equal seeds, of two arms of a sweep, by their
    names.
    """

    corpus: str
    set: str
    metric: str
    utterances: int
    grain: float
    drawn: str = ""
    arms: list[NamedArm] = field(default_factory=list)
    correlations: dict[tuple[str, str], float] = field(default_factory=dict)

    @property
    def runs(self) -> int:
        return sum(len(arm.values) for arm in self.arms)

    @property
    def degrees(self) -> int:
        return self.runs - len(self.arms)

    @property
    def deviation(self) -> float:
        """Pooled over the arms, as `runs.seed_noise` has it."""
        return pooled_deviation([list(arm.values.values()) for arm in self.arms], self.grain)


def noise_of_runs(comparisons: Sequence[tuple[str, Comparison]]) -> list[SetNoise]:
    """The noise on each primary test set. comparisons: with the names of their sweeps.

    Arms of sweeps that were tested on the same data in the same metric are put together. Runs that diverged are no
    noise. Arms with the same values throughout are one training under two names: they count once, and their correlation
    does not.
    """
    found: dict[tuple[str, str], SetNoise] = {}
    known: dict[tuple[str, str], dict[str, NamedArm]] = {}
    for sweep, comparison in comparisons:
        like = next(iter(comparison.runs), None)
        sha256 = like.data.hash(comparison.set) if like and comparison.set else None
        if like is None or sha256 is None:
            continue
        key = (sha256, comparison.metric)
        noise = found.setdefault(key, _empty(like, comparison))
        noise.drawn = noise.drawn or drawn_of(comparison)
        own = _arms(sweep, comparison, known.setdefault(key, {}))
        for one, other in itertools.combinations(own, 2):
            _correlate(one, other, noise)
    for key, noise in found.items():
        several = [arm for arm in known[key].values() if len(arm.values) > 1]
        noise.arms += [
            arm for number, arm in enumerate(several) if all(arm.values != o.values for o in several[:number])
        ]
    return [noise for noise in found.values() if noise.arms]


def _empty(like: Record, comparison: Comparison) -> SetNoise:
    total = like.value(comparison.set, TOTALS.get(comparison.metric, ""))
    utterances = like.value(comparison.set, "utterances")
    grain = 1 / total if total else 0.0
    return SetNoise(corpus_of(like), comparison.set, comparison.metric, int(utterances or 0), grain)


def corpus_of(run: Record) -> str:
    """The class of a run's corpus, and its language."""
    data = run.config.get("data", {})
    return f"{str(data.get('_target_')).rpartition('.')[2]}, {data.get('language')}"


def drawn_of(comparison: Comparison) -> str:
    """What the test set was drawn with, such as 40 voices; empty where no verdict goes by it."""
    estimates = [verdict.estimate for verdict in comparison.verdicts]
    return next((f"{each.speakers} {each.unit}" for each in estimates if each is not None and each.speakers), "")


def _arms(sweep: str, comparison: Comparison, known: dict[str, NamedArm]) -> list[NamedArm]:
    """The arms of a sweep, with the runs that other sweeps added to them; new ones are put among the known."""
    own = []
    for arm in comparison.arms:
        values = {
            run.seed: value for run in arm.runs if (value := run.value(comparison.set, comparison.metric)) is not None
        }
        if not values:
            continue
        first = arm.runs[0]
        content = content_but_seed(first.config, first.data, first.environment)
        before = known.get(content, NamedArm(f"{sweep}: {arm.name}", {}))
        known[content] = NamedArm(before.name, {**before.values, **values})
        own.append(NamedArm(f"{sweep}: {arm.name}", values))
    return own


def _correlate(one: NamedArm, other: NamedArm, noise: SetNoise) -> None:
    seeds = sorted(one.values.keys() & other.values.keys())
    pairs = np.array([[arm.values[seed] for seed in seeds] for arm in (one, other)])
    if len(seeds) < COMMON or np.array_equal(pairs[0], pairs[1]) or not pairs.std(axis=1).all():
        return
    first, second = sorted([one.name, other.name])
    noise.correlations[first, second] = float(np.corrcoef(pairs)[0, 1])

"""The noise of seeds, from other sweeps if the runs themselves do not show it."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from asr_ablations.comparison.arms import Arm
from asr_ablations.comparison.metrics import Metric
from asr_ablations.comparison.result import Comparison
from asr_ablations.runs.record import RunRecord
from asr_ablations.runs.seed_noise import TOTALS, content_but_seed, pooled_deviation, seed_noise

LIBRISPEECH = "on LibriSpeech's test-clean seeds move it by 0.06 to 0.17 WER (AlgoPerf's logs)"


def known_noise(sweep: Path | None, arms: Sequence[Arm], set_: str, metric: Metric) -> str:
    """A sentence on the noise of seeds, for arms with one seed; empty where the runs tell it themselves.

    It comes from the other sweeps beside this one that were tested on the same data, and from published logs for
    LibriSpeech alone: on a small corpus the noise is twenty to fifty times as large.
    """
    if not metric.is_rate or min(len(arm.results) for arm in arms) > 1:
        return ""
    like = next(run for arm in arms for run in arm.runs)
    noise = None if sweep is None else seed_noise(sweep.resolve().parent, like, set_, metric.name)
    if noise is not None:
        earlier = f"{noise.runs} earlier runs of {noise.arms} arms on this test set"
        return f"in {earlier} seeds moved it by {metric.text(noise.deviation)} {metric.amount} (standard deviation)"
    if set_ == "test-clean" and str((like.config.get("data") or {}).get("_target_")).endswith(".LibriSpeech"):
        return LIBRISPEECH
    return "no earlier sweep on this test set tells it"


FEW, QUIET = 5, 2.0
"""Seeds up to which a deviation may be small by luck, and how many times smaller than earlier ones it has to be."""


def quiet_by_luck(sweep: Path, arms: Sequence[Arm], set_: str, metric: Metric) -> str | None:
    """A warning where the few seeds of the arms lie far closer together than those of earlier sweeps on the same data.

    The verdict takes no notice of it: a prior for the variance would save 13 to 25 % of the runs, and multiplies false
    claims by 1.4 to 7 where an arm is unlike the earlier ones, which is what ablations are for (docs/statistics.md).
    """
    rates = [[rate for run in arm.runs if (rate := run.value(set_, metric.name)) is not None] for arm in arms]
    several = [of_arm for of_arm in rates if len(of_arm) > 1]
    like = next((run for arm in arms for run in arm.runs), None)
    if not several or like is None or not metric.is_rate or max(map(len, several)) > FEW:
        return None
    noise = seed_noise(sweep.resolve().parent, like, set_, metric.name)
    own = pooled_deviation(several, 0.0)
    if noise is None or own * QUIET > noise.deviation:
        return None
    return (
        f"the seeds move {metric.label} by {metric.text(own)} here (standard deviation), and by "
        f"{metric.text(noise.deviation)} in {noise.runs} earlier runs of {noise.arms} arms: few may lie close by luck"
    )


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


def _empty(like: RunRecord, comparison: Comparison) -> SetNoise:
    total = like.value(comparison.set, TOTALS.get(comparison.metric, ""))
    utterances = like.value(comparison.set, "utterances")
    grain = 1 / total if total else 0.0
    return SetNoise(corpus_of(like), comparison.set, comparison.metric, int(utterances or 0), grain)


def corpus_of(run: RunRecord) -> str:
    """The class of a run's corpus, and its language."""
    data = run.config.get("data", {})
    return f"{str(data.get('_target_')).rpartition('.')[2]}, {data.get('language')}"


def drawn_of(comparison: Comparison) -> str:
    """What the test set was drawn with, such as 40 voices; empty where no verdict goes by it."""
    estimates = [verdict.contrast.estimate for verdict in comparison.verdicts]
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

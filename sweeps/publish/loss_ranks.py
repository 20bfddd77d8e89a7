"""Whether the validation loss ranks runs as their error rate does, over many sweeps (Ambroszczyk2019 §2.1)."""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from asr_ablations.runs.seed_noise import content_but_seed
from asr_verdicts.comparison import Comparison
from asr_verdicts.metrics import LOSS, validation_set
from asr_verdicts.record import Record
from asr_verdicts.statistics.sample import Correlation, spearman
from publish.seed_noise import COMMON, corpus_of, drawn_of

FEWEST = 10
"""Runs that a correlation needs: the interval of fewer is nearly everything."""
Points = dict[int, tuple[float, float]]
"""By seed the loss of the last weights on the validation set, in nats, and their error rate on the test set."""


@dataclass
class LossRanks:
    """The runs that were validated and tested on the same data, with one loss. drawn: as `drawn_of` has it. arms: each
    training once, whichever sweeps share its runs.
    """

    corpus: str
    validation: str
    test: str
    metric: str
    drawn: str = ""
    arms: list[Points] = field(default_factory=list)

    @property
    def runs(self) -> int:
        return sum(map(len, self.arms))

    @property
    def of_runs(self) -> Correlation | None:
        return _spearman([point for arm in self.arms for point in arm.values()])

    @property
    def of_arms(self) -> Correlation | None:
        """Of the arms' means: what a choice between them goes by."""
        means = [np.mean(list(arm.values()), axis=0) for arm in self.arms]
        return _spearman([(float(loss), float(rate)) for loss, rate in means])

    @property
    def within_arms(self) -> list[float]:
        """The rank correlation in each arm of enough seeds: there chance alone is ranked."""
        found = [_spearman(list(arm.values())) for arm in self.arms if len(arm) >= COMMON]
        return [each.value for each in found if each]


def loss_ranks(comparisons: Sequence[Comparison]) -> list[LossRanks]:
    """Of each pair of sets, metric and loss with enough runs for a correlation. Runs without a finite loss are left
    out.
    """
    found: dict[tuple[str | None, ...], LossRanks] = {}
    known: dict[tuple[str | None, ...], dict[str, Points]] = {}
    for comparison in comparisons:
        for arm in comparison.arms:
            for run in arm.runs:
                validation, point = validation_set(run), _point(run, comparison)
                if validation is None or point is None:
                    continue
                loss = json.dumps(run.config.get("loss"), sort_keys=True)
                key = (run.data.hash(validation), run.data.hash(comparison.set), comparison.metric, loss)
                new = LossRanks(corpus_of(run), validation, comparison.set, comparison.metric)
                ranks = found.setdefault(key, new)
                ranks.drawn = ranks.drawn or drawn_of(comparison)
                content = content_but_seed(run.config, run.data, run.environment)
                known.setdefault(key, {}).setdefault(content, {})[run.seed] = point
    for of_sets, ranks in found.items():
        arms = list(known[of_sets].values())
        ranks.arms += [arm for number, arm in enumerate(arms) if arm not in arms[:number]]
    return [ranks for ranks in found.values() if ranks.runs >= FEWEST and ranks.of_runs]


def _point(run: Record, comparison: Comparison) -> tuple[float, float] | None:
    validation = validation_set(run)
    loss = None if validation is None else run.value(validation, LOSS.name)
    rate = run.value(comparison.set, comparison.metric)
    return None if loss is None or rate is None or not math.isfinite(loss) else (loss, rate)


def _spearman(points: Sequence[tuple[float, float]]) -> Correlation | None:
    return spearman([loss for loss, _ in points], [rate for _, rate in points])

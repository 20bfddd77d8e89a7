"""Holm's decisions by hand, by definition, and beside the intervals that are to agree with them."""

import numpy as np
import pytest

from asr_ablations.statistics.estimate import Estimate
from asr_ablations.statistics.multiple_testing import holm_decisions
from asr_ablations.statistics.power import Anytime, FixedLength, Procedure


def by_definition(ps: list[float]) -> list[float]:
    """Holm's adjusted p of each: the largest (m − j + 1) p of all that are not larger than it (Wright 1992)."""
    ranked = sorted(ps)
    return [max(min(1, (len(ps) - j) * q) for j, q in enumerate(ranked) if q <= p) for p in ps]


def test_by_hand() -> None:
    """Four: 0.011 is below 0.05 / 4, 0.016 below 0.05 / 3, 0.04 is not below 0.05 / 2."""
    decisions = holm_decisions([0.016, 0.5, 0.011, 0.04])
    assert [decision.rejected for decision in decisions] == [True, False, True, False]
    assert [decision.level for decision in decisions] == pytest.approx([0.05 / 3, 0.05 / 2, 0.05 / 4, 0.05 / 2])
    assert [decision.p_adjusted for decision in decisions] == pytest.approx([0.048, 0.5, 0.044, 0.08])
    assert holm_decisions([]) == []


@pytest.mark.parametrize("seed", range(20))
def test_adjusted_ps_are_their_definition(seed: int) -> None:
    ps = np.random.default_rng(seed).uniform(0, 0.3, 7).tolist()
    assert [decision.p_adjusted for decision in holm_decisions(ps)] == pytest.approx(by_definition(ps))


@pytest.mark.parametrize("count", range(1, 50))
def test_a_p_exactly_at_its_level_is_rejected_and_shown_so(count: int) -> None:
    """Where count × (0.05 / count) is rounded up to more than 0.05."""
    at, above = 0.05 / count, float(np.nextafter(0.05 / count, 1))
    hit, missed = holm_decisions([at] + [1.0] * (count - 1))[0], holm_decisions([above] + [1.0] * (count - 1))[0]
    assert hit.rejected
    assert hit.p_adjusted <= 0.05
    assert not missed.rejected
    assert missed.p_adjusted > 0.05


def test_equal_ps_are_decided_alike() -> None:
    assert {decision.rejected for decision in holm_decisions([0.0125] * 4)} == {True}
    assert {decision.rejected for decision in holm_decisions([0.013] * 4)} == {False}
    assert {decision.level for decision in holm_decisions([0.013] * 4)} == {0.0125}


def invented(generator: np.random.Generator) -> Estimate:
    return Estimate(
        value=float(generator.choice([0, 2, 5, 10]) * generator.standard_normal()),
        standard_error=1.0,
        degrees=float(generator.choice([1.0, 2.5, 8.0, 40.0])),
        information=float(generator.choice([1, 2.5, 10, 30])),
        over_seeds=None,
        over_speakers=None,
        arms=(),
        speakers=0,
        unit="speakers",
        models=3,
    )


@pytest.mark.parametrize("procedure", [FixedLength(), Anytime()], ids=lambda procedure: procedure.name)
def test_an_interval_excludes_zero_exactly_where_it_is_rejected(procedure: Procedure) -> None:
    generator = np.random.default_rng(0)
    rejected = 0
    for _ in range(2000):
        family = [invented(generator) for _ in range(generator.integers(1, 12))]
        for estimate, decision in zip(family, holm_decisions([procedure.p(e) for e in family]), strict=True):
            excludes = abs(estimate.value) >= procedure.half_width(estimate, decision.level)
            assert excludes == decision.rejected == (decision.p_adjusted <= 0.05)
            rejected += decision.rejected
    assert 500 < rejected < 8000

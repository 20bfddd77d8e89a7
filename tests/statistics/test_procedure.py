"""The two procedures against scipy, the published formula, and the alarms of many looks."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import integrate, stats

from asr_ablations.statistics.estimate import Estimate, contrast_estimate
from asr_ablations.statistics.power import Anytime, FixedLength, Procedure
from asr_ablations.statistics.sample import Sample


def difference(runs: int, deviation: float = 0.01) -> Estimate:
    generator = np.random.default_rng(runs)
    arm, baseline = (Sample.of_rates(generator.normal(0.2, deviation, runs)) for _ in range(2))
    measured = contrast_estimate([(1, arm), (-1, baseline)])
    assert measured is not None
    return replace(measured, degrees=2.0 * runs - 2)


@pytest.mark.parametrize("runs", [3, 5, 10, 20])
@pytest.mark.parametrize("level", [0.05, 0.01, 0.00625])
def test_anytime_is_the_closed_formula_for_two_equal_arms(runs: int, level: float) -> None:
    """φ = 1: r = 1 / (1 + n / 2), q = (r α²)^(1 / (2n − 1)), SE √((2n − 2)(1 − q) / (q − r))."""
    measured = difference(runs)
    r = 1 / (1 + runs / 2)
    q = (r * level**2) ** (1 / (2 * runs - 1))
    expected = np.inf if q <= r else measured.standard_error * np.sqrt((2 * runs - 2) * (1 - q) / (q - r))
    assert Anytime().half_width(measured, level) == pytest.approx(expected)


@pytest.mark.parametrize(("degrees", "information", "t"), [(4, 2.5, 3.0), (18, 5.0, 2.0), (38, 10.0, 4.0)])
def test_p_at_any_time_is_one_over_the_bayes_factor(degrees: float, information: float, t: float) -> None:
    """The mixture itself, by numerical integration: the noncentral t density averaged over normal effects of variance
    information / φ, over the central one. With the right Haar prior of the variance this ratio is a martingale (Wang &
    Ramdas, §4), and 1 / ratio is a p at any time.
    """
    measured = replace(difference(3), value=t, standard_error=1.0, degrees=degrees, information=information)

    def density(effect: float) -> float:
        """Of t up to a factor that does not depend on the effect: ∫ s^ν exp(−(s² + …) / 2) ds over the scale s."""
        peak = max(1.0, np.sqrt(degrees))

        def at_scale(s: float) -> float:
            return s**degrees * np.exp(-(s**2) / 2 - (t * s / np.sqrt(degrees) - effect) ** 2 / 2)

        return integrate.quad(at_scale, 0, 6 * peak, points=[peak])[0]

    spread = np.sqrt(information)
    mixed = integrate.quad(lambda e: density(e) * stats.norm.pdf(e, scale=spread), -8 * spread, 8 * spread)[0]
    assert Anytime().p(measured) == pytest.approx(min(1.0, density(0.0) / mixed), rel=1e-3)


@pytest.mark.parametrize("procedure", [FixedLength(), Anytime()], ids=lambda procedure: procedure.name)
@pytest.mark.parametrize("runs", [5, 10, 30])
def test_p_and_interval_invert_each_other(procedure: Procedure, runs: int) -> None:
    measured = difference(runs)
    for level in (0.2, 0.05, 0.01):
        at_the_edge = replace(measured, value=procedure.half_width(measured, level))
        assert procedure.p(at_the_edge) == pytest.approx(level)


def test_anytime_says_nothing_after_three_runs() -> None:
    assert Anytime().half_width(difference(3), 0.05) == np.inf
    assert Anytime().p(replace(difference(3), value=1e9)) > 0.05


def test_the_price_of_looking_at_any_time() -> None:
    """The figures of the docstring."""
    procedures: tuple[Procedure, ...] = (Anytime(), Anytime(phi=0.25), FixedLength())
    for runs, *expected in ((5, 5.2, 4.0, 2.3), (10, 3.5, 3.5, 2.1), (20, 3.2, 3.3, 2.0)):
        measured = difference(runs)
        widths = [procedure.half_width(measured, 0.05) for procedure in procedures]
        assert np.array(widths) / measured.standard_error == pytest.approx(expected, abs=0.06)
    three = difference(3)
    assert Anytime(phi=0.25).half_width(three, 0.05) / three.standard_error == pytest.approx(7.2, abs=0.05)


def test_p_is_never_above_one() -> None:
    measured = replace(difference(5), value=0.0)
    assert (FixedLength().p(measured), Anytime().p(measured)) == (1, 1)

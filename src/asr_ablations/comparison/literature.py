"""What was published beside what was measured."""

from collections.abc import Sequence
from typing import Any

from asr_ablations.comparison.arms import find_arm
from asr_ablations.comparison.result import ALPHA, Arm, Difference
from asr_ablations.comparison.verdict import is_shown
from asr_ablations.tools.errors import UsageError


def beside_the_literature(
    ablation: dict[str, Any],
    arms: Sequence[Arm],
    baseline: Arm,
    rows: Sequence[dict[str, Any]],
    found: Sequence[Difference],
) -> list[str]:
    """Lines: the claim, every published rate with the measured one, and whether the directions agree.

    ablation.published is {arm: {set: WER in percent}}. Raises UsageError for another form.
    """  # fmt: skip
    lines = []
    source = f" ({ablation['source']})" if ablation.get("source") else ""
    if claim := ablation.get("claim"):
        lines.append(f"claim{source}: {claim}")
    published = _published(ablation, arms)
    for name, rates in published.items():
        for set_, rate in rates.items():
            measured = next((row["wer"] for row in rows if (row["arm"], row["set"]) == (name, set_)), None)
            told = "not measured" if measured is None else f"measured {100 * measured:.2f}"
            lines.append(f"{name} on {set_}: published {rate:.2f} WER, {told}")
    for one in found:
        own, base = published.get(one.arm, {}).get(one.set), published.get(baseline.name, {}).get(one.set)
        if own is not None and base is not None and one.metric == "wer":
            lines.append(_direction(one, own - base, baseline.name))
    return lines


def _direction(one: Difference, published: float, baseline: str) -> str:
    """Published differences are in percent."""
    sign = "worse" if published > 0 else "better" if published < 0 else "the same"
    told = f"{one.arm} against {baseline} on {one.set}: published {abs(published):.2f} {sign}"
    if not is_shown(one, ALPHA):
        return f"{told}; here no difference is shown, which neither agrees nor disagrees"
    agrees = (published > 0) == (one.difference > 0) and published != 0
    here = "worse" if one.difference > 0 else "better"
    return f"{told}, measured {100 * abs(one.difference):.2f} {here}: the direction {'agrees' if agrees else 'differs'}"


def _published(ablation: dict[str, Any], arms: Sequence[Arm]) -> dict[str, dict[str, float]]:
    """By the arms' own names: `0.2` in the file is the arm dropout=0.2."""
    told = ablation.get("published") or {}
    if not isinstance(told, dict) or not all(isinstance(rates, dict) for rates in told.values()):
        raise UsageError(f"ablation.published={told}: expected {{arm: {{set: WER in percent}}}}")
    by_name = {(arm.name if (arm := find_arm(str(name), arms)) else str(name)): rates for name, rates in told.items()}
    return {name: {str(set_): float(rate) for set_, rate in rates.items()} for name, rates in by_name.items()}

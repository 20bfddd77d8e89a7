"""Published results beside measured ones."""

from collections.abc import Sequence

from asr_ablations.comparison.arms import find_arm
from asr_ablations.comparison.result import Arm, TableRow, Verdict
from asr_ablations.tools.errors import UsageError
from asr_ablations.tools.files import Json

Published = dict[str, dict[str, float]]
"""WER in percent by arm and test set."""


def beside_the_literature(
    ablation: Json,
    arms: Sequence[Arm],
    baseline: Arm,
    rows: Sequence[TableRow],
    verdicts: Sequence[Verdict],
) -> list[str]:
    """Lines of text: what the source says, every published rate with the measured one, and whether directions agree.

    ablation.published is {arm: {set: WER in percent}}. Raises UsageError for another form.
    """
    published = _published(ablation, arms)
    return [
        *_statement(ablation),
        *_rates(published, rows),
        *(line for verdict in verdicts if (line := _direction(verdict, published, baseline.name))),
    ]


def _statement(ablation: Json) -> list[str]:
    source = f" ({ablation['source']})" if ablation.get("source") else ""
    return [f"claim{source}: {ablation['claim']}"] if ablation.get("claim") else []


def _rates(published: Published, rows: Sequence[TableRow]) -> list[str]:
    wer = {(row["arm"], row["set"]): row["wer"] for row in rows}
    lines = []
    for arm, rates in published.items():
        for set_, rate in rates.items():
            value = wer.get((arm, set_))
            measured = "not measured" if value is None else f"measured {100 * value:.2f}"
            lines.append(f"{arm} on {set_}: published {rate:.2f} WER, {measured}")
    return lines


def _direction(verdict: Verdict, published: Published, baseline: str) -> str | None:
    """Whether the measured difference has the sign of the published one; None without a published one."""
    contrast = verdict.contrast
    own, base = (published.get(name, {}).get(contrast.set) for name in (contrast.arm, baseline))
    if own is None or base is None or contrast.metric != "wer":
        return None
    gap = own - base
    sign = "worse" if gap > 0 else "better" if gap < 0 else "the same"
    line = f"{contrast.arm} against {baseline} on {contrast.set}: published {abs(gap):.2f} {sign}"
    if verdict.outcome not in ("better", "worse"):
        return f"{line}; here no difference is shown, which neither agrees nor disagrees"
    agreement = "agrees" if verdict.outcome == sign else "differs"
    return f"{line}, measured {100 * abs(contrast.difference):.2f} {verdict.outcome}: the direction {agreement}"


def _published(ablation: Json, arms: Sequence[Arm]) -> Published:
    """The published rates by the names of the arms: `0.2` in the file is the arm dropout=0.2."""
    given = ablation.get("published") or {}
    if not isinstance(given, dict) or not all(isinstance(rates, dict) for rates in given.values()):
        raise UsageError(f"ablation.published={given}: expected {{arm: {{set: WER in percent}}}}")
    by_name = {(arm.name if (arm := find_arm(str(name), arms)) else str(name)): rates for name, rates in given.items()}
    return {name: {str(set_): float(rate) for set_, rate in rates.items()} for name, rates in by_name.items()}

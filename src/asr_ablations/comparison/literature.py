"""Published results beside measured ones."""

from collections.abc import Sequence

from asr_ablations.comparison.arm import Arm
from asr_ablations.comparison.arms import find_arm
from asr_ablations.comparison.contrast import SHOWN, Verdict
from asr_ablations.comparison.declaration import Declaration, Published
from asr_ablations.comparison.result import TableRow


def beside_the_literature(
    declared: Declaration,
    arms: Sequence[Arm],
    baseline: Arm,
    rows: Sequence[TableRow],
    verdicts: Sequence[Verdict],
) -> list[str]:
    """Lines of text: what the source says, every published rate with the measured one, and whether directions agree."""
    published = _by_arm(declared.published, arms)
    return [
        *_statement(declared),
        *_rates(published, rows),
        *(line for verdict in verdicts if (line := _direction(verdict, published, baseline.name))),
    ]


def _statement(declared: Declaration) -> list[str]:
    source = f" ({declared.source})" if declared.source else ""
    return [f"claim{source}: {declared.claim}"] if declared.claim else []


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
    if own is None or base is None or contrast.metric != "wer" or contrast.question.kind != "arm":
        return None
    gap = own - base
    sign = "worse" if gap > 0 else "better" if gap < 0 else "the same"
    line = f"{contrast.arm} against {baseline} on {contrast.set}: published {abs(gap):.2f} {sign}"
    if verdict.outcome not in SHOWN:
        return f"{line}; here no difference is shown, which neither agrees nor disagrees"
    agreement = "agrees" if verdict.outcome == sign else "differs"
    return f"{line}, measured {100 * abs(contrast.difference):.2f} {verdict.outcome}: the direction {agreement}"


def _by_arm(published: Published, arms: Sequence[Arm]) -> Published:
    """The published rates by the names of the arms: `0.2` in the file is the arm dropout=0.2."""
    return {(arm.name if (arm := find_arm(name, arms)) else name): rates for name, rates in published.items()}

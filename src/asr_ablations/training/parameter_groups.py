"""Group a model's parameters by name, because parts of a model may have their own learning rate or weight decay."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from torch import nn

from asr_ablations.tools.checks import number
from asr_verdicts.errors import choices

RATE = "rate"
"""Key of a group whose learning rate is this multiple of the base rate. Other groups have the base rate."""


def is_within(name: str, part: object) -> bool:
    """Return whether a parameter or layer belongs to a part of the model, as recurrent.0.x belongs to recurrent.0."""
    return f"{name}.".startswith(f"{part}.")


def list_parts(names: Iterable[str]) -> str:
    """List the parts of the model to which the parameters `names` belong, for an error message."""
    return ", ".join(sorted({name.partition(".")[0] for name in names}))


def group_parameters(
    named: Sequence[tuple[str, nn.Parameter]], rates: Any = None, decay_norms_and_biases: bool = True
) -> list[dict[str, Any]]:
    """Return groups for a torch optimizer, those with the base learning rate first.

    rates: multiple of the base rate for each part of the model. The longest name that fits a parameter counts.
    decay_norms_and_biases: whether parameters with fewer than two dimensions have weight decay.
    """
    if rates is not None and not (isinstance(rates, Mapping) and rates):
        raise choices("optimizer.rates", rates, "null, or multiples of optimizer.lr by part, such as {output: 0.1}")
    factors = {part: number(f"optimizer.rates.{part}", rate, above=0) for part, rate in (rates or {}).items()}
    groups: dict[tuple[float, bool], list[tuple[str, nn.Parameter]]] = {}
    used = set()
    for name, weights in named:
        fitting = [part for part in factors if is_within(name, part)]
        used.add(part := max(fitting, key=lambda part: len(str(part)), default=None))
        decayed = decay_norms_and_biases or weights.dim() > 1
        groups.setdefault((factors.get(part, 1.0), decayed), []).append((name, weights))
    for part in factors.keys() - used:
        parts = list_parts(name for name, _ in named)
        raise choices("optimizer.rates", part, f"a part of the model that no longer name replaces: {parts}")
    return [
        {"params": members, **({} if rate == 1 else {RATE: rate}), **({} if decayed else {"weight_decay": 0.0})}
        for (rate, decayed), members in sorted(groups.items(), key=lambda item: item[0][0] != 1)
    ]

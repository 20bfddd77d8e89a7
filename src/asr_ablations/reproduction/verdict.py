"""The verdict on a reproduction: match, drift within noise, differs, or that it cannot be told; and why."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from rich.table import Table

from asr_ablations.reproduction.evidence import DETERMINING, BitComparison, Cause, FirstDifference
from asr_ablations.reproduction.seed_tolerance import FEWEST_SEEDS, SeedTolerance
from asr_verdicts.terminal import console

MATCH, DRIFT, DIFFERS, CANNOT_TELL = "match", "drift within noise", "differs", "cannot tell"


@dataclass(frozen=True)
class ReproductionVerdict:
    """name: one of MATCH, DRIFT, DIFFERS and CANNOT_TELL; why: the reason in one sentence; the rest is what the verdict
    is based on. noise: by test set.
    """

    name: str
    why: str
    evidence: BitComparison
    causes: Sequence[Cause]
    noise: Mapping[str, SeedTolerance]

    def as_json(self) -> dict[str, object]:
        """The verdict as reproduction.json holds it."""
        evidence = self.evidence
        return {
            "verdict": self.name,
            "why": self.why,
            "rates": {name: {"original": old, "reproduction": new} for name, (old, new) in evidence.rates.items()},
            "noise": {name: asdict(noise) for name, noise in self.noise.items()},
            "differences": [asdict(cause) for cause in self.causes],
            "steps": evidence.steps,
            "utterances": evidence.utterances,
            "first_difference": _first_difference(evidence.first_difference),
            "metrics": evidence.metrics,
            "hypotheses": evidence.hypotheses,
            "weights": evidence.weights,
            "missing": evidence.missing,
        }


def _first_difference(difference: FirstDifference | None) -> dict[str, object] | None:
    if difference is None:
        return None
    losses = {"original": difference.original, "reproduction": difference.reproduction}
    return {"step": difference.step, "steps_per_epoch": difference.steps_per_epoch, **losses}


def judge(evidence: BitComparison, causes: Sequence[Cause], noise: Mapping[str, SeedTolerance]) -> ReproductionVerdict:
    """Judge a reproduction. Bit for bit the same is a match. Drift is what another machine may cause, within the seed
    noise; a difference caused by another config, other data or other code is never drift, however small it is. Where
    the seed noise is not known well enough on any test set, no WER tells drift from a difference.
    """
    name, why = _judged(evidence, causes, noise)
    return ReproductionVerdict(name, why, evidence, causes, noise)


def _judged(evidence: BitComparison, causes: Sequence[Cause], noise: Mapping[str, SeedTolerance]) -> tuple[str, str]:
    """Name and reason of the verdict."""
    if evidence.equal:
        return MATCH, f"{_what_is_equal(evidence)} equal bit for bit"
    difference = describe(evidence.first_difference)
    kinds = [kind for kind in DETERMINING if any(cause.kind == kind for cause in causes)]
    if kinds:
        return DIFFERS, f"the {' and '.join(kinds)} {'are' if kinds[1:] else 'is'} not the same; {difference}"
    limits = {name: noise[name].limit for name in evidence.rates if name in noise}
    known = {name: limit for name, limit in limits.items() if limit is not None}
    if not known:
        return (
            CANNOT_TELL,
            f"{difference}; {FEWEST_SEEDS} or more seeds in the original's sweep would show the seed noise",
        )
    rates = evidence.rates
    beyond = [name for name, limit in known.items() if abs(rates[name][1] - rates[name][0]) > limit]
    if beyond:
        return DIFFERS, f"{difference}, and the WER on {', '.join(beyond)} differs by more than the seed noise"
    if evidence.exact and not causes:
        return DIFFERS, f"{difference}, though nothing else differs: a file of the original may have been changed"
    unknown = [name for name in rates if name not in known]
    rest = f"; on {', '.join(unknown)} that noise is unknown" if unknown else ""
    return DRIFT, f"{difference}, and the WER on {', '.join(known)} differs by no more than the seed noise{rest}"


def _what_is_equal(evidence: BitComparison) -> str:
    parts = [f"the losses of all {evidence.steps} steps"] if evidence.steps else []
    parts += ["metrics", f"hypotheses of {evidence.utterances} utterances"]
    if evidence.weights[0]:
        parts.append(f"weights (SHA-256 {evidence.weights[0][:8]}…)")
    missing = f" (not compared, since the original has no {' and no '.join(evidence.missing)})"
    return f"{', '.join(parts[:-1])} and {parts[-1]}{missing if evidence.missing else ''} are"


def describe(difference: FirstDifference | None) -> str:
    """The first step at which the losses differ, with its epoch and both losses."""
    if difference is None:
        return "the losses are equal at every step, but what follows from them differs"
    epoch, batch = divmod(difference.step - 1, difference.steps_per_epoch)
    original, reproduction = (
        "no loss" if loss is None else repr(loss) for loss in (difference.original, difference.reproduction)
    )
    return (
        f"losses first differ at step {difference.step} (epoch {epoch + 1}, batch {batch + 1}): "
        f"{original} then, {reproduction} now"
    )


LONGEST = 60
"""Characters of a value that are shown; reproduction.json holds all of them."""


def print_verdict(verdict: ReproductionVerdict) -> None:
    """Print the error rates side by side, the seed noise, every difference, and last the verdict."""
    terminal = console()
    terminal.print(_rates(verdict))
    lines = [noise_line(name, noise) for name, noise in verdict.noise.items()]
    if verdict.causes:
        lines += ["differences other than the results:", *(f"  {cause_line(cause)}" for cause in verdict.causes)]
    for line in [*lines, f"{verdict.name}: {verdict.why}"]:
        terminal.print(line, markup=False, soft_wrap=True)


def _rates(verdict: ReproductionVerdict) -> Table:
    table = Table("set", "original WER %", "reproduction WER %", "difference")
    for column in table.columns[1:]:
        column.justify = "right"
    for name, (old, new) in verdict.evidence.rates.items():
        table.add_row(name, f"{100 * old:.2f}", f"{100 * new:.2f}", f"{100 * (new - old):+.2f}")
    return table


def noise_line(name: str, noise: SeedTolerance) -> str:
    """The seed noise of a test set in one line, in percent."""
    deviation = "" if noise.deviation is None else f"sd {100 * noise.deviation:.2f}, "
    if noise.limit is None:
        return f"seed noise on {name}: {deviation}too few seeds to tell ({noise.source}; {FEWEST_SEEDS} are needed)"
    return f"seed noise on {name}: {deviation}two runs differ by up to {100 * noise.limit:.2f} ({noise.source})"


def cause_line(cause: Cause) -> str:
    """One difference in one line."""
    if cause.kind == "code" and ("/" in cause.what or cause.what.endswith(".py")):  # hashes of files say nothing
        return f"code: {cause.what} {_fate(cause)}"
    return f"{cause.kind}: {cause.what}: {_short(cause.original)} then, {_short(cause.reproduction)} now"


def _fate(cause: Cause) -> str:
    return "is new" if cause.original is None else "is gone" if cause.reproduction is None else "has changed"


def _short(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} {_short(content)}" for key, content in value.items())
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= LONGEST else f"{text[:12]}…"

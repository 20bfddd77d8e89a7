"""The verdict on a reproduction: match, drift within noise, differs, or that it cannot be told; and why."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from asr_ablations.reproduction.causes import DETERMINING, Cause
from asr_ablations.reproduction.evidence import Evidence, FirstDifference
from asr_ablations.reproduction.noise import FEWEST_SEEDS, Noise
from asr_ablations.tools.files import Json

MATCH, DRIFT, DIFFERS, CANNOT_TELL = "match", "drift within noise", "differs", "cannot tell"


@dataclass(frozen=True)
class Verdict:
    """name: one of MATCH, DRIFT, DIFFERS and CANNOT_TELL; why: the reason in one sentence; the rest is what the verdict
    is based on. noise: by test set.
    """

    name: str
    why: str
    evidence: Evidence
    causes: Sequence[Cause]
    noise: Mapping[str, Noise]

    def as_json(self) -> Json:
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


def _first_difference(difference: FirstDifference | None) -> Json | None:
    if difference is None:
        return None
    losses = {"original": difference.original, "reproduction": difference.reproduction}
    return {"step": difference.step, "steps_per_epoch": difference.steps_per_epoch, **losses}


def judge(evidence: Evidence, causes: Sequence[Cause], noise: Mapping[str, Noise]) -> Verdict:
    """Judge a reproduction. Bit for bit the same is a match. Drift is what another machine may cause, within the seed
    noise; a difference caused by another config, other data or other code is never drift, however small it is. Where
    the seed noise is not known well enough on any test set, no WER tells drift from a difference.
    """
    name, why = _judged(evidence, causes, noise)
    return Verdict(name, why, evidence, causes, noise)


def _judged(evidence: Evidence, causes: Sequence[Cause], noise: Mapping[str, Noise]) -> tuple[str, str]:
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


def _what_is_equal(evidence: Evidence) -> str:
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

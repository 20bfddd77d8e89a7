"""Match, drift within noise, or differs; and why."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from asr_ablations.reproduction.causes import DETERMINING, Cause
from asr_ablations.reproduction.evidence import Evidence, Parting
from asr_ablations.reproduction.noise import Noise

MATCH, DRIFT, DIFFERS = "match", "drift within noise", "differs"


@dataclass(frozen=True)
class Verdict:
    """name: one of the three; why: in a sentence; the rest is what it was judged by."""

    name: str
    why: str
    evidence: Evidence
    causes: Sequence[Cause]
    noise: Mapping[str, Noise]

    def told(self) -> dict[str, Any]:
        """For reproduction.json."""
        evidence = asdict(self.evidence)
        rates = {name: {"original": was, "reproduction": now} for name, (was, now) in evidence.pop("rates").items()}
        return {
            "verdict": self.name,
            "why": self.why,
            "rates": rates,
            "noise": {name: asdict(one) for name, one in self.noise.items()},
            "differences": [asdict(cause) for cause in self.causes],
            **evidence,
        }


def judge(evidence: Evidence, causes: Sequence[Cause], noise: Mapping[str, Noise]) -> Verdict:
    """Bit for bit the same is a match. Drift is what another machine may cause, within the noise of seeds: not what
    another config, other data or other code do, however little that is.
    """
    name, why = _judged(evidence, causes, noise)
    return Verdict(name, why, evidence, causes, noise)


def _judged(evidence: Evidence, causes: Sequence[Cause], noise: Mapping[str, Noise]) -> tuple[str, str]:
    if evidence.equal:
        return MATCH, f"{_what_is_equal(evidence)} equal bit for bit"
    parted = told_parting(evidence.parting)
    kinds = [kind for kind in DETERMINING if any(cause.kind == kind for cause in causes)]
    if kinds:
        return DIFFERS, f"the {' and '.join(kinds)} {'are' if kinds[1:] else 'is'} not the same; {parted}"
    known = {name: pair for name, pair in evidence.rates.items() if name in noise}
    if not known:
        return DIFFERS, f"{parted}, and nothing is known of the noise of seeds here (runs with other seeds tell it)"
    beyond = [name for name, (was, now) in known.items() if abs(now - was) > noise[name].limit]
    if beyond:
        return DIFFERS, f"{parted}, and the WER on {', '.join(beyond)} differs by more than the noise of seeds"
    return DRIFT, f"{parted}, and the WER on {', '.join(known)} differs by no more than seeds make it differ"


def _what_is_equal(evidence: Evidence) -> str:
    parts = [f"the losses of all {evidence.steps} steps"] if evidence.steps else []
    parts += ["metrics", f"hypotheses of {evidence.utterances} utterances"]
    if evidence.weights[0]:
        parts.append(f"weights (SHA-256 {evidence.weights[0][:8]}…)")
    lacking = f" (not compared, since the original has no {' and no '.join(evidence.missing)})"
    return f"{', '.join(parts[:-1])} and {parts[-1]}{lacking if evidence.missing else ''} are"


def told_parting(parting: Parting | None) -> str:
    """Where the losses part, in words."""
    if parting is None:
        return "the losses are equal at every step, what follows from them is not"
    epoch, batch = divmod(parting.step - 1, parting.steps_an_epoch)
    values = ["no loss" if value is None else repr(value) for value in (parting.original, parting.reproduction)]
    return (
        f"losses part at step {parting.step} (epoch {epoch + 1}, batch {batch + 1}): {values[0]} then, {values[1]} now"
    )

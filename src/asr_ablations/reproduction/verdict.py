"""The verdict on a reproduction: match, drift within noise, differs, or that it cannot be told; and why."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.table import Table

from asr_ablations.reproduction.evidence import DETERMINING, BitComparison, Cause, FirstDifference
from asr_ablations.runs.records import load
from asr_verdicts.errors import UsageError
from asr_verdicts.record import Record
from asr_verdicts.statistics.distributions import normal_bound, t_bound
from asr_verdicts.statistics.sample import mean_and_deviation
from asr_verdicts.terminal import console

LIBRISPEECH_SEEDS = (0.0006, 0.0017)
"""WER of LibriSpeech test-clean varies by 0.06 to 0.17 points between seeds, in AlgoPerf's training logs."""

FEWEST_SEEDS = 4
"""With three seeds the limit would be 6 standard deviations, with two 18: nearly everything would lie within it."""

ALPHA = 0.05
"""The chance that a reproduction that differs in nothing but chance lies beyond the limit on any of its test sets."""


@dataclass(frozen=True)
class SeedTolerance:
    """The seed noise of one test set, WER as fractions.

    limit: the largest difference of two runs that counts as noise, None where too little is known to tell; deviation:
    the standard deviation over seeds, None where it was not measured; source: where the numbers come from.
    """

    limit: float | None
    deviation: float | None
    source: str


def measure_noise(original: Record, sweep: Path) -> dict[str, SeedTolerance]:
    """Measure the seed noise of every test set from the siblings of the original, FEWEST_SEEDS or more.

    With fewer it is the published noise of LibriSpeech test-clean. The sets share ALPHA (Bonferroni).
    """
    runs = {run.seed: run for run in find_siblings(original, sweep)}
    sets = original.summary.test_sets
    result = {}
    for name in sets:
        rates = [rate for run in runs.values() if (rate := run.value(name, "wer")) is not None]
        librispeech = str(original.config["data"].get("_target_")).endswith(".LibriSpeech")
        if len(rates) < FEWEST_SEEDS and name == "test-clean" and librispeech:
            result[name] = use_published(len(sets))
        else:
            words = original.value(name, "words")
            result[name] = estimate_from_seeds(rates, 1 / words if words else 0.0, len(sets))
    return result


def find_siblings(original: Record, sweep: Path) -> list[Record]:
    """The original, and the finished runs of its sweep that differ from it in the seed alone."""
    try:
        runs = load([sweep]).runs
    except UsageError:  # one of them is damaged: that does not keep the original from being reproduced
        return [original]
    return [original, *(run for run in runs if run.seed != original.seed and run.content == original.content)]


def estimate_from_seeds(rates: Sequence[float], grain: float, sets: int = 1) -> SeedTolerance:
    """The noise of runs with several seeds: the differences of two runs stay below the limits of all `sets` test sets
    in 95 of 100 pairs or more. Under FEWEST_SEEDS there is no limit.

    The limit is t · √2 · sd, with Student's t for the seeds that sd was estimated from (ISO 5725-6's repeatability
    limit, for few runs). grain: the WER of a single error; rates are rounded to it, and cannot be known better.
    """
    deviation = mean_and_deviation(rates)[1] if rates else None
    source = f"{len(rates)} seed{'s' if len(rates) > 1 else ''} of this run's sweep"
    if deviation is None or len(rates) < FEWEST_SEEDS:
        return SeedTolerance(None, deviation, source)
    quantile = t_bound(ALPHA / sets / 2, len(rates) - 1)
    return SeedTolerance(quantile * math.sqrt(2) * max(deviation, grain / math.sqrt(12)), deviation, source)


def use_published(sets: int = 1) -> SeedTolerance:
    """Use the upper end of the published noise of LibriSpeech test-clean: the limit is z · √2 · sd."""
    quantile = normal_bound(ALPHA / sets / 2)
    source = "too few seeds in this run's sweep; AlgoPerf's logs have sd 0.06 to 0.17 on LibriSpeech test-clean"
    return SeedTolerance(quantile * math.sqrt(2) * LIBRISPEECH_SEEDS[1], None, source)


MATCH, DRIFT, DIFFERS, CANNOT_TELL = "match", "drift within noise", "differs", "cannot tell"


@dataclass(frozen=True)
class ReproductionVerdict:
    """name: MATCH, DRIFT, DIFFERS or CANNOT_TELL; why: the reason in one sentence; noise: by test set."""

    name: str
    why: str
    evidence: BitComparison
    causes: Sequence[Cause]
    noise: Mapping[str, SeedTolerance]

    def as_json(self) -> dict[str, object]:
        """The verdict as reproduction.json holds it."""
        evidence = asdict(self.evidence)
        rates = {name: {"original": old, "reproduction": new} for name, (old, new) in evidence.pop("rates").items()}
        del evidence["exact"]
        return {
            "verdict": self.name,
            "why": self.why,
            "rates": rates,
            "noise": {name: asdict(noise) for name, noise in self.noise.items()},
            "differences": [asdict(cause) for cause in self.causes],
            **evidence,
        }


def judge(evidence: BitComparison, causes: Sequence[Cause], noise: Mapping[str, SeedTolerance]) -> ReproductionVerdict:
    """Judge a reproduction: bit for bit the same is a match, and within the seed noise it is drift.

    A difference by another config, other data or other code is never drift. Without a known noise, none can be told.
    """
    name, why = _decide(evidence, causes, noise)
    return ReproductionVerdict(name, why, evidence, causes, noise)


def _decide(evidence: BitComparison, causes: Sequence[Cause], noise: Mapping[str, SeedTolerance]) -> tuple[str, str]:
    """Name and reason of the verdict."""
    if evidence.equal:
        parts = [f"the losses of all {evidence.steps} steps"] if evidence.steps else []
        parts += ["metrics", f"hypotheses of {evidence.utterances} utterances"]
        parts += [f"weights (SHA-256 {evidence.weights[0][:8]}…)"] if evidence.weights[0] else []
        missing = f" (not compared, since the original has no {' and no '.join(evidence.missing)})"
        compared = f"{', '.join(parts[:-1])} and {parts[-1]}{missing if evidence.missing else ''}"
        return MATCH, f"{compared} are equal bit for bit"
    difference = describe(evidence.first_difference)
    kinds = [kind for kind in DETERMINING if any(cause.kind == kind for cause in causes)]
    if kinds:
        return DIFFERS, f"the {' and '.join(kinds)} {'are' if kinds[1:] else 'is'} not the same; {difference}"
    limits = {name: noise[name].limit for name in evidence.rates if name in noise}
    rates, measured = evidence.rates, {name: limit for name, limit in limits.items() if limit is not None}
    if not measured:
        remedy = f"{FEWEST_SEEDS} or more seeds in the original's sweep would show the seed noise"
        return CANNOT_TELL, f"{difference}; {remedy}"
    beyond = [name for name, limit in measured.items() if abs(rates[name][1] - rates[name][0]) > limit]
    if beyond:
        return DIFFERS, f"{difference}, and the WER on {', '.join(beyond)} differs by more than the seed noise"
    if evidence.exact and not causes:
        return DIFFERS, f"{difference}, though nothing else differs: a file of the original may have been changed"
    unknown = [name for name in rates if name not in measured]
    rest = f"; on {', '.join(unknown)} that noise is unknown" if unknown else ""
    return DRIFT, f"{difference}, and the WER on {', '.join(measured)} differs by no more than the seed noise{rest}"


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


LONGEST = 60  # characters of a value that are shown; reproduction.json holds all of them


def print_verdict(verdict: ReproductionVerdict) -> None:
    """Print the error rates side by side, the seed noise, every difference, and last the verdict."""
    terminal = console()
    table = Table("set", "original WER %", "reproduction WER %", "difference")
    for column in table.columns[1:]:
        column.justify = "right"
    for name, (old, new) in verdict.evidence.rates.items():
        table.add_row(name, f"{100 * old:.2f}", f"{100 * new:.2f}", f"{100 * (new - old):+.2f}")
    terminal.print(table)
    lines = [noise_line(name, noise) for name, noise in verdict.noise.items()]
    if verdict.causes:
        lines += ["differences other than the results:", *(f"  {cause_line(cause)}" for cause in verdict.causes)]
    for line in [*lines, f"{verdict.name}: {verdict.why}"]:
        terminal.print(line, markup=False, soft_wrap=True)


def noise_line(name: str, noise: SeedTolerance) -> str:
    """The seed noise of a test set in one line, in percent."""
    deviation = "" if noise.deviation is None else f"sd {100 * noise.deviation:.2f}, "
    if noise.limit is None:
        return f"seed noise on {name}: {deviation}too few seeds to tell ({noise.source}; {FEWEST_SEEDS} are needed)"
    return f"seed noise on {name}: {deviation}two runs differ by up to {100 * noise.limit:.2f} ({noise.source})"


def cause_line(cause: Cause) -> str:
    """One difference in one line."""
    if cause.kind == "code" and ("/" in cause.what or cause.what.endswith(".py")):  # hashes of files say nothing
        fate = "is new" if cause.original is None else "is gone" if cause.reproduction is None else "has changed"
        return f"code: {cause.what} {fate}"
    return f"{cause.kind}: {cause.what}: {_short(cause.original)} then, {_short(cause.reproduction)} now"


def _short(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} {_short(content)}" for key, content in value.items())
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= LONGEST else f"{text[:12]}…"

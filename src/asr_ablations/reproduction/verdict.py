"""Compare a run with its reproduction bit for bit, find the possible causes of differences, and judge the result."""

import hashlib
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import zip_longest
from pathlib import Path

from rich.table import Column, Table

from asr_ablations.runs.layout import CHECKPOINTS, LAST, LOSSES, last_checkpoint
from asr_ablations.runs.reader import read_checkpoint, read_losses
from asr_ablations.runs.records import load
from asr_ablations.tools.typed_json import as_json
from asr_verdicts.config import determining, differences
from asr_verdicts.errors import UsageError
from asr_verdicts.files import Json
from asr_verdicts.record import DataRecord, Environment, Record
from asr_verdicts.statistics.distributions import t_bound
from asr_verdicts.statistics.sample import mean_and_deviation
from asr_verdicts.terminal import console

NUMBERS = ("epoch", "step", "validation/", "train/loss", "train/gradient_norm", "train/learning_rate")
"""Prefixes of the columns of metrics.csv that do not depend on the machine's speed."""


@dataclass(frozen=True)
class FirstDifference:
    """The first step, counted from 1, whose losses (in nats) differ. A loss is None if the run ended earlier."""

    step: int
    steps_per_epoch: int
    original: float | None
    reproduction: float | None


@dataclass(frozen=True)
class BitComparison:
    """All differences between two runs, and the amount of compared data.

    - first_difference: None if all losses are equal; metrics, hypotheses: differences, as "key, epoch" and "set/id"
    - weights: SHA-256 of the original's and the reproduction's last weights; "" if there is no checkpoint
    - rates: the original's and the reproduction's WER as fractions, by test set
    - missing: files that cannot be compared because the original's folder lacks them
    - exact: whether equal inputs must give equal bits, which GPUs do not guarantee
    """

    steps: int
    utterances: int
    first_difference: FirstDifference | None
    metrics: list[str]
    hypotheses: list[str]
    weights: tuple[str, str]
    rates: dict[str, tuple[float, float]]
    missing: list[str] = field(default_factory=list)
    exact: bool = True

    @property
    def equal(self) -> bool:
        """Return whether all compared data are equal bit for bit."""
        return not (self.first_difference or self.metrics or self.hypotheses) and len({*filter(None, self.weights)}) < 2


def compare_bits(original: Record, reproduction: Record) -> BitComparison:
    """Compare the results of two finished runs bit for bit."""
    losses, new_losses = read_losses(original.folder), read_losses(reproduction.folder)
    epochs = original.summary.epochs or 1
    weights = weights_hash(original.folder), weights_hash(reproduction.folder)
    compared = {LOSSES: losses, f"{CHECKPOINTS}/{LAST}": weights[0]}
    sets, new_sets = original.measured, reproduction.measured
    names = [name for name in original.summary.test_sets if name in sets and name in new_sets]
    return BitComparison(
        steps=len(losses),
        utterances=len(original.utterances),
        first_difference=_first_difference(losses, new_losses, epochs) if losses else None,
        metrics=_differing_metrics(original, reproduction),
        hypotheses=_differing_hypotheses(original, reproduction),
        weights=weights,
        rates={name: (sets[name].wer, new_sets[name].wer) for name in names},
        missing=[name for name, content in compared.items() if not content],
        exact=not original.environment.hardware.gpus,
    )


def weights_hash(folder: Path) -> str:
    """Return a SHA-256 of the names, types, shapes and bytes of a run's last weights; "" if it has no checkpoint."""
    import torch

    if not (path := last_checkpoint(folder)).exists():
        return ""
    digest = hashlib.sha256()
    for name, tensor in sorted(read_checkpoint(path)["state_dict"].items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        digest.update(tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def _first_difference(original: list[str], reproduction: list[str], epochs: int) -> FirstDifference | None:
    for step, texts in enumerate(zip_longest(original, reproduction), start=1):
        if texts[0] != texts[1]:
            values = [None if text is None else float(text) for text in texts]
            return FirstDifference(step, max(1, len(original) // epochs), *values)
    return None


def _differing_metrics(original: Record, reproduction: Record) -> list[str]:
    rows: Iterator[tuple[Json, Json]] = zip_longest(original.metrics, reproduction.metrics, fillvalue={})
    return [
        f"{key}, epoch {int({**new_row, **row}.get('epoch') or 0) + 1}"
        for row, new_row in rows
        for key in sorted({*row, *new_row})
        if key.startswith(NUMBERS) and repr(row.get(key)) != repr(new_row.get(key))  # repr: nan equals nan
    ]


def _differing_hypotheses(original: Record, reproduction: Record) -> list[str]:
    texts, new_texts = (
        {f"{row['set']}/{row['id']}": (row["reference"], row["hypothesis"]) for row in run.utterances}
        for run in (original, reproduction)
    )
    return sorted(name for name in {*texts, *new_texts} if texts.get(name) != new_texts.get(name))


DETERMINING = ("config", "data", "code")
"""Kinds of causes that make the reproduction a different experiment. Other causes should only change the last bits."""


@dataclass(frozen=True)
class Cause:
    """A possible cause of different results.

    - kind: config, data, code, versions or hardware
    - what: the key, data set, source file or package that differs
    - original, reproduction: the differing value in each run
    """

    kind: str
    what: str
    original: object
    reproduction: object


ANY_ORDER = Cause("hardware", "sums on a GPU", *["in any order: cuDNN may add up gradients with atomics"] * 2)
"""Equal runs on one GPU may differ in their last bits (cuDNN's documentation, "Reproducibility (Determinism)")."""


def find_causes(original: Record, reproduction: Record) -> list[Cause]:
    """Return all differences between two runs except those in their results. Config, data and code come first."""
    result = [
        *find_edits(original),
        *_differing("config", determining(original.config), determining(reproduction.config)),
        *_differing("data", _describe_data(original.data), _describe_data(reproduction.data)),
    ]
    # a resumed run may have continued with other code, or on another machine
    for other in (*original.environment.sessions[1:], *reproduction.environment.sessions):
        result += [cause for cause in compare_environments(original.environment, other) if cause not in result]
    if reproduction.config.get("gpus") != 0 and reproduction.environment.hardware.gpus:
        result.append(ANY_ORDER)
    return sorted(result, key=lambda cause: (*DETERMINING, cause.kind).index(cause.kind))


def find_edits(original: Record) -> list[Cause]:
    """Return the differences between the config in the last checkpoint and config.yaml, which may have been edited."""
    path = last_checkpoint(original.folder)
    run = read_checkpoint(path).get("run") if path.exists() else None
    config = run.get("config") if isinstance(run, dict) else None
    return _differing("config", determining(config), determining(original.config)) if isinstance(config, dict) else []


def _describe_data(data: DataRecord) -> dict[str, object]:
    """Return the recorded description of each data set, and the alphabet."""
    sets = {name: as_json(content) for name, content in data.sets.items()}
    return {**sets, "alphabet": data.alphabet, "separation": data.separation}


def compare_environments(original: Environment, other: Environment) -> list[Cause]:
    """Return the differences in code (by source file), in package versions, and in hardware, including threads."""
    return [
        *_differing("code", {"behaviour": original.behaviour}, {"behaviour": other.behaviour}),
        *_differing("code", original.code.files or {}, other.code.files or {}),
        *_differing("versions", original.versions, other.versions),
        *_differing("hardware", as_json(original.hardware), as_json(other.hardware)),
    ]


def _differing(kind: str, original: Mapping[str, object], reproduction: Mapping[str, object]) -> list[Cause]:
    return [Cause(kind, key, old, new) for key, old, new in differences(original, reproduction)]


FEWEST_SEEDS = 4
"""Fewest seeds for a limit. With 3 seeds, the limit would be 6 standard deviations, which excludes almost nothing."""

ALPHA = 0.05
"""Probability that seed noise alone exceeds the limit on at least one test set."""


@dataclass(frozen=True)
class SeedTolerance:
    """The seed noise of one test set, with WERs as fractions.

    - limit: largest difference between two runs that counts as noise; None if there are too few seeds
    - deviation: standard deviation over seeds; None for a single seed
    - seeds: number of seeds with the original's config in the original's sweep
    """

    limit: float | None
    deviation: float | None
    seeds: int


def measure_noise(original: Record) -> dict[str, SeedTolerance]:
    """Measure the seed noise of each test set, from the runs in the original's sweep that differ only in the seed."""
    try:
        siblings = [run for run in load([original.folder.parent]).runs if run.content == original.content]
    except UsageError:  # a damaged sibling must not prevent the reproduction
        siblings = []
    runs = {run.seed: run for run in [*siblings, original]}
    sets = original.summary.test_sets
    result = {}
    for name in sets:
        rates = [rate for run in runs.values() if (rate := run.value(name, "wer")) is not None]
        words = original.value(name, "words")
        result[name] = estimate_from_seeds(rates, 1 / words if words else 0.0, len(sets))
    return result


def estimate_from_seeds(rates: Sequence[float], grain: float, sets: int = 1) -> SeedTolerance:
    """Estimate the seed noise of one of `sets` test sets from the WER of each seed.

    With probability 1 − ALPHA, two runs that differ only in the seed are within the limits on all test sets
    (Bonferroni). The limit is t · √2 · sd, with Student's t for the number of seeds (repeatability limit of ISO 5725-6,
    for few runs). grain: WER of a single error, whose rounding error is a lower bound for the standard deviation.
    """
    deviation = mean_and_deviation(rates)[1] if rates else None
    if deviation is None or len(rates) < FEWEST_SEEDS:
        return SeedTolerance(None, deviation, len(rates))
    limit = t_bound(ALPHA / sets / 2, len(rates) - 1) * math.sqrt(2) * max(deviation, grain / math.sqrt(12))
    return SeedTolerance(limit, deviation, len(rates))


MATCH, DRIFT, DIFFERS, CANNOT_TELL = "match", "drift within noise", "differs", "cannot tell"


@dataclass(frozen=True)
class ReproductionVerdict:
    """A verdict with its evidence.

    - name: MATCH, DRIFT, DIFFERS or CANNOT_TELL; why: the reason in one sentence
    - noise: the seed noise, by test set
    """

    name: str
    why: str
    evidence: BitComparison
    causes: Sequence[Cause]
    noise: Mapping[str, SeedTolerance]

    def as_json(self) -> dict[str, object]:
        """Return the contents of reproduction.json that describe the verdict."""
        rates = {name: {"original": old, "reproduction": new} for name, (old, new) in self.evidence.rates.items()}
        return {
            "verdict": self.name,
            "why": self.why,
            "noise": {name: asdict(noise) for name, noise in self.noise.items()},
            "differences": [asdict(cause) for cause in self.causes],
            **asdict(self.evidence),
            "rates": rates,
        }


def judge(evidence: BitComparison, causes: Sequence[Cause], noise: Mapping[str, SeedTolerance]) -> ReproductionVerdict:
    """Judge a reproduction.

    Equal bits are a match. Different bits are drift if config, data and code are equal, the WERs differ by no more than
    the seed noise, and versions or hardware explain the bits. The verdict is CANNOT_TELL if the seed noise is unknown.
    """
    return ReproductionVerdict(*_decide(evidence, causes, noise), evidence, causes, noise)


def _decide(evidence: BitComparison, causes: Sequence[Cause], noise: Mapping[str, SeedTolerance]) -> tuple[str, str]:
    """Return the verdict's name, such as MATCH, and the reason for it."""
    if evidence.equal:
        parts = [f"the losses of all {evidence.steps} steps"] if evidence.steps else []
        parts += ["metrics", f"hypotheses of {evidence.utterances} utterances"]
        parts += [f"weights (SHA-256 {evidence.weights[0][:8]}…)"] if evidence.weights[0] else []
        missing = f" (not compared, because the original lacks them: {', '.join(evidence.missing)})"
        compared = f"{', '.join(parts[:-1])} and {parts[-1]}{missing if evidence.missing else ''}"
        return MATCH, f"{compared} are equal bit for bit"
    difference = describe(evidence.first_difference)
    kinds = [kind for kind in DETERMINING if any(cause.kind == kind for cause in causes)]
    if kinds:
        return DIFFERS, f"the {' and '.join(kinds)} {'are' if kinds[1:] else 'is'} not the same; {difference}"
    rates = evidence.rates
    measured = {name: limit for name in rates if name in noise and (limit := noise[name].limit) is not None}
    if not measured:
        remedy = f"estimating the seed noise needs at least {FEWEST_SEEDS} seeds in the original's sweep"
        return CANNOT_TELL, f"{difference}; {remedy}"
    beyond = [name for name, limit in measured.items() if abs(rates[name][1] - rates[name][0]) > limit]
    if beyond:
        return DIFFERS, f"{difference}, and the WER on {', '.join(beyond)} differs by more than the seed noise"
    if evidence.exact and not causes:
        return DIFFERS, f"{difference}, although nothing else differs: a file of the original may have been changed"
    unknown = [name for name in rates if name not in measured]
    rest = f"; the seed noise on {', '.join(unknown)} is unknown" if unknown else ""
    return DRIFT, f"{difference}, and the WER on {', '.join(measured)} differs by no more than the seed noise{rest}"


LONGEST = 60  # maximum number of characters of a printed value


def describe(difference: FirstDifference | None) -> str:
    """Describe the first step at which the losses differ, with its epoch, its batch and both losses."""
    if difference is None:
        return "the losses are equal at every step, but later results differ"
    epoch, batch = divmod(difference.step - 1, difference.steps_per_epoch)
    original, reproduction = (
        "no loss" if loss is None else repr(loss) for loss in (difference.original, difference.reproduction)
    )
    return (
        f"losses first differ at step {difference.step} (epoch {epoch + 1}, batch {batch + 1}): "
        f"{original} then, {reproduction} now"
    )


def print_verdict(verdict: ReproductionVerdict) -> None:
    """Print the error rates in a table, then the seed noise, the causes of differences, and finally the verdict."""
    terminal = console()
    numbers = ("original WER %", "reproduction WER %", "difference")
    table = Table("set", *(Column(name, justify="right") for name in numbers))
    for name, (old, new) in verdict.evidence.rates.items():
        table.add_row(name, f"{100 * old:.2f}", f"{100 * new:.2f}", f"{100 * (new - old):+.2f}")
    terminal.print(table)
    lines = [noise_line(name, noise) for name, noise in verdict.noise.items()]
    if verdict.causes:
        lines += ["differences other than the results:", *(f"  {cause_line(cause)}" for cause in verdict.causes)]
    for line in [*lines, f"{verdict.name}: {verdict.why}"]:
        terminal.print(line, markup=False, soft_wrap=True)


def noise_line(name: str, noise: SeedTolerance) -> str:
    """Format the seed noise of a test set in one line, in percentage points of WER."""
    deviation = "" if noise.deviation is None else f"sd {100 * noise.deviation:.2f}, "
    limit = "too few to tell" if noise.limit is None else f"two runs differ by up to {100 * noise.limit:.2f}"
    return f"seed noise on {name}: {deviation}{limit} (seeds in this run's sweep: {noise.seeds})"


def cause_line(cause: Cause) -> str:
    """Format a cause in one line. Long values such as hashes are truncated; reproduction.json has the full values."""
    if cause.kind == "code" and ("/" in cause.what or cause.what.endswith(".py")):  # do not print the file's hashes
        fate = "is new" if cause.original is None else "is gone" if cause.reproduction is None else "has changed"
        return f"code: {cause.what} {fate}"
    texts = (value if isinstance(value, str) else json.dumps(value) for value in (cause.original, cause.reproduction))
    old, new = (text if len(text) <= LONGEST else f"{text[:12]}…" for text in texts)
    return f"{cause.kind}: {cause.what}: {old} then, {new} now"

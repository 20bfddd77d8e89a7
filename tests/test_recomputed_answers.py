"""The answers in sweeps/RESULTS.md follow from the records: recomputed without any code of the project."""

import csv
import io
import json
import re
import tarfile
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from math import exp, inf, sqrt
from typing import Any, NamedTuple

import numpy as np
import pytest
import yaml
from numpy.typing import NDArray
from scipy import stats

from asr_ablations.tools.files import REPOSITORY

SWEEPS = REPOSITORY / "sweeps"
RESULTS = (SWEEPS / "RESULTS.md").read_text(encoding="utf-8")
QUESTION = re.compile(
    r"\[(?P<sweep>\w+)\]\(#\w+\): (?P<arm>.+?) against (?P<baseline>.+?)"
    r"(?:, (?:at (?P<at>.+?)(?: less at (?P<less>.+?))?|averaged over .+?))?(?: \(with .*\))?"
)
NUMBER = r"[+-]\d+\.\d\d"
DIFFERENCE = re.compile(rf"(?P<value>{NUMBER}) (?P<metric>WER|CER) \((?P<low>{NUMBER}) to (?P<high>{NUMBER})\)")
TEST_SET = re.compile(r".+; (?P<set>[^ ,;]+), (?P<words>[\d,]+(?: to [\d,]+)?) words(?:, (?P<units>\d+) [\w ]+)?")
EVALUATED = "_evaluated"
"""Ending of the name of a section about other evaluations of the same models."""
ROUNDING = 0.01
"""Points by which rounding can move the middle or the half-width of a printed interval."""
BOOTSTRAP = 1.02
"""The published standard error over units comes from a bootstrap of 10,000 draws; its own standard error is 0.7 %."""

Array = NDArray[np.float64]
Choice = tuple[str, str | None]
"""An arm by its name or its overrides, and the override of another factor at which the row compares it."""


@dataclass(frozen=True)
class Row:
    """A published answer: sign and choice of each arm, questions that share the sweep's 5 %, and the printed cells."""

    question: str
    sweep: str
    terms: list[tuple[int, Choice]]
    seeds: int
    questions: int
    printed: dict[str, str]


@dataclass(frozen=True)
class Run:
    """The result of a trained model on a test set.

    words: of the set; utterances: id, reference and unit of each; errors, totals: of words or characters, (units,).
    overlap: test utterances for each training utterance if the runs are folds of one corpus, else 0.
    """

    seed: int
    words: int
    utterances: frozenset[tuple[str, str, str]]
    errors: Array
    totals: Array
    overlap: float

    @property
    def rate(self) -> float:
        return float(100 * self.errors.sum() / self.totals.sum())


Terms = Sequence[tuple[float, Sequence[Run]]]
"""Weight and runs of each arm."""


class Part(NamedTuple):
    """A variance and its degrees of freedom."""

    variance: float
    degrees: float


@dataclass(frozen=True)
class Noise:
    """The noise of a difference: over seeds by arm, over units, and the variance that is in both."""

    seeds: list[Part]
    units: Part
    shared: float

    @property
    def variance(self) -> float:
        over_seeds = sum(part.variance for part in self.seeds)
        return max(over_seeds + self.units.variance - self.shared, over_seeds, self.units.variance)

    @property
    def degrees(self) -> float:
        """Satterthwaite's degrees of freedom."""
        return self.variance**2 / sum(part.variance**2 / part.degrees for part in (*self.seeds, self.units))

    def half_width(self, level: float, degrees: float) -> float:
        """Half-width of a two-sided interval."""
        return float(stats.t.ppf(1 - level / 2, degrees) * sqrt(self.variance))

    def bound(self) -> "Noise":
        """Return the 80 % upper bounds of the variances, whose degrees of freedom docs/statistics.md takes (step 5)."""
        *seeds, units = (Part(v * d / float(stats.chi2.ppf(0.2, d)), d) for v, d in (*self.seeds, self.units))
        return Noise(seeds, units, self.shared)


@cache
def read_rows() -> tuple[Row, ...]:
    """Return the rows with an interval of every table that has a question and a difference."""
    cells: list[dict[str, str]] = []
    header: list[str] = []
    for line in RESULTS.replace("−", "-").splitlines():
        row = [cell.strip() for cell in line.strip().removeprefix("|").removesuffix("|").split(" | ")]
        if not line.startswith("| "):
            header = []
        elif not header:
            header = row
        elif {"question", "difference"} <= set(header) and " to " in row[header.index("difference")]:
            cells.append(dict(zip(header, row, strict=True)))
    sweeps = [row["question"].partition("]")[0] for row in cells]
    return tuple(_parse(row, sweeps.count(sweep)) for row, sweep in zip(cells, sweeps, strict=True))


def _parse(row: dict[str, str], questions: int) -> Row:
    asked = _match(QUESTION, row["question"])
    printed = {**row, **_match(DIFFERENCE, row["difference"]), **_match(TEST_SET, row["about"])}
    terms: list[tuple[int, Choice]] = []
    for sign, held in [(1, asked["at"]), *([(-1, asked["less"])] if asked["less"] else [])]:
        terms += [(sign, (asked["arm"], held)), (-sign, (asked["baseline"], held))]
    question = re.sub(r"\[(\w+)\]\(#\w+\)", r"\1", row["question"]).partition(" (with ")[0]
    return Row(question, asked["sweep"], terms, int(row["seeds"].split(" and ")[-1]), questions, printed)


def _match(pattern: re.Pattern[str], cell: str) -> dict[str, str]:
    match = pattern.fullmatch(cell)
    assert match, f"a cell of another form: {cell}"
    return match.groupdict()


@cache
def read_record(sweep: str) -> dict[str, bytes]:
    """Return the files of a sweep's record, by their paths in it."""
    name, files = sweep.removesuffix(EVALUATED), {}
    for path in [*(SWEEPS / "records").glob(f"{name}.tar.xz"), *(SWEEPS / "records").glob(f"{name}.*.tar.xz")]:
        with tarfile.open(path) as archive:
            files |= {file.name: content.read() for file in archive if (content := archive.extractfile(file))}
    return files


def read_sweep(sweep: str) -> dict[str, Any]:
    """Return what the sweep's record says of its plan and its margin."""
    return dict(json.loads(read_record(sweep)[f"{sweep.removesuffix(EVALUATED)}/sweep.json"]))


@cache
def find_runs(sweep: str, choice: Choice, set_: str, metric: str) -> list[list[Run]]:
    """Return the runs that a choice selects, by their other overrides, and in the order of their seeds."""
    files, (arm, held) = read_record(sweep), choice
    cells = defaultdict(list)
    for folder in [path.removesuffix("/summary.json") for path in files if path.endswith("/summary.json")]:
        config = yaml.load(files[f"{folder}/config.yaml"], Loader=yaml.CSafeLoader)
        overrides = frozenset(text for text in config["overrides"] if not text.startswith("seed="))
        decoder = re.fullmatch(r"decoder=(.+)", arm) if sweep.endswith(EVALUATED) else None
        trained = (config["arm"] == arm or overrides.issuperset(arm.split(", "))) and (not held or held in overrides)
        if not (trained or decoder):
            continue
        table = f"{folder}/utterances.csv"
        if sweep.endswith(EVALUATED):  # other decoders or conditions
            start = f"{folder}/evaluations/{decoder[1] if decoder else 'greedy'}-"
            (table,) = (path for path in files if path.startswith(start) and path.endswith(".utterances.csv"))
        sets = json.loads(files[f"{folder}/data.json"])["sets"]
        overlap = sets[set_]["utterances"] / sets["train"]["utterances"] if "fold" in config["data"] else 0.0
        cells[overrides].append(_count_errors(files[table], set_, metric, config["seed"], overlap))
    return [sorted(runs, key=lambda run: run.seed) for runs in cells.values()]


def _count_errors(table: bytes, set_: str, metric: str, seed: int, overlap: float) -> Run:
    lines = [line for line in csv.DictReader(io.StringIO(table.decode())) if line["set"] == set_]
    total, prefix = {"WER": ("words", ""), "CER": ("characters", "character_")}[metric]
    kinds = [f"{prefix}{kind}" for kind in ("substitutions", "deletions", "insertions")]
    units = [line["unit"] or line["speaker"] for line in lines]
    _, owner = np.unique(units, return_inverse=True)
    errors = np.bincount(owner, [sum(int(line[kind]) for kind in kinds) for line in lines])
    totals = np.bincount(owner, [int(line[total]) for line in lines])
    utterances = frozenset((line["id"], line["reference"], unit) for line, unit in zip(lines, units, strict=True))
    words = sum(int(line["words"]) for line in lines)
    return Run(seed, words, utterances, errors.astype(float), totals.astype(float), overlap)


def select_terms(row: Row) -> Terms:
    """Return the first runs of each arm, as many as the row says. Only a plan may have added more for other rows."""
    terms = []
    for sign, choice in row.terms:
        cells = find_runs(row.sweep, choice, row.printed["set"], row.printed["metric"])
        assert len(cells) == 1 or (cells and "averaged over" in row.question), f"{choice} selects {len(cells)} arms"
        for runs in cells:
            assert len(runs) == row.seeds or ("plan" in read_sweep(row.sweep) and len(runs) > row.seeds), choice
            terms.append((sign / len(cells), runs[: row.seeds]))
    return terms


def average_rates(terms: Terms, sign: int) -> float:
    """Return the mean rate in % of the arms whose weights have this sign."""
    return sum(abs(weight) * float(np.mean([run.rate for run in runs])) for weight, runs in terms if weight * sign > 0)


def measure_noise(terms: Terms, paired: bool) -> Noise:
    """Measure the noise over seeds, and over units by the linearised ratio (Cochran 1977, chapter 6), in points².

    paired: the arms are decoders of the same models. Runs of the same seed are pairs, too, if each seed has its own
    test set. Their differences hold all noise; folds share training speech, which adds to it (Nadeau & Bengio 2003).
    """
    every = [run for _, runs in terms for run in runs]
    own_test_sets = len({run.utterances for run in every}) > 1
    if paired or own_test_sets:
        for pair in zip(*(runs for _, runs in terms), strict=True):
            assert len({(run.seed, run.utterances) for run in pair}) == 1, "the runs of a pair differ in the test set"
    if own_test_sets:
        differences = sum(weight * np.array([run.rate for run in runs]) for weight, runs in terms)
        count, overlap = len(terms[0][1]), float(np.mean([run.overlap for run in every]))
        return Noise([Part(float(np.var(differences, ddof=1)) * (1 / count + overlap), count - 1)], Part(0, 1), 0)
    totals = every[0].totals
    units, share = len(totals), totals / totals.sum()
    arms = [weight * np.stack([100 * run.errors / totals.sum() for run in runs]) for weight, runs in terms]
    arms = [np.sum(arms, axis=0)] if paired else arms  # each (seeds, units)
    rest = [arm - np.outer(arm.sum(axis=1), share) for arm in arms]  # what a run's own rate does not explain
    over_seeds = [Part(float(np.var(arm.sum(axis=1), ddof=1)) / len(arm), len(arm) - 1) for arm in arms]
    by_unit = np.sum([arm.mean(axis=0) for arm in rest], axis=0)
    over_units = Part(float(by_unit @ by_unit) * units / (units - 1), units - 1)
    shared = sum(float(np.var(arm, axis=0, ddof=1).sum()) / len(arm) for arm in rest)
    return Noise(over_seeds, over_units, shared)


def share_level(row: Row) -> float:
    """Return the smallest level at which the row's question can have been decided.

    Holm leaves one of m questions at least 1/m of the sweep's 5 %. A plan spends (e^t − 1) / (e − 1) of it by the look
    at the share t of its seeds (Hwang, Shih & DeCani 1990, γ = −1). Each look has at least what it adds.
    """
    level = 0.05 / row.questions
    if plan := read_sweep(row.sweep).get("plan"):
        looks = [0, *plan["looks"]]
        now = looks.index(row.seeds)
        level *= (exp(looks[now] / looks[-1]) - exp(looks[now - 1] / looks[-1])) / (exp(1) - 1)
    return level


def find_faults(row: Row, terms: Terms) -> list[str]:
    """List the published numbers that the runs contradict.

    Difference and rates have to agree to the last digit. The published interval is corrected for questions and looks:
    it has to hold the plain 95 % interval, and may not be wider than that at the smallest possible level. *Equivalent*
    is two one-sided tests (Schuirmann 1987) at twice the level: its interval has to lie within the margin.
    """
    arm, baseline = average_rates(terms, 1), average_rates(terms, -1)
    words = sorted({run.words for _, runs in terms for run in runs})
    noise, record = measure_noise(terms, ": decoder=" in row.question), read_sweep(row.sweep)
    verdict = re.split(r" \(|[:;]", row.printed["verdict"])[0]
    equivalent = verdict.endswith("equivalent")
    margin = 100 * record["plan"]["margin"] if "plan" in record else record["ablation"].get("margin")
    plain = noise.half_width(0.10 if equivalent else 0.05, noise.degrees)
    widest = noise.half_width(share_level(row) * (2 if equivalent else 1), noise.bound().degrees)
    section = RESULTS.partition(f"\n## {row.sweep}\n")[2].partition("\n## ")[0]
    if "Anytime-valid t test" in section:  # with φ = 1/4 (docs/statistics.md)
        degrees, r = noise.bound().degrees, 0.25 / (0.25 + row.seeds / len(noise.seeds))
        q = (r * (0.05 / row.questions) ** 2) ** (1 / (degrees + 1))
        widest = sqrt(noise.variance * degrees * (1 - q) / (q - r)) if q > r else inf
    value, low, high = (float(row.printed[name]) for name in ("value", "low", "high"))
    published = (high - low) / 2
    sign = "worse" if low > 0 else "better" if high < 0 else "neither"
    shown = {"worse": "worse", "better": "better", "not shown": "neither", "undecided": "neither"}
    recomputed = {
        "value": f"{arm - baseline:+.2f}",
        "rates": "–" if len(row.terms) > 2 else f"{arm:.2f}, {baseline:.2f}",
        "words": " to ".join(f"{count:,}" for count in dict.fromkeys([words[0], words[-1]])),
        "units": str(noise.units.degrees + 1 if noise.units.variance else row.seeds),
    }
    faults = {
        **{f"{name}: {number}": number != row.printed[name] for name, number in recomputed.items()},
        "the difference is not the middle of its interval": abs((low + high) / 2 - value) > ROUNDING,
        f"the plain interval is ± {plain:.2f}": plain > published * BOOTSTRAP + ROUNDING,
        f"the widest interval is ± {widest:.2f}": published > widest * BOOTSTRAP + ROUNDING,
        f"the interval says {sign}": shown.get(verdict, sign) != sign,
        "the interval reaches beyond the margin": equivalent and max(-low, high) > margin,
    }
    return [fault for fault, is_there in faults.items() if is_there]


@pytest.mark.parametrize("row", read_rows(), ids=lambda row: row.question)
def test_an_answer_follows_from_its_runs(row: Row) -> None:
    assert find_faults(row, select_terms(row)) == []


@pytest.fixture
def example() -> Row:
    return next(row for row in read_rows() if row.question == "short_runs: GRU against default")


@pytest.mark.parametrize("name", ["value", "low", "high", "rates", "words", "units"])
def test_a_wrong_digit_is_found(example: Row, name: str) -> None:
    printed = example.printed[name]
    for place in [place for place, letter in enumerate(printed) if letter.isdigit()]:
        wrong = f"{printed[:place]}{(int(printed[place]) + 5) % 10}{printed[place + 1 :]}"
        assert find_faults(replace(example, printed={**example.printed, name: wrong}), select_terms(example)), wrong


def test_a_wrong_width_is_found(example: Row) -> None:
    value = float(example.printed["value"])
    for half, fault in ((1.10, "the plain interval is ± 1.23"), (2.20, "the widest interval is ± 2.02")):
        printed = {**example.printed, "low": f"{value - half:+.2f}", "high": f"{value + half:+.2f}"}
        assert find_faults(replace(example, printed=printed), select_terms(example)) == [fault]


def test_swapped_arms_and_a_missing_seed_are_found(example: Row) -> None:
    (one, arm), (other, baseline) = select_terms(example)
    assert find_faults(example, [(one, baseline), (other, arm)])
    for seed in range(example.seeds):
        assert find_faults(example, [(one, [*arm[:seed], *arm[seed + 1 :]]), (other, baseline)])
        assert find_faults(example, [(one, arm), (other, [*baseline[:seed], *baseline[seed + 1 :]])])

"""Count substitutions, deletions and insertions, and compute error rates from the counts."""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter

from rapidfuzz.distance import Levenshtein

COLUMNS = {
    "wer": ("words", "substitutions", "deletions", "insertions"),
    "cer": ("characters", "character_substitutions", "character_deletions", "character_insertions"),
    "cer_longer": ("characters", "character_substitutions", "character_deletions", "character_insertions"),
}  # columns of utterances.csv for each error rate: length of the reference, substitutions, deletions, insertions


@dataclass(frozen=True)
class Errors:
    """Error counts of hypotheses whose references have `total` words or characters."""

    total: int
    substitutions: int
    deletions: int
    insertions: int

    def __add__(self, other: "Errors") -> "Errors":
        return Errors(
            self.total + other.total,
            self.substitutions + other.substitutions,
            self.deletions + other.deletions,
            self.insertions + other.insertions,
        )

    @property
    def count(self) -> int:
        return self.substitutions + self.deletions + self.insertions

    @property
    def rate(self) -> float:
        """The error rate (S + D + I) / N as a fraction (Ambroszczyk2019 §1.4). If N is 0, the denominator is 1."""
        return self.count / max(1, self.total)

    @property
    def over_longer(self) -> "Errors":
        """The same errors, but `total` is the length of the reference or the hypothesis, whichever is longer.

        This is equation 3 of Baunsgaard2020 §4.1.1. Insertions minus deletions is the difference in length.
        """
        return replace(self, total=self.total + max(0, self.insertions - self.deletions))


def count_errors(reference: Sequence[Hashable], hypothesis: Sequence[Hashable]) -> Errors:
    """Count the errors in the alignment with the fewest errors. Ties are broken by the fewest substitutions.

    NIST's sclite also avoids substitutions: they cost 4, while deletions and insertions cost 3. Here, each error costs
    `unit`, and a substitution costs 1 more, so one weighted distance gives the numbers of errors and substitutions.
    Insertions minus deletions is the difference in length. If the number of errors exceeds this difference by at most
    1, it determines all counts, and the faster unweighted distance is enough.
    """
    errors = Levenshtein.distance(reference, hypothesis)
    substitutions = errors - abs(len(reference) - len(hypothesis))
    if substitutions > 1:
        unit = min(len(reference), len(hypothesis)) + 1
        weighted = Levenshtein.distance(reference, hypothesis, weights=(unit, unit, unit + 1))
        errors, substitutions = divmod(weighted, unit)
    deletions = (errors - substitutions + len(reference) - len(hypothesis)) // 2
    return Errors(len(reference), substitutions, deletions, errors - substitutions - deletions)


def word_errors(reference: str, hypothesis: str) -> Errors:
    """Count the word errors of a hypothesis."""
    return count_errors(reference.split(), hypothesis.split())


def character_errors(reference: str, hypothesis: str) -> Errors:
    """Count the character errors of a hypothesis. Spaces count as characters."""
    return count_errors(reference, hypothesis)


def error_columns(reference: str, hypothesis: str) -> dict[str, int]:
    """Return the counts of words, characters and errors of an utterance, by column of utterances.csv."""
    words, characters = word_errors(reference, hypothesis), character_errors(reference, hypothesis)
    return {
        **dict(zip(COLUMNS["wer"], vars(words).values(), strict=True)),
        **dict(zip(COLUMNS["cer"], vars(characters).values(), strict=True)),
    }


def recorded_errors(row: Mapping[str, object], metric: str = "wer") -> Errors:
    """Return the error counts recorded in a row of utterances.csv. metric: wer, cer or cer_longer."""
    errors = Errors(*(_count(row[column]) for column in COLUMNS[metric]))
    return errors.over_longer if metric == "cer_longer" else errors


def _count(value: object) -> int:
    assert isinstance(value, int), f"{value!r} is not a count"
    return value


def total_errors(rows: Sequence[Mapping[str, object]], metric: str) -> Errors:
    """Add up the error counts of several rows of utterances.csv. metric: wer, cer or cer_longer."""
    # map is faster than a loop, and a table of 20 seeds has a million counts
    total, substitutions, deletions, insertions = (
        _count(sum(map(itemgetter(column), rows))) for column in COLUMNS[metric]
    )
    if metric == "cer_longer":
        _, _, deleted, inserted = COLUMNS[metric]
        total += sum(max(0, _count(row[inserted]) - _count(row[deleted])) for row in rows)
    return Errors(total, substitutions, deletions, insertions)


def sum_errors(errors: Iterable[Errors]) -> Errors:
    """Add up the error counts of several utterances. The rate of the sum is their joint error rate."""
    return sum(errors, start=Errors(0, 0, 0, 0))


# a reference word (None for an insertion) that is aligned with a hypothesis word (None for a deletion)
Pair = tuple[str | None, str | None]
Cost = tuple[int, int]  # number of errors, and number of substitutions among them


def align(reference: Sequence[str], hypothesis: Sequence[str]) -> list[Pair]:
    """Align two word sequences with the fewest errors. Ties are broken by the fewest substitutions.

    Time and memory grow with the product of the sequences' lengths.
    """
    # costs[i][j]: cost of aligning the first i words of the reference with the first j words of the hypothesis
    costs = [[(j, 0) for j in range(len(hypothesis) + 1)]]
    for i, word in enumerate(reference, start=1):
        row = [(i, 0)]
        for j, recognised in enumerate(hypothesis, start=1):
            paired = _pair(costs[i - 1][j - 1], word != recognised)
            row.append(min(paired, _skip(costs[i - 1][j]), _skip(row[-1])))
        costs.append(row)
    return _walk_back(costs, reference, hypothesis)


def _pair(cost: Cost, wrong: bool) -> Cost:
    """Return the cost of an alignment after pairing two more words. A pair of different words is a substitution."""
    return cost[0] + wrong, cost[1] + wrong


def _skip(cost: Cost) -> Cost:
    """Return the cost of an alignment after one more deletion or insertion."""
    return cost[0] + 1, cost[1]


def _walk_back(costs: list[list[Cost]], reference: Sequence[str], hypothesis: Sequence[str]) -> list[Pair]:
    pairs: list[Pair] = []
    i, j = len(reference), len(hypothesis)
    while i or j:
        wrong = bool(i and j and reference[i - 1] != hypothesis[j - 1])
        if i and j and costs[i][j] == _pair(costs[i - 1][j - 1], wrong):
            i, j = i - 1, j - 1
            pairs.append((reference[i], hypothesis[j]))
        elif i and costs[i][j] == _skip(costs[i - 1][j]):
            i -= 1
            pairs.append((reference[i], None))
        else:
            j -= 1
            pairs.append((None, hypothesis[j]))
    return pairs[::-1]

"""Word alignment of a reference and a hypothesis."""

from collections.abc import Sequence

Pair = tuple[str | None, str | None]
"""A word of the reference and its word of the hypothesis; None on one side: an insertion or a deletion."""
Cost = tuple[int, int]
"""Errors, and how many of them are substitutions."""


def align(reference: Sequence[str], hypothesis: Sequence[str]) -> list[Pair]:
    """The alignment with the fewest errors; among several of those, the one with the most words right.

    metrics.error_counts counts the errors of the same alignment. Time and memory grow with the product of the lengths.
    """
    # costs[i][j]: of the first i words against the first j
    costs = [[(j, 0) for j in range(len(hypothesis) + 1)]]
    for i, word in enumerate(reference, start=1):
        row = [(i, 0)]
        for j, recognised in enumerate(hypothesis, start=1):
            paired = _pair(costs[i - 1][j - 1], word != recognised)
            row.append(min(paired, _skip(costs[i - 1][j]), _skip(row[-1])))
        costs.append(row)
    return _walk_back(costs, reference, hypothesis)


def _pair(cost: Cost, wrong: bool) -> Cost:
    """Cost with the next two words paired; a wrong pair is a substitution."""
    return cost[0] + wrong, cost[1] + wrong


def _skip(cost: Cost) -> Cost:
    """Cost with a deletion or an insertion more."""
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

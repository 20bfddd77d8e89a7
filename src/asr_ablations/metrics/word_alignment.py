"""Which word was heard as which."""

from collections.abc import Sequence

Pair = tuple[str | None, str | None]
"""Reference and hypothesis; None: deleted or inserted."""


def align(reference: Sequence[str], hypothesis: Sequence[str]) -> list[Pair]:
    """The alignment with the fewest errors, and of several such the one with the most words right, as metrics.errors
    counts them. O(words of the one × words of the other).
    """
    # costs[i][j]: (errors, substitutions) of the first i against the first j
    costs = [[(j, 0) for j in range(len(hypothesis) + 1)]]
    for i, word in enumerate(reference, start=1):
        row = [(i, 0)]
        for j, heard in enumerate(hypothesis, start=1):
            row.append(
                min(_through(costs[i - 1][j - 1], word != heard), _one_more(costs[i - 1][j]), _one_more(row[-1]))
            )
        costs.append(row)
    return _walk_back(costs, reference, hypothesis)


def _through(cost: tuple[int, int], wrong: bool) -> tuple[int, int]:
    return cost[0] + wrong, cost[1] + wrong


def _one_more(cost: tuple[int, int]) -> tuple[int, int]:
    return cost[0] + 1, cost[1]


def _walk_back(costs: list[list[tuple[int, int]]], reference: Sequence[str], hypothesis: Sequence[str]) -> list[Pair]:
    pairs: list[Pair] = []
    i, j = len(reference), len(hypothesis)
    while i or j:
        wrong = bool(i and j and reference[i - 1] != hypothesis[j - 1])
        if i and j and costs[i][j] == _through(costs[i - 1][j - 1], wrong):
            i, j = i - 1, j - 1
            pairs.append((reference[i], hypothesis[j]))
        elif i and costs[i][j] == _one_more(costs[i - 1][j]):
            i -= 1
            pairs.append((reference[i], None))
        else:
            j -= 1
            pairs.append((None, hypothesis[j]))
    return pairs[::-1]

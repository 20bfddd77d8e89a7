"""Whether an arm diverges more often than another."""


def fisher(diverged: int, runs: int, diverged_baseline: int, runs_baseline: int) -> float:
    """Two-sided p of Fisher's exact test (1935) that both arms diverge equally often. It needs no large numbers."""
    from scipy import stats  # takes half a second

    table = [[diverged, runs - diverged], [diverged_baseline, runs_baseline - diverged_baseline]]
    return float(stats.fisher_exact(table).pvalue)

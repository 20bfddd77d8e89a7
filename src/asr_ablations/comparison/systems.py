"""Systems of any toolkit compared by their hypotheses, as runs are."""

from collections.abc import Mapping

from asr_ablations.comparison.comparison import compare_runs
from asr_ablations.comparison.design import Options
from asr_ablations.comparison.evidence import of_systems
from asr_ablations.comparison.metrics import LOSS
from asr_ablations.comparison.result import Comparison
from asr_ablations.runs.hypotheses.entries import Texts
from asr_ablations.runs.hypotheses.scoring import Scoring
from asr_ablations.runs.hypotheses.systems import Systems, to_records
from asr_ablations.tools.errors import choices


def compare_systems(
    systems: Systems,
    references: Mapping[str, Texts],
    scoring: Scoring,
    options: Options,
    *,
    seeds: int | None = None,
    looks: bool = False,
    margin: float | str | None = None,
) -> Comparison:
    """Compare systems by set and seed; the first one is the baseline, unless options name another.

    references: by set; empty where the files hold their own. seeds: of each arm, if their number was decided before the
    first result; looks: it was not. margin: the difference that would not matter: 1.0 for a point of the metric, 5% of
    the rate. Raises UsageError for texts that do not fit together.
    """
    if options.metric == LOSS.name:
        raise choices("metric", options.metric, "wer, cer or cer_longer: hypotheses have no loss")
    first = next(iter(systems), None)
    declared = {"baseline": first, **({} if margin is None else {"margin": margin})}
    records = to_records(systems, references, scoring, declared)
    return compare_runs(records, options, " and ".join(systems), of_systems(records, seeds, looks=looks))

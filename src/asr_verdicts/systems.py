"""Compare systems from any toolkit by their hypotheses, with the same statistics as training runs."""

from collections.abc import Mapping

from asr_verdicts.comparison import Comparison, compare
from asr_verdicts.design import Options
from asr_verdicts.errors import choices
from asr_verdicts.evidence import evidence_of_systems
from asr_verdicts.metrics import LOSS
from asr_verdicts.texts.entries import Texts
from asr_verdicts.texts.scoring import Scoring
from asr_verdicts.texts.systems import Systems, to_records


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
    """Compare systems by their hypotheses. The first system is the baseline, unless `options` sets another.

    - systems: hypotheses by system and test set, with one entry per seed
    - references: reference transcripts by test set; empty if the hypothesis files contain them
    - seeds, looks, margin: as in `asr_verdicts.compare`

    Raises UsageError if hypotheses and references do not match, or if an option is invalid.
    """
    if options.metric == LOSS.name:
        raise choices("metric", options.metric, "wer, cer or cer_longer: hypotheses have no loss")
    first = next(iter(systems), None)
    declared = {"baseline": first, **({} if margin is None else {"margin": margin})}
    records = to_records(systems, references, scoring, declared)
    return compare(records, options, " and ".join(systems), evidence_of_systems(records, seeds, looks=looks))

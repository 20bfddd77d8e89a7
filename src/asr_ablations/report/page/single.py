"""What the page shows of a single run: utterances as its model sees them, and what it takes for what."""

from collections.abc import Sequence

from asr_ablations.comparison.result import Comparison
from asr_ablations.metrics.error_counts import recorded_errors
from asr_ablations.report.figures.inspected import as_address
from asr_ablations.report.inspection import Inspected, letter_confusions, word_confusions
from asr_ablations.report.page.utterances import AUDIO_BYTES, recording
from asr_ablations.runs.record import RunRecord
from asr_ablations.tools.files import Json


def single(comparison: Comparison, inspected: Sequence[Inspected]) -> Json:
    """Empty lists for a comparison of several runs."""
    rows = [row for run in comparison.runs for row in run.utterances if row["set"] in comparison.sets]
    alone = len(comparison.runs) == 1
    return {
        "inspected": [_utterance(comparison.runs[0], seen) for seen in inspected],
        "words": word_confusions(rows) if alone else [],
        "letters": letter_confusions(rows) if alone else [],
    }


def _utterance(run: RunRecord, seen: Inspected) -> Json:
    return {
        "kind": seen.kind,
        "set": seen.row["set"],
        "id": seen.row["id"],
        "rate": recorded_errors(seen.row).rate,
        "pairs": seen.pairs,
        "picture": as_address(seen),
        **recording(run, seen.row, AUDIO_BYTES),
    }

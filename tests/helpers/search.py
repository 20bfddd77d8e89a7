"""Three runs that a search proposed, with invented results, beside a manifest with its space."""

from dataclasses import replace
from pathlib import Path

from asr_ablations.comparison.arms import Arm
from asr_ablations.tools.files import write_json
from tests.helpers.invented_records import record

SPACE = {"optimizer.lr": " tag(log, interval(3e-4, 1e-2))", "width": "choice(64, 128)", "layers": "choice(1, 2)"}
FACTOR = list(SPACE)
TRIED = {(0.001, 64): 0.4, (0.003, 128): 0.2, (0.01, 64): 0.3}
"""Rate and width → the best validation WER."""


def searched(folder: Path) -> list[Arm]:
    """An arm per run, as a comparison groups them; the sweep lies in `folder`."""
    sweep = folder / "sweep"
    sweep.mkdir(parents=True)
    write_json(sweep / "sweep.json", {"launches": [], "space": SPACE})
    arms = []
    for (rate, width), wer in TRIED.items():
        levels = {"optimizer.lr": str(rate), "width": str(width), "layers": "1"}
        run = record(f"width={width}", 0, wer)
        summary = replace(run.summary, best_validation_wer=wer)
        proposed = replace(run, folder=sweep / f"{rate}", searched=True, summary=summary)
        arms.append(Arm(f"{rate}", [proposed], levels=levels))
    return arms

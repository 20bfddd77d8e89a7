"""A training's run at W&B in parts, online and offline: each attempt logs one, and logs again what was not received."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from asr_ablations.components.logger.wandb_run import begin
from asr_ablations.runs.metrics_files import FIGURES
from asr_ablations.runs.wandb_rows import Logged
from asr_ablations.tools.errors import refusals
from asr_ablations.tools.files import Json

if TYPE_CHECKING:
    import wandb

STEP = "trainer/global_step"
SYNCED = ".wandb.synced"
"""Ending of W&B's own mark beside a file that `wandb sync` leaves out."""


def begin_part(options: Json, logged: Logged, validation: Sequence[object], *, offline: bool = False) -> "wandb.Run":
    """Begin a part of a training's run: what one attempt logs. Rows that W&B's server lacks are logged again:
    the last ones of a run that was killed are in no file of W&B's.

    options: of wandb.init; validation: names of the sets; offline: whatever the mode, and with every row.
    """
    folder = Path(options["dir"])
    earlier = unsynced(folder, str(options["id"]))
    cut = logged.cut or offline
    experiment = begin(**options, offline=offline, resume="allow", offline_resume=None if cut else "allow")
    define_metrics(experiment, validation)
    # Offline, what the server has is not known: where it may lack something, the run begins anew, with everything.
    behind = 0 if cut else len(logged.rows)
    first = behind if experiment.offline else experiment.starting_step
    if cut or not experiment.offline:  # this part has all that the earlier ones have, and the server has not
        for file in earlier:
            file.with_suffix(SYNCED).touch()
    for place in range(first, len(logged.rows)):
        log_row(experiment, place, logged.rows[place])
    logged.part(begins=True, project=None if experiment.offline else experiment.project_url)
    return experiment


def define_metrics(experiment: "wandb.Run", validation: Sequence[object]) -> None:
    """Every metric is drawn over the trainer's step; the summary has the lowest error rates and losses."""
    experiment.define_metric(STEP)
    experiment.define_metric("*", step_metric=STEP, step_sync=True)
    for name in validation:
        for figure in FIGURES:
            experiment.define_metric(f"validation/{name}/{figure}", step_metric=STEP, step_sync=True, summary="min")


def log_row(experiment: "wandb.Run", place: int, row: Json) -> bool:
    """Log a row at its place, which is W&B's step, with the time at which it was logged first; whether W&B took it: a
    table is an artifact, for which its server has to answer.
    """
    import wandb

    tables = {key: wandb.Table(columns=columns, data=data) for key, (columns, data) in row["tables"].items()}
    step = {} if row["step"] is None else {STEP: row["step"]}
    try:
        experiment.log({**row["values"], **tables, **step, "_timestamp": row["time"]}, step=place, commit=True)
    except refusals():
        return False
    return True


def unsynced(folder: Path, id_: str = "*") -> list[Path]:
    """W&B's files of offline parts in a run's folder that were not sent, the oldest first. id_: of one W&B run."""
    files = folder.glob(f"wandb/offline-run-*/run-{id_}.wandb")
    return sorted(file for file in files if not file.with_suffix(SYNCED).exists())


def sync_command(folders: Sequence[Path]) -> str | None:
    """The command that sends the offline parts of runs; None where there are none."""
    parts = [f"{folder}/wandb/offline-run-*" for folder in folders if unsynced(folder)]
    if len(parts) > 1 and len({folder.parent for folder in folders}) == 1:
        parts = [f"{folders[0].parent}/*/wandb/offline-run-*"]
    return f"wandb sync {' '.join(parts)}" if parts else None

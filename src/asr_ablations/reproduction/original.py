"""The run that is to be reproduced, as its folder tells of it."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from asr_ablations.runs.layout import CONFIG, STATUS, is_run, runs_in
from asr_ablations.runs.record import RunRecord
from asr_ablations.runs.records import read_run
from asr_ablations.runs.status import why_unfinished
from asr_ablations.tools.errors import UsageError


@dataclass(frozen=True)
class Original:
    """cfg: its config.yaml; record: all that its folder holds."""

    folder: Path
    cfg: DictConfig
    record: RunRecord

    @property
    def sweep(self) -> Path:
        """The folder of its sweep: where it lies, whatever its config says, since folders are moved."""
        return self.folder.parent

    @property
    def threads(self) -> int | None:
        """Of the CPU, as recorded; None in a record that does not say."""
        threads: Any = self.record.environment.get("hardware", {}).get("threads")
        return threads if isinstance(threads, int) and threads > 0 else None


def load_original(folder: Path) -> Original:
    """Read a finished run. Raises UsageError for anything else, in a line that says what it is."""
    folder = folder.resolve()
    _refuse_other_folders(folder)
    if why := why_unfinished(folder):
        raise UsageError(
            f"{folder}: not finished ({why}), so there is nothing to reproduce; "
            "the command that began it goes on with it"
        )
    try:
        record = read_run(folder)
        return Original(folder, OmegaConf.create(record.config), record)
    except OmegaConfBaseException as error:
        raise UsageError(f"{folder / CONFIG}: cannot be read: {' '.join(str(error).split())}") from error


def _refuse_other_folders(folder: Path) -> None:
    if not folder.is_dir():
        raise UsageError(f"{folder}: there is no such folder; expected a run's, as outputs/<sweep>/<run>-<hash>")
    if is_run(folder):
        return
    runs = [path.name for path in runs_in(folder)]
    if runs:
        raise UsageError(f"{folder}: is a sweep's folder; expected one of its runs, as {folder.name}/{runs[0]}")
    raise UsageError(f"{folder}: is no run's folder, it has no {STATUS}; expected outputs/<sweep>/<run>-<hash>")

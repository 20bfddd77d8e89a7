"""The run that is to be reproduced, as its folder records it."""

from dataclasses import dataclass
from pathlib import Path

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from asr_ablations.runs.layout import CONFIG, STATUS, is_run, runs_in
from asr_ablations.runs.record import RunRecord
from asr_ablations.runs.records import read_run
from asr_ablations.runs.status import why_unfinished
from asr_ablations.tools.checks import is_whole
from asr_ablations.tools.errors import UsageError


@dataclass(frozen=True)
class Original:
    """A finished run. cfg: its config.yaml; record: everything that its folder holds."""

    folder: Path
    cfg: DictConfig
    record: RunRecord

    @property
    def sweep(self) -> Path:
        """The folder of its sweep: its parent, whatever the config says, since folders are moved."""
        return self.folder.parent

    @property
    def threads(self) -> int | None:
        """The recorded number of CPU threads; None in a record that does not have it."""
        threads: object = self.record.environment.get("hardware", {}).get("threads")
        return threads if is_whole(threads, 1) else None


def load_original(folder: Path) -> Original:
    """Read a finished run. Raises UsageError for any other folder, with one line that says what the folder is."""
    folder = folder.resolve()
    _refuse_other_folders(folder)
    if reason := why_unfinished(folder):
        raise UsageError(
            f"{folder}: not finished ({reason}), so there is nothing to reproduce; "
            "the command that started this run continues it"
        )
    try:
        record = read_run(folder)
        return Original(folder, OmegaConf.create(record.config), record)
    except OmegaConfBaseException as error:
        raise UsageError(f"{folder / CONFIG}: cannot be read: {' '.join(str(error).split())}") from error


def _refuse_other_folders(folder: Path) -> None:
    """Raises UsageError unless a run has begun in the folder."""
    if not folder.is_dir():
        raise UsageError(f"{folder}: there is no such folder; expected a run's, like outputs/<sweep>/<run>-<hash>")
    if is_run(folder):
        return
    runs = [path.name for path in runs_in(folder)]
    if runs:
        raise UsageError(f"{folder}: is the folder of a sweep; expected one of its runs, like {folder.name}/{runs[0]}")
    raise UsageError(f"{folder}: is not the folder of a run, it has no {STATUS}; expected outputs/<sweep>/<run>-<hash>")

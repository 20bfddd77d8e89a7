"""Provide runs as tables and verdicts, for scripts and notebooks (docs/python.md)."""

from collections.abc import Sequence
from pathlib import Path

from asr_ablations.comparison.folders import compare_folders
from asr_ablations.runs.identity import of_the_experiment
from asr_ablations.runs.records import load as load_records
from asr_verdicts.api import Result, Table
from asr_verdicts.design import Options
from asr_verdicts.errors import UsageError
from asr_verdicts.record import Record, Records, UtteranceRow


class Runs:
    """The runs in one or more folders, as returned by `open`. A run is named after its folder."""

    def __init__(self, folders: Sequence[Path], records: Records) -> None:
        self.folders, self.records = list(folders), records
        self._all = [*records.runs, *records.diverged]

    @property
    def names(self) -> list[str]:
        return [run.folder.name for run in self._all]

    def table(self) -> Table:
        """Return a table with a row per run and test set. Error rates are fractions. Training times are in seconds."""
        return Table(
            {
                "run": run.folder.name,
                "identity": run.environment.id,
                "arm": _name_arm(run),
                "seed": run.seed,
                "set": name,
                "diverged": run.diverged_at is not None,
                **{key: run.value(name, key) for key in ("wer", "cer", "words")},
                "parameters": run.summary.parameters,
                "train_seconds": run.summary.seconds.get("train"),
            }
            for run in self._all
            for name in (run.summary.test_sets or [""])
        )

    def metrics(self, run: str) -> list[dict[str, float | None]]:
        """Return the rows of a run's metrics.csv. Error rates are fractions. Values that were not logged are None."""
        return self._run(run).metrics

    def utterances(self, run: str) -> list[UtteranceRow]:
        """Return the rows of a run's utterances.csv: reference, hypothesis, speaker, error counts, and audio."""
        return self._run(run).utterances

    def compare(self, baseline: str | None = None, *, metric: str | None = None, set: str | None = None) -> Result:
        """Compare the runs like src/compare.py. This counts as a look at the results and is recorded.

        baseline: name of an arm; the default is the declared baseline.
        metric: wer, cer, cer_longer or loss. set: name of a test set. Raise UsageError with the reason if the runs must
          not be compared.
        """
        return Result(compare_folders(self.folders, Options(baseline, [], metric, set)))

    def _run(self, name: str) -> Record:
        if name not in self.names:
            expected = ", ".join(self.names) or "a run, but none has ended"
            raise UsageError(f"{name}: there is no such run; expected {expected}")
        return self._all[self.names.index(name)]

    def __len__(self) -> int:
        return len(self._all)

    def __repr__(self) -> str:
        return f"{len(self)} runs of {', '.join(map(str, self.folders))}, {len(self.records.unfinished)} unfinished"

    def _repr_html_(self) -> str:
        return self.table()._repr_html_()


def _name_arm(run: Record) -> str:
    """Return an arm's name in its sweep file, or the overrides that decide its results, without the seed."""
    words = [word for word in of_the_experiment(run.overrides) if not word.startswith("seed=")]
    return str(run.config.get("arm") or " ".join(words) or "default")


def open(*folders: str | Path) -> Runs:
    """Open the runs in sweep folders or run folders. Raise UsageError if there are no runs."""
    if not folders:
        raise UsageError("open(): expected a folder of runs, as in open('outputs/rnn_type')")
    paths = [*map(Path, folders)]
    return Runs(paths, load_records(paths))

"""The project from Python: runs and systems as tables and verdicts, in a script or a notebook (docs/python.md)."""

import html
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from asr_verdicts.comparison import Comparison
from asr_verdicts.contrast import Contrast
from asr_verdicts.contrast import Verdict as Decided
from asr_verdicts.design import Options
from asr_verdicts.errors import UsageError
from asr_verdicts.metrics import find_metric
from asr_verdicts.report.document import report_verdicts
from asr_verdicts.report.files import write_texts
from asr_verdicts.systems import compare_systems
from asr_verdicts.table_columns import rate_rows
from asr_verdicts.texts.scoring import Scoring
from asr_verdicts.texts.values import Hypotheses, seeds_of, speakers_of_texts, texts_of

if TYPE_CHECKING:
    pass

Value = str | int | float | bool | None
Path_ = str | Path
Row = dict[str, Value]


class Table(list[Row]):
    """Rows as dicts, all with the same keys. A notebook shows it as a table."""

    def frame(self) -> Any:
        """The rows as a DataFrame of pandas. Raises UsageError where pandas is not installed."""
        try:
            import pandas
        except ImportError as error:
            raise UsageError("frame(): needs pandas; pip install pandas installs it") from error
        return pandas.DataFrame(list(self))

    def _repr_html_(self) -> str:
        head = list(self[0]) if self else []
        return _html_table(head, [[_cell(row[key]) for key in head] for row in self])


@dataclass(frozen=True)
class Verdict:
    """The answer to a question: an arm against the baseline on a test set.

    Rates and differences are fractions (nats for the loss): 0.01 is one point of WER. difference: the arm's mean less
    the baseline's; low, high: its interval at the level of the verdict; None where there is none. outcome: better,
    worse, equivalent, no difference shown, undecided, … p: after Holm's correction. seeds: of the arm with the fewest;
    units: how many were drawn independently, and unit: what they are, such as speakers, or utterances where speakers
    are not known. decides: on the set that decides; the others describe. sentence: all of it in words.
    """

    arm: str
    baseline: str
    set: str
    metric: str
    rate: float
    baseline_rate: float
    difference: float
    low: float | None
    high: float | None
    p: float | None
    outcome: str
    seeds: int
    units: int | None
    unit: str | None
    decides: bool
    sentence: str

    @classmethod
    def of(cls, verdict: Decided) -> "Verdict":
        contrast: Contrast = verdict.contrast
        estimate = contrast.estimate
        return cls(
            arm=contrast.arm,
            baseline=contrast.baseline,
            set=contrast.set,
            metric=contrast.metric,
            rate=contrast.arm_mean,
            baseline_rate=contrast.baseline_mean,
            difference=contrast.difference,
            low=contrast.low,
            high=contrast.high,
            p=contrast.p_adjusted,
            outcome=contrast.outcome,
            seeds=min(contrast.seeds.values()),
            units=None if estimate is None else estimate.speakers,
            unit=None if estimate is None else estimate.unit,
            decides=contrast.primary,
            sentence=verdict.sentence,
        )

    @property
    def speakers(self) -> int | None:
        """The number of test speakers; None where they are not known."""
        return self.units if self.unit == "speakers" else None

    def __str__(self) -> str:
        return self.sentence


@dataclass(frozen=True)
class Result:
    """A comparison. verdicts: of every question, those on the deciding set first; comparison: everything behind them.

    A notebook shows the sentences, the table and the intervals.
    """

    comparison: Comparison

    @cached_property
    def verdicts(self) -> list[Verdict]:
        return [Verdict.of(verdict) for verdict in self.comparison.verdicts]

    @property
    def warnings(self) -> list[str]:
        """What a reader has to know beside the sentences."""
        return self.comparison.warnings

    @property
    def scored(self) -> str:
        """The texts that were scored, and how; empty for own runs."""
        return self.comparison.scored

    def table(self) -> Table:
        """An arm on a test set per row: n runs, means and deviations of the rates, as fractions."""
        keys = ("arm", "set", "n", "wer", "wer_sd", "cer", "cer_sd", "substitutions", "deletions", "insertions")
        return Table({key: row[key] for key in keys} for row in rate_rows(self.comparison))

    def save(self, folder: Path_) -> list[Path]:
        """Write tables and figures, as the command does; the paths."""
        from asr_verdicts.report.figures import FIGURES, write_figures

        into = Path(folder)
        return [*write_texts(report_verdicts(self.comparison), into), *write_figures(self.comparison, into, FIGURES)]

    def _repr_html_(self) -> str:
        metric = find_metric(self.comparison.metric)
        sentences = "".join(f"<p>{html.escape(verdict.sentence)}</p>" for verdict in self.comparison.answer)
        rows = [
            [
                row.arm,
                row.set,
                metric.text(row.rate),
                metric.text(row.difference, sign=True),
                *_ends(row, self),
                row.outcome,
            ]
            for row in self.verdicts
        ]
        head = ["arm", "set", metric.heading, f"difference to {self.comparison.baseline}", "low", "high", "verdict"]
        notes = [self.scored, *self.warnings]
        said = "".join(f"<p><small>{html.escape(note)}</small></p>" for note in notes if note)
        return f"{sentences}{_html_table(head, rows) if rows else self.table()._repr_html_()}{self._figure()}{said}"

    def _figure(self) -> str:
        """The figure of the differences with their intervals, as SVG."""
        if not any(verdict.low is not None for verdict in self.verdicts):
            return ""
        from asr_verdicts.report.figures import FIGURES, write_figures

        with tempfile.TemporaryDirectory() as folder:
            drawn = write_figures(self.comparison, Path(folder), {"differences": FIGURES["differences"]})
            pictures = [path.read_text(encoding="utf-8") for path in drawn if path.suffix == ".svg"]
        return "".join(picture[picture.index("<svg") :] for picture in pictures)


def _ends(verdict: Verdict, result: Result) -> list[str]:
    metric = find_metric(result.comparison.metric)
    return ["" if end is None else metric.text(end, sign=True) for end in (verdict.low, verdict.high)]


def compare(
    systems: Mapping[str, Hypotheses],
    references: Path_ | Sequence[str] | Mapping[str, str] | None = None,
    *,
    speakers: Path_ | Sequence[str] | Mapping[str, str] | None = None,
    speaker_of: str | None = None,
    normalise: str = "none",
    language: str = "",
    drop: str = "",
    missing: str = "refuse",
    seeds: int | None = None,
    looks: bool = False,
    margin: float | str | None = None,
    metric: str | None = None,
    baseline: str | None = None,
    format: str | None = None,
    set: str = "test",
) -> Result:
    """Compare systems by their hypotheses. The first one is the baseline, unless `baseline` names another.

    systems: by name, a file or pattern of files, a list of texts, a dict of texts by id, or a list of these, one for
    each seed. references: alike; None where the files hold them. speakers: one for each text, by id, or a file utt2spk;
    speaker_of: a regular expression whose group is the speaker in an id. seeds: of each system, if their number was
    decided before the first result; looks: it was not, and the interval holds however often one looks. margin: the
    difference that would not matter: 0.5 for half a point, "5%" of the rate. normalise, language, drop, missing,
    format: as the options of src/compare.py.

    Raises UsageError for texts that do not fit together.
    """
    if not systems:
        raise UsageError("compare(): expected systems by name, as in {'base': [...], 'mine': [...]}")
    spoken = None if references is None else texts_of(references, "references", format, references=True)
    read = {name: {set: seeds_of(value, name, format, spoken)} for name, value in systems.items()}
    by_id = speakers_of_texts(speakers, spoken, read, set)
    scoring = Scoring(normalise, missing, by_id, speaker_of, language, drop)
    known = {} if spoken is None else {set: spoken}
    options = Options(baseline, [], metric, set)
    return Result(compare_systems(read, known, scoring, options, seeds=seeds, looks=looks, margin=margin))


def _html_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    def line(cells: Sequence[str], tag: str) -> str:
        return f"<tr>{''.join(f'<{tag}>{html.escape(cell)}</{tag}>' for cell in cells)}</tr>"

    return f"<table><thead>{line(head, 'th')}</thead><tbody>{''.join(line(row, 'td') for row in rows)}</tbody></table>"


def _cell(value: Value) -> str:
    return "" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)

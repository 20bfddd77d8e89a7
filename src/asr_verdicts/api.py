"""The Python interface for comparing speech recognition systems by their hypotheses."""

import html
import re
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from asr_verdicts.comparison import Comparison
from asr_verdicts.design import Options
from asr_verdicts.errors import UsageError
from asr_verdicts.metrics import format_interval
from asr_verdicts.report.answer import evidence_lines
from asr_verdicts.report.document import report_verdicts
from asr_verdicts.report.files import write_texts
from asr_verdicts.systems import compare_systems
from asr_verdicts.table_columns import rate_rows
from asr_verdicts.texts.scoring import Scoring
from asr_verdicts.texts.values import Hypotheses, Path_, seeds_of, speakers_of_texts, texts_of
from asr_verdicts.verdict import Verdict

Row = dict[str, Any]


class Table(list[Row]):
    """A table as a list of rows, which are dicts with the same keys. Notebooks display it as an HTML table."""

    def frame(self) -> Any:
        """Return the rows as a pandas DataFrame. Raises UsageError if pandas is not installed."""
        try:
            import pandas
        except ImportError as error:
            raise UsageError("frame() needs pandas; install it with pip install pandas") from error
        return pandas.DataFrame(list(self))

    def _repr_html_(self) -> str:
        head = list(self[0]) if self else []
        return _html_table(head, [[_format_cell(row[key]) for key in head] for row in self])


@dataclass(frozen=True, repr=False)
class Result:
    """The result of `compare`. Notebooks display it as a table, a figure and the verdict sentences."""

    comparison: Comparison

    def __repr__(self) -> str:
        """Return the verdict sentences and the warnings, one per line."""
        return "\n".join([*map(str, self.comparison.answer), *(f"! {warning}" for warning in self.warnings)])

    @property
    def verdicts(self) -> list[Verdict]:
        """The verdicts on all questions and test sets. Verdicts on the primary test set come first."""
        return self.comparison.verdicts

    @property
    def warnings(self) -> list[str]:
        """Warnings about the runs and their files."""
        return [_as_arguments(warning) for warning in self.comparison.warnings]

    @property
    def scored(self) -> str:
        """A sentence that states how the transcripts were normalised before scoring; "" for training runs."""
        return _as_arguments(self.comparison.scored)

    def table(self) -> Table:
        """Return a row for each arm and test set, with the number of runs (`n`) and the mean error rates as fractions.

        `wer_sd` and `cer_sd` are standard deviations over seeds. Substitutions, deletions and insertions are mean
        counts per run.
        """
        keys = ("arm", "set", "n", "wer", "wer_sd", "cer", "cer_sd", "substitutions", "deletions", "insertions")
        return Table({key: row[key] for key in keys} for row in rate_rows(self.comparison))

    def frame(self) -> Any:
        """Return the table as a pandas DataFrame."""
        return self.table().frame()

    def save(self, folder: Path_) -> list[Path]:
        """Write the report files into a folder, with figures if matplotlib is installed, and return their paths."""
        into = Path(folder)
        written = write_texts(report_verdicts(self.comparison), into)
        try:
            from asr_verdicts.report.figures import FIGURES, write_figures
        except ModuleNotFoundError:
            return written
        return [*written, *write_figures(self.comparison, into, FIGURES)]

    def _repr_html_(self) -> str:
        metric = self.comparison.design.metric
        sentences = "".join(f"<p>{html.escape(str(verdict))}</p>" for verdict in self.comparison.answer)
        head = ["arm", "set", metric.heading, f"difference to {self.comparison.baseline}", "interval", "verdict"]
        rows = [
            [
                verdict.arm,
                verdict.set,
                metric.text(verdict.rate),
                metric.text(verdict.difference, sign=True),
                format_interval(verdict.low, verdict.high, metric),
                verdict.outcome,
            ]
            for verdict in self.verdicts
        ]
        table = _html_table(head, rows) if rows else self.table()._repr_html_()
        notes = [*map(_as_arguments, evidence_lines(self.comparison)), self.scored, *self.warnings]
        footer = "".join(f"<p><small>{html.escape(note)}</small></p>" for note in notes if note)
        return f"{table}{self._figure()}{sentences}{footer}"

    def _figure(self) -> str:
        """Draw the differences and their intervals as SVG; return "" if there is no interval or no matplotlib."""
        if not any(verdict.interval for verdict in self.verdicts):
            return ""
        try:
            from asr_verdicts.report.figures import draw_differences, write_figures
        except ModuleNotFoundError:
            return ""
        with tempfile.TemporaryDirectory() as folder:
            drawn = write_figures(self.comparison, Path(folder), {"differences": draw_differences}, ["svg"])
            pictures = [path.read_text(encoding="utf-8") for path in drawn]
        return "".join(picture[picture.index("<svg") :] for picture in pictures)


def compare(
    systems: Mapping[str, Hypotheses],
    references: Path_ | Sequence[str] | Mapping[str, str] | None = None,
    *,
    speakers: Path_ | Sequence[str] | Mapping[str, str] | None = None,
    speaker_of: str | None = None,
    normalise: str = "none",
    normalize: str | None = None,
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
    """Compare systems by their hypotheses. The first system is the baseline, unless `baseline` names another.

    - systems: dict from system name to hypotheses, which are a file, a glob pattern, a list of transcripts, or a dict
      from utterance id to transcript. For several seeds, use a list of such values, one per seed.
    - references: reference transcripts as a file, a list or a dict; None if the hypothesis files contain them
    - speakers: speaker of each utterance: a list in the order of the transcripts, a dict by id, or an utt2spk file
    - speaker_of: regular expression whose first group matches the speaker in an utterance id
    - normalise (or normalize): text normalisation before scoring: none, case, punctuation or whisper
    - language: language code of the transcripts, such as tr
    - drop: words to remove from all transcripts, separated by commas
    - missing: how to handle ids that differ between hypotheses and references: refuse, empty or skip
    - seeds: number of seeds per system, if it was fixed before any result was seen
    - looks: whether seeds are added after looking at results. The interval is then valid however often you look.
    - margin: largest difference that would not matter: 0.5 for half a point of WER, "5%" for 5 % of the baseline's rate
    - metric: error rate to compare: wer, cer or cer_longer
    - format: file format, such as trn or ctm, if it cannot be recognised
    - set: name of the test set, for reports

    Raises UsageError, which is a ValueError, if an argument is invalid or if hypotheses and references do not match.
    """
    if not isinstance(systems, Mapping) or not systems:
        given = "an empty one" if isinstance(systems, Mapping) else f"a {type(systems).__name__}"
        raise UsageError(
            f"systems: expected a dict of hypotheses by name, such as {{'base': [...], 'mine': [...]}}, not {given}"
        )
    try:
        spoken = None if references is None else texts_of(references, "references", format, references=True)
        read = {name: {set: seeds_of(value, name, format, spoken)} for name, value in systems.items()}
        by_id = speakers_of_texts(speakers, spoken, read, set)
        scoring = Scoring(normalize or normalise, missing, by_id, speaker_of, language, drop)
        by_set = {} if spoken is None else {set: spoken}
        options = Options(baseline, [], metric, set)
        return Result(compare_systems(read, by_set, scoring, options, seeds=seeds, looks=looks, margin=margin))
    except UsageError as error:
        raise UsageError(_as_arguments(str(error))) from error


def _as_arguments(text: str) -> str:
    """Rewrite the command-line options in a message as arguments of `compare`: --drop x becomes drop=x."""
    text = text.replace("--utt2spk", "speakers")
    text = re.sub(r"--([a-z]+)(?:-([a-z]+))? (?!and\b|or\b|says\b|was\b|names\b)(?=[\w'<])", _name_argument, text)
    return re.sub(r"--([a-z]+)(?:-([a-z]+))?(?=\W|$)", lambda match: _name_argument(match).rstrip("="), text)


def _name_argument(match: re.Match[str]) -> str:
    return "_".join(filter(None, match.groups())) + "="


def _html_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    def line(cells: Sequence[str], tag: str) -> str:
        return f"<tr>{''.join(f'<{tag}>{html.escape(cell)}</{tag}>' for cell in cells)}</tr>"

    return f"<table><thead>{line(head, 'th')}</thead><tbody>{''.join(line(row, 'td') for row in rows)}</tbody></table>"


def _format_cell(value: object) -> str:
    return "" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)

"""The table that a run prints at its end."""

from collections.abc import Sequence
from pathlib import Path

from rich.table import Table

from asr_ablations.experiment.utterances import UtteranceRow
from asr_ablations.tools.files import Json
from asr_ablations.tools.paths import typed
from asr_ablations.tools.terminal import console

EXAMPLES = 3


def print_run(folder: Path, summary: Json, rows: Sequence[UtteranceRow]) -> None:
    """Print the error rates of every set, a few transcripts, the time, and what to do next."""
    terminal = console(soft_wrap=True)
    terminal.print(_table(summary))
    first_set = [row for row in rows if row["set"] == summary["test_sets"][0]]
    for row in first_set[:: max(1, len(first_set) // EXAMPLES)][:EXAMPLES]:
        terminal.print(f"reference   {row['reference']}\nhypothesis  {row['hypothesis']}\n", markup=False)
    seconds = summary["seconds"]
    terminal.print(
        f"trained {seconds['train']:.0f} s, evaluated {seconds['evaluate']:.0f} s, "
        f"{3600 * summary['audio_hours_per_second']:.0f} s of audio per second in the training step\n"
        f"run folder  {folder}\n"
        f"look at it  {typed('compare')} {folder}\n"
        f"try next    {typed('train')} -m rnn=lstm,gru precision=16",
        markup=False,
    )


def _table(summary: Json) -> Table:
    table = Table(title=summary["name"], title_justify="left")
    for column in ("set", "utterances", "words", "WER %", "CER %", "S", "D", "I"):
        table.add_column(column, justify="left" if column == "set" else "right")
    for name, final in summary["sets"].items():
        sizes = [str(final[key]) for key in ("utterances", "words")]
        percents = [f"{100 * final[key]:.2f}" for key in ("wer", "cer")]
        counts = [str(final[key]) for key in ("substitutions", "deletions", "insertions")]
        table.add_row(name, *sizes, *percents, *counts)
    return table

"""A run's closing table."""

from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from asr_ablations.runs.reader import read_status, read_summary

EXAMPLES = 3


def print_run(folder: Path, summary: dict[str, Any], rows: list[dict[str, Any]]) -> None:
    """Error rates of every set, a few transcripts, time, and what to do next."""
    console = Console(soft_wrap=True, highlight=False)
    table = Table(title=summary["name"], title_justify="left")
    for column in ("set", "utterances", "words", "WER %", "CER %", "S", "D", "I"):
        table.add_column(column, justify="left" if column == "set" else "right")
    for name, found in summary["sets"].items():
        counts = [str(found[key]) for key in ("substitutions", "deletions", "insertions")]
        rates = [f"{100 * found['wer']:.2f}", f"{100 * found['cer']:.2f}"]
        table.add_row(name, str(found["utterances"]), str(found["words"]), *rates, *counts)
    console.print(table)
    shown = [row for row in rows if row["set"] == summary["test_sets"][0]]
    for row in shown[:: max(1, len(shown) // EXAMPLES)][:EXAMPLES]:
        console.print(f"reference   {row['reference']}\nhypothesis  {row['hypothesis']}\n", markup=False)
    seconds = summary["seconds"]
    console.print(
        f"trained {seconds['train']:.0f} s, evaluated {seconds['evaluate']:.0f} s, "
        f"{3600 * summary['audio_hours_per_second']:.0f} s of audio a second in the training step\n"
        f"run folder  {folder}\n"
        "try next    python src/train.py -m rnn=lstm,gru precision=16",
        markup=False,
    )


def print_finished(folder: Path) -> None:
    """That a run needs no training, and what it gave."""
    summary = read_summary(folder)
    started = read_status(folder)["started"]
    sets = ", ".join(f"{name} WER {100 * found['wer']:.2f} %" for name, found in summary["sets"].items())
    print(f"done already, begun {started}: {sets}\nrun folder  {folder}\nforce=true starts anew and keeps this one")

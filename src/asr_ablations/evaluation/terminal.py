"""Evaluations in the terminal."""

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from asr_ablations.evaluation.record import Evaluation
from asr_ablations.runs.layout import EVALUATIONS
from asr_ablations.tools.terminal import console

HEAD = ("set", "WER %", "CER %", "CER (longer) %", "S", "D", "I", "time s", "utterances/s", "real-time factor")


def print_evaluations(evaluations: Sequence[Evaluation], overrides: Sequence[Sequence[str]]) -> None:
    """Print one row per set of every evaluation, under the overrides that distinguish it (Baunsgaard2020 table 3).

    overrides: the command line of each evaluation.
    """
    terminal = console()
    table = Table(title="evaluations", title_justify="left")
    for column in ("decoder", *HEAD):
        table.add_column(column, justify="left" if column in ("decoder", "set") else "right", overflow="fold")
    for evaluation, label in zip(evaluations, _labels(evaluations, overrides), strict=True):
        for number, name in enumerate(evaluation.content["sets"]):
            table.add_row("" if number else label, *_cells(evaluation, name))
    if evaluations:
        terminal.print(table)
    for evaluation in evaluations:
        _print_tuning(terminal, evaluation)
        terminal.print(f"{evaluation.folder / EVALUATIONS / evaluation.name}.json", soft_wrap=True, markup=False)


def _labels(evaluations: Sequence[Evaluation], overrides: Sequence[Sequence[str]]) -> list[str]:
    """The decoder, the overrides that differ among the command lines, and the run if there are several."""
    several = len({evaluation.folder for evaluation in evaluations}) > 1
    shared = set.intersection(*map(set, overrides)) if overrides else set()
    labels = []
    for evaluation, own in zip(evaluations, overrides, strict=True):
        varied = [o.removeprefix("decoder.") for o in own if o not in shared and not o.startswith(("run=", "decoder="))]
        run = [evaluation.content["run"]] if several else []
        labels.append(" ".join([evaluation.content["name"], *varied, *run]))
    return labels


def _cells(evaluation: Evaluation, name: str) -> list[str]:
    result = evaluation.content["sets"][name]
    return [
        name,
        *(f"{100 * result[key]:.2f}" for key in ("wer", "cer", "cer_longer")),
        *(str(result[key]) for key in ("substitutions", "deletions", "insertions")),
        f"{result['decode_seconds']:.2f}",
        f"{result['utterances_per_second']:.1f}",
        f"{result['real_time_factor']:.4f}",
    ]


def _print_tuning(terminal: Console, evaluation: Evaluation) -> None:
    tuning = evaluation.content["tuning"]
    if tuning:
        chosen = ", ".join(f"{key}={value:.3f}" for key, value in tuning["chosen"].items())
        terminal.print(
            f"tuned on {tuning['set']} in {tuning['trials']} trials: {chosen}; its WER went from "
            f"{100 * tuning['wer_untuned']:.2f} to {100 * tuning['wer']:.2f} % ({tuning['file']})",
            soft_wrap=True,
            markup=False,
        )

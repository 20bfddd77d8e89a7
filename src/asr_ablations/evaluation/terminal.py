"""Evaluations in the terminal."""

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from asr_ablations.evaluation.record import Evaluation
from asr_ablations.runs.layout import EVALUATIONS

HEAD = ("set", "WER %", "CER %", "CER % (longer)", "S", "D", "I", "time s", "utterances/s", "real-time factor")


def print_evaluations(evaluations: Sequence[Evaluation], overrides: Sequence[Sequence[str]]) -> None:
    """One row a set of every evaluation, under what its command line has that others have not (papers/004, Table 3)."""
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = 200  # a log file has no width of its own, and 80 would fold the columns
    table = Table(title="evaluations", title_justify="left")
    for column in ("decoder", *HEAD):
        table.add_column(column, justify="left" if column in ("decoder", "set") else "right", overflow="fold")
    for evaluation, label in zip(evaluations, _labels(evaluations, overrides), strict=True):
        for name in evaluation.content["sets"]:
            table.add_row(label, *_cells(evaluation, name))
            label = ""
    if evaluations:
        console.print(table)
    for evaluation in evaluations:
        _print_tuning(console, evaluation)
        console.print(f"{evaluation.folder / EVALUATIONS / evaluation.name}.json", soft_wrap=True, markup=False)


def _labels(evaluations: Sequence[Evaluation], overrides: Sequence[Sequence[str]]) -> list[str]:
    """The decoder, its run where there are several, and what differs among the command lines."""
    several = len({one.folder for one in evaluations}) > 1
    shared = set.intersection(*map(set, overrides)) if overrides else set()
    labels = []
    for one, own in zip(evaluations, overrides, strict=False):
        varied = [o.removeprefix("decoder.") for o in own if o not in shared and not o.startswith(("run=", "decoder="))]
        labels.append(" ".join([one.content["name"], *varied, *([one.content["run"]] if several else [])]))
    return labels


def _cells(evaluation: Evaluation, name: str) -> list[str]:
    found = evaluation.content["sets"][name]
    return [
        name,
        *(f"{100 * found[key]:.2f}" for key in ("wer", "cer", "cer_longer")),
        *(str(found[key]) for key in ("substitutions", "deletions", "insertions")),
        f"{found['decode_seconds']:.2f}",
        f"{found['utterances_per_second']:.1f}",
        f"{found['real_time_factor']:.4f}",
    ]


def _print_tuning(console: Console, evaluation: Evaluation) -> None:
    tuning = evaluation.content["tuning"]
    if tuning:
        chosen = ", ".join(f"{key}={value:.3f}" for key, value in tuning["chosen"].items())
        console.print(
            f"tuned on {tuning['set']} in {tuning['trials']} trials: {chosen}; WER there "
            f"{100 * tuning['wer_untuned']:.2f} -> {100 * tuning['wer']:.2f} % ({tuning['file']})",
            soft_wrap=True,
            markup=False,
        )

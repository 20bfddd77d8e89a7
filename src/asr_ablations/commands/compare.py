"""Compare the arms of a sweep: table, statistics, verdicts, figures, page.

python src/compare.py outputs/rnn_type                     one sweep
python src/compare.py outputs/rnn_type --baseline lstm     with another arm as the baseline
python src/compare.py outputs/rnn_type --metric loss       by validation loss instead of WER
python src/compare.py outputs/rnn_type --figures differences,wer_by_epoch    only these figures
python src/compare.py outputs/single/<run>                 one run: its curves, confusions and three utterances
python src/compare.py outputs/a outputs/b --allow batch.size    two sweeps, which may differ in the batch size
python src/compare.py wandb=entity/project/group           runs that were logged to Weights & Biases
python src/compare.py --references ref.trn base=a/hyp.trn 'mine=b/seed*/hyp.trn'
                                                           hypotheses of any toolkit (docs/verdicts.md)
python src/compare.py outputs/benchmarks                   results of src/benchmark.py, side by side
python src/compare.py mine.json theirs.json                results of src/benchmark.py on two machines
"""

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING

from asr_ablations.commands.console import as_folder, exit_code
from asr_ablations.runs.layout import COMPARISON
from asr_ablations.tools.files import CONF, typed
from asr_verdicts.cli import add_answer_options, add_text_options, pass_gate, print_files, print_result
from asr_verdicts.errors import UsageError
from asr_verdicts.files import folder_name
from asr_verdicts.terminal import waiting
from asr_verdicts.texts.systems import is_system

if TYPE_CHECKING:
    from asr_ablations.report.inspection import Inspected
    from asr_verdicts.comparison import Comparison


def main(arguments: list[str] | None = None) -> int:
    """Run the command and return its exit code: 2 after a user's mistake, or if the arms must not be compared."""
    options = parser().parse_args(arguments)
    return exit_code(lambda: _run(options))


def _run(options: argparse.Namespace) -> int:
    if options.figures:  # refuse wrong names before a look at the runs is recorded
        from asr_ablations.report.figures import check_figures

        check_figures(options.figures)
    systems = [word for word in options.folders if is_system(word) and not Path(word).exists()]
    if systems or options.references:
        return write_report(options, *_compare_systems(options, systems))
    for name in HYPOTHESIS_OPTIONS:
        if getattr(options, name) not in (None, False, "", [], "none", "refuse"):
            raise UsageError(f"--{name.replace('_', '-')}: only for hypotheses, given as NAME=FILE")
    return 0 if _compare_benchmarks(options) else write_comparison(options)


def parser() -> argparse.ArgumentParser:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument(
        "folders",
        nargs="*",
        type=as_folder,
        metavar="FOLDER",
        help="folder of a sweep or run, wandb=…, or hypotheses as NAME=[SET:]FILE (a pattern for several seeds)",
    )
    add_answer_options(arguments, "<first folder>/comparison")
    arguments.add_argument(
        "--allow", action="append", default=[], metavar="KEY", help="additional key or group in which runs may differ"
    )
    arguments.add_argument(
        "--target",
        action="append",
        type=float,
        default=[],
        help="target error rate (0.2 is 20 %%) or loss (nats): compare the times until runs reach it",
    )
    arguments.add_argument("--no-page", action="store_true", help="write no page; draw only the figures of --figures")
    arguments.add_argument(
        "--figures",
        default=[],
        type=lambda names: names.split(","),
        metavar="NAME,…",
        help="draw only these figures, such as differences,wer_by_epoch (default: all)",
    )
    project = os.environ.get("WANDB_PROJECT") or "asr-ablations"
    arguments.add_argument(
        "--wandb-log", metavar="PROJECT", nargs="?", const=project, help="log the tables and the page to W&B"
    )
    add_text_options(arguments.add_argument_group("hypotheses of any toolkit, NAME=[SET:]FILE (docs/verdicts.md)"))
    return arguments


HYPOTHESIS_OPTIONS = (
    "references", "format", "columns", "speaker_of", "utt2spk", "normalise", "language", "drop", "missing", "seeds",
    "looks", "margin",
)  # fmt: skip
"""Options that apply only to hypotheses."""


def _compare_benchmarks(options: argparse.Namespace) -> bool:
    """Compare the benchmark results in the given folders, if any. Return whether there were any."""
    from asr_benchmarks.tables import compare_results, results

    paths = [Path(folder) for folder in options.folders if not folder.startswith("wandb=")]
    if files := [file for path in paths for file in results(path)]:
        folder = options.out or (paths[0].parent if paths[0].is_file() else paths[0]) / COMPARISON
        print_files(compare_results(files, folder), folder)
    return bool(files)


def _compare_systems(options: argparse.Namespace, systems: list[str]) -> "tuple[Comparison, Path]":
    """Compare systems by their hypotheses. Return the comparison, and the folder to which to write its files."""
    from asr_verdicts.cli import compare_given

    if others := [word for word in options.folders if word not in systems]:
        raise UsageError(f"{others[0]}: expected NAME=FILE, like the other systems")
    if not systems:
        raise UsageError("--references: no system is given; expected NAME=FILE, such as base=a/hyp.trn mine=b/hyp.trn")
    for option in ("allow", "target"):
        if getattr(options, option):
            raise UsageError(f"--{option} is for runs; systems have only hypotheses")
    comparison = compare_given(options, systems)
    names = dict.fromkeys(word.partition("=")[0] for word in systems)
    return comparison, options.out or Path("outputs") / folder_name("-".join(names)) / COMPARISON


def write_comparison(options: argparse.Namespace) -> int:
    from asr_ablations.comparison.folders import compare_folders, lay_out, with_warnings
    from asr_verdicts.comparison import compare
    from asr_verdicts.design import Options

    if not options.folders:
        raise UsageError(f"no folder given: expected the folder of a sweep, as in {typed('compare')} outputs/rnn_type")
    settings = Options(options.baseline, options.allow, options.metric, options.set, options.target)
    first = options.folders[0]
    if first.startswith("wandb="):
        from asr_ablations.comparison.wandb_runs import fetch

        path = first.removeprefix("wandb=")
        records, evidence = fetch(path)
        layout = lay_out(records, settings, None)
        comparison = with_warnings(compare(records, settings, path.rpartition("/")[2], evidence, layout=layout))
        folder = options.out or Path("outputs") / comparison.title / COMPARISON
    else:
        with waiting("comparing"):
            comparison = compare_folders([Path(folder) for folder in options.folders], settings)
        folder = options.out or Path(first) / COMPARISON
    return write_report(options, comparison, folder)


def write_report(options: argparse.Namespace, comparison: "Comparison", folder: Path) -> int:
    """Write the files of a comparison to `folder` and print its answer. Return the exit code."""
    from asr_ablations.report.training_report import report_comparison
    from asr_verdicts.report.files import write_texts

    failed = pass_gate(comparison, options.fail_if)
    report = report_comparison(comparison)
    written = write_texts(report, folder)  # before anything is printed, because `| head` ends the command there
    drawn: list[Path] = []
    notes = []
    if options.figures or not options.no_page:
        from asr_ablations.report.figures import write_figures

        drawn = write_figures(comparison, folder, options.figures)
        if lacking := [name for name in options.figures if name not in {path.stem for path in drawn}]:
            notes.append(f"not drawn, because the runs lack the data: {', '.join(lacking)}")
        written += drawn
    if not options.no_page:
        from asr_ablations.report.page import write_page

        with waiting("drawing utterances"):
            inspected, pictures = inspect_single(comparison, folder)
        written += [*pictures, *write_page(report, folder, [*drawn, *pictures], inspected)]
    if options.wandb_log:
        from asr_ablations.report.wandb import log_comparison

        notes.append(log_comparison(comparison, options.wandb_log, folder))
    return print_result(report, options, failed, written, folder, notes)


def inspect_single(comparison: "Comparison", folder: Path) -> "tuple[list[Inspected], list[Path]]":
    """Pass a few utterances of a single run through its model and draw them. Return the utterances and the files.

    Both lists are empty if there are several runs, or if the model or the audio is missing.
    """
    if len(comparison.runs) != 1 or not comparison.runs[0].utterances:
        return [], []
    from asr_ablations.config.compose import look_up_in
    from asr_ablations.report.inspection import draw_inspected, inspect

    look_up_in(CONF)  # older configs may lack keys, which then get their values from conf/
    try:
        inspected = inspect(comparison.runs[0], comparison.sets)
    except (UsageError, OSError, ValueError) as error:
        print(f"no utterances are drawn: {error}")
        return [], []
    return inspected, draw_inspected(inspected, folder)

"""Compare speech recognition systems by their hypotheses, with a table, verdicts and figures.

asr-verdicts compare --references ref.trn base=a/hyp.trn mine=b/hyp.trn
asr-verdicts compare --references ref.trn 'base=base/seed*/hyp.trn' 'mine=mine/seed*/hyp.trn' --utt2spk utt2spk
"""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from asr_verdicts.errors import UsageError
from asr_verdicts.files import folder_name
from asr_verdicts.terminal import forgive_characters, harmless
from asr_verdicts.text import NAMES
from asr_verdicts.texts.formats import FORMATS
from asr_verdicts.texts.scoring import MISSING, Scoring
from asr_verdicts.texts.speakers import speakers_in
from asr_verdicts.texts.systems import columns, parse, read_given

if TYPE_CHECKING:
    from asr_verdicts.comparison import Comparison
    from asr_verdicts.report.document import Report

GATES = ("worse", "not-equivalent")


def main(arguments: list[str] | None = None) -> int:
    """Run the `asr-verdicts` command and return its exit code: 2 for invalid input, 1 for a file error."""
    parser = argparse.ArgumentParser(prog="asr-verdicts", description="Is one recogniser better than another?")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    command = commands.add_parser(
        "compare", help="compare systems", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    command.add_argument(
        "systems", nargs="+", metavar="NAME=[SET:]FILE", help="hypotheses; for several seeds, a glob pattern in quotes"
    )
    add_answer_options(command, "named after the systems, such as base-mine")
    add_text_options(command)
    options = parser.parse_args(arguments)
    forgive_characters()
    try:
        from asr_verdicts.report.document import report_verdicts  # imports scipy, which would delay --help

        report = report_verdicts(compare_given(options, options.systems))
        folder = options.out or Path(folder_name("-".join(arm.name for arm in report.comparison.arms)))
        return write_report(report, folder, options)
    except UsageError as error:
        print(harmless(f"error: {error}"), file=sys.stderr)
        return 2
    except OSError as error:
        print(harmless(f"error: {error.filename or ''}: {error.strerror}"), file=sys.stderr)
        return 1


def add_answer_options(parser: argparse.ArgumentParser, out: str) -> None:
    """Add the command-line options that all comparisons share. out: default of --out, as described in its help text."""
    parser.add_argument("--baseline", help="arm to which the others are compared (default: as declared, or the first)")
    parser.add_argument(
        "--metric",
        metavar="NAME",
        help="metric to compare: wer, cer, cer_longer or loss (default: as declared, or wer)",
    )
    parser.add_argument("--set", metavar="NAME", help="test set that decides (default: as declared, or the first)")
    parser.add_argument("--full", action="store_true", help="print all tables, not only the answer")
    parser.add_argument("--out", type=Path, help=f"folder for the report files (default: {out})")
    parser.add_argument("--json", action="store_true", help="print the contents of comparison.json, not the answer")
    parser.add_argument(
        "--fail-if",
        choices=GATES,
        help="exit with code 1 if an arm is worse than the baseline, or unless it is better or equivalent",
    )


def add_text_options(group: argparse._ActionsContainer) -> None:
    """Add the command-line options for comparing hypothesis files."""
    group.add_argument(
        "--references", action="append", default=[], metavar="[SET:]FILE", help="reference transcripts: file or pattern"
    )
    group.add_argument("--format", metavar="NAME", help=f"format of the files, if ambiguous: {', '.join(FORMATS)}")
    group.add_argument(
        "--columns", metavar="WHAT=NAME,…", help="table columns: id, hypothesis, reference, speaker, unit, audio, set"
    )
    group.add_argument("--speaker-of", metavar="REGEX", help="regex whose group is the speaker in an id: ^([^-]+)-")
    group.add_argument("--utt2spk", type=Path, metavar="FILE", help="file with an id and its speaker on each line")
    group.add_argument(
        "--normalise", "--normalize", default="none", metavar="HOW", help=f"normalise all texts: {', '.join(NAMES)}"
    )
    group.add_argument("--language", default="", metavar="CODE", help="language code of the texts; for tr, I becomes ı")
    group.add_argument("--drop", default="", metavar="WORD,…", help="words to remove from all texts: '<unk>,[noise]'")
    group.add_argument("--missing", default="refuse", metavar="HOW", help=f"if ids differ: {', '.join(MISSING)}")
    group.add_argument("--seeds", type=int, metavar="N", help="seeds per arm, if fixed before any result was seen")
    group.add_argument("--looks", action="store_true", help="seeds are added after looking at results")
    group.add_argument("--margin", metavar="SIZE", help="largest difference that would not matter: 0.5 points, or 5%%")


def compare_given(options: argparse.Namespace, systems: Sequence[str]) -> "Comparison":
    """Compare systems given as NAME=[SET:]FILE. Raises UsageError if an argument is invalid or files do not match."""
    from asr_verdicts.design import Options
    from asr_verdicts.systems import compare_systems

    speakers = None if options.utt2spk is None else speakers_in(options.utt2spk)
    scoring = Scoring(options.normalise, options.missing, speakers, options.speaker_of, options.language, options.drop)
    files, references = read_given(parse(systems, options.references), options.format, columns(options.columns))
    chosen = Options(options.baseline, metric=options.metric, set=options.set)
    return compare_systems(
        files, references, scoring, chosen, seeds=options.seeds, looks=options.looks, margin=options.margin
    )


def write_report(report: "Report", folder: Path, options: argparse.Namespace) -> int:
    """Write the report files and print the answer. Return the exit code. Figures need matplotlib."""
    from asr_verdicts.report.files import write_texts

    failed = pass_gate(report.comparison, options.fail_if)
    written = write_texts(report, folder)  # before anything is printed, because `| head` ends the command there
    notes = []
    try:
        from asr_verdicts.report.figures import FIGURES, write_figures
    except ModuleNotFoundError:
        notes.append("no figures, because matplotlib is missing; pip install 'asr-verdicts[figures]' installs it")
    else:
        written += write_figures(report.comparison, folder, FIGURES)
    return print_result(report, options, failed, written, folder, notes)


def pass_gate(comparison: "Comparison", gate: str | None) -> list[str]:
    """Return the sentences of the verdicts that do not pass --fail-if. Raise UsageError if no verdict can pass it."""
    from asr_verdicts.verdict import EQUIVALENT

    if gate is None:
        return []
    if not comparison.answer:
        raise UsageError(f"--fail-if={gate}: there is nothing to compare; expected two systems or more")
    if gate == "worse":
        return [verdict.sentence for verdict in comparison.answer if verdict.outcome == "worse"]
    if any(verdict.margin is None for verdict in comparison.answer):
        raise UsageError(f"--fail-if={gate}: no margin is declared; expected --margin, or ablation.margin of the runs")
    return [verdict.sentence for verdict in comparison.answer if verdict.outcome not in ("better", *EQUIVALENT)]


def print_result(
    report: "Report",
    options: argparse.Namespace,
    failed: Sequence[str],
    written: Sequence[Path],
    folder: Path,
    notes: Sequence[str],
) -> int:
    """Print the answer, all tables with --full, or JSON with --json. Return 1 if verdicts failed, else 0."""
    from asr_verdicts.report.files import plain
    from asr_verdicts.report.terminal import print_answer, print_comparison

    if options.json:
        print(json.dumps(plain(report.content), ensure_ascii=False, indent=2))
    else:
        (print_comparison if options.full else print_answer)(report)
        print(*notes, sep="\n", end="\n" * bool(notes))
        print_files(written, folder)
    for sentence in failed:
        print(harmless(f"--fail-if={options.fail_if}: {sentence}"), file=sys.stderr)
    return 1 if failed else 0


def print_files(paths: Sequence[Path], folder: Path) -> None:
    """Print the folder of the report files, the file to open first, and the files to paste into a paper."""
    by_name = {path.name: path for path in paths}
    look = next((by_name[name] for name in ("index.html", "differences.svg", "report.md") if name in by_name), folder)
    paste = ", ".join(name for name in ("table.tex", "methods.txt") if name in by_name)
    print(f"\nwrote {len(paths)} files to {folder}")
    print(f"Look: {look}{paste and f'   Paste: {paste}'}")


if __name__ == "__main__":
    sys.exit(main())

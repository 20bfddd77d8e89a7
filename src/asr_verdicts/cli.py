"""Compare systems by their hypotheses: table, verdicts, figures.

asr-verdicts compare --references ref.trn base=a/hyp.trn mine=b/hyp.trn
asr-verdicts compare --references ref.trn 'base=base/seed*/hyp.trn' 'mine=mine/seed*/hyp.trn' --utt2spk utt2spk
"""

import argparse
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


def main(arguments: list[str] | None = None) -> int:
    """The exit code: 2 for a mistake of the user's."""
    parser = argparse.ArgumentParser(prog="asr-verdicts", description="Is one recogniser better than another?")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    command = commands.add_parser(
        "compare", help="compare systems", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    command.add_argument(
        "systems", nargs="+", metavar="NAME=[SET:]FILE", help="hypotheses; a pattern in quotes for several seeds"
    )
    add_answer_options(command, "a folder named after the systems, as base-mine")
    add_text_options(command)
    options = parser.parse_args(arguments)
    forgive_characters()
    try:
        from asr_verdicts.report.document import report_verdicts  # imports scipy: --help is there at once

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
    """The options of every comparison: what decides, and what is shown and written. out: where by default."""
    parser.add_argument("--baseline", help="the arm that others are compared to (by default as declared, or the first)")
    parser.add_argument(
        "--metric",
        metavar="NAME",
        help="wer, cer, cer_longer or loss: what verdicts are about (by default as declared, else wer)",
    )
    parser.add_argument("--set", metavar="NAME", help="the set that decides (by default as declared, or the first)")
    parser.add_argument("--full", action="store_true", help="print every table, not the answer alone")
    parser.add_argument("--out", type=Path, help=f"where the files go (by default {out})")


def add_text_options(group: argparse._ActionsContainer) -> None:
    """The options for hypotheses."""
    group.add_argument(
        "--references", action="append", default=[], metavar="[SET:]FILE", help="what was spoken: a file or a pattern"
    )
    group.add_argument("--format", metavar="NAME", help=f"of the files, where it is ambiguous: {', '.join(FORMATS)}")
    group.add_argument(
        "--columns", metavar="WHAT=NAME,…", help="of tables: id, hypothesis, reference, speaker, unit, audio, set"
    )
    group.add_argument("--speaker-of", metavar="REGEX", help="whose group finds the speaker in an id, as ^([^-]+)-")
    group.add_argument("--utt2spk", type=Path, metavar="FILE", help="lines of id and speaker")
    group.add_argument(
        "--normalise", "--normalize", default="none", metavar="HOW", help=f"of both sides: {', '.join(NAMES)}"
    )
    group.add_argument("--language", default="", metavar="CODE", help="of the texts, as tr for the lower case of I")
    group.add_argument("--drop", default="", metavar="WORD,…", help="removed from both sides, as '<unk>,[noise]'")
    group.add_argument("--missing", default="refuse", metavar="HOW", help=f"where ids differ: {', '.join(MISSING)}")
    group.add_argument("--seeds", type=int, metavar="N", help="of each arm, decided before the first result")
    group.add_argument("--looks", action="store_true", help="seeds are added after looks at the results")
    group.add_argument("--margin", metavar="SIZE", help="the difference that would not matter: 0.5 points, or 5%%")


def compare_given(options: argparse.Namespace, systems: Sequence[str]) -> "Comparison":
    """The comparison of systems that are given as NAME=[SET:]FILE. Raises UsageError for what does not fit together."""
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
    """Print the answer and write its files, with the figures if matplotlib is installed."""
    from asr_verdicts.report.files import write_texts
    from asr_verdicts.report.terminal import print_answer, print_comparison

    (print_comparison if options.full else print_answer)(report)
    written = write_texts(report, folder)
    try:
        from asr_verdicts.report.figures import FIGURES, write_figures
    except ModuleNotFoundError:
        print("no figures: they need matplotlib; pip install 'asr-verdicts[figures]' installs it")
    else:
        written += write_figures(report.comparison, folder, FIGURES)
    print_files(written, folder)
    return 0


def print_files(paths: Sequence[Path], folder: Path) -> None:
    """Print where the files are, which one to look at, and which ones a paper takes."""
    by_name = {path.name: path for path in paths}
    look = next((by_name[name] for name in ("index.html", "differences.svg", "report.md") if name in by_name), folder)
    paste = ", ".join(name for name in ("table.tex", "methods.txt") if name in by_name)
    print(f"\nwrote {len(paths)} files to {folder}")
    print(f"Look: {look}{paste and f'   Paste: {paste}'}")


if __name__ == "__main__":
    sys.exit(main())

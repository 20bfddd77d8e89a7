"""RESULTS.md: every finished sweep, generated from the records of sweeps that are kept beside it."""

import math
import os
import sys
from argparse import ArgumentParser
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from textwrap import indent

from rich.progress import track

from asr_ablations.commands.console import exit_code
from asr_ablations.comparison.folders import compare_folders
from asr_ablations.comparison.same_hour import of_one_hour
from asr_ablations.comparison.time_to_accuracy import times_to_accuracy
from asr_ablations.report.figures import write_figures
from asr_ablations.report.training_report import sections
from asr_ablations.runs.layout import EVALUATIONS, SUMMARY, SWEEP, runs_in
from asr_ablations.runs.reader import read_standing, read_sweep, read_yaml
from asr_ablations.runs.status import fate_of
from asr_ablations.runs.verdict_plan import read_plan
from asr_ablations.tools.files import REPOSITORY
from asr_verdicts.arm_differences import differences_of_arms, keys_text
from asr_verdicts.comparison import Comparison
from asr_verdicts.design import Options
from asr_verdicts.errors import UsageError
from asr_verdicts.files import write
from asr_verdicts.identical_arms import did_nothing
from asr_verdicts.metrics import find_metric
from asr_verdicts.one_arm import one_arm
from asr_verdicts.report.formats import body, preamble, table
from asr_verdicts.report.looks import hours, spent_by
from asr_verdicts.report.section import Section
from asr_verdicts.terminal import console
from asr_verdicts.verdict import EQUIVALENT, Verdict
from publish import scale
from publish.across_sweeps import loss_ranks_section, seed_noise_section
from publish.archive import ENDING, evaluations_in, keep, unpack
from publish.claims import agreements
from publish.commentary import Commentary, literature, of_comparison, parse_commentary
from publish.sweep_command import sweep_commands

ANSWERS_HEAD = (
    *("question", "difference", *scale.HEAD, "verdict", "seeds", "the source expects", "agreement", "runs"),
)
EARLIER = """<details>
<summary>Earlier answers: {}</summary>

They are of versions 3 and 4 of the built-in corpus, whose test voices share variants of espeak-ng with voices of \
training. Version 5 tests variants that are not in training, and these questions will be asked again with it."""
"""Above the folded table of earlier answers, with their number."""


@dataclass(frozen=True)
class Published:
    """A comparison with what its sweep file says today. name: of its section of the page, to which its rows link."""

    name: str
    comparison: Comparison
    said: Commentary


def answers(published: Sequence[Published]) -> list[str]:
    """Paragraphs of Markdown: what the columns mean, and the table; empty if no comparison has a verdict.

    Answers of an earlier version of the built-in corpus are in a folded table. Differences without an interval, such as
    differences of one seed, are only counted below the tables.
    """
    rows = [row for one in published for row in _rows(one, earlier=False)]
    earlier = [row for one in published for row in _rows(one, earlier=True)]
    if not rows and not earlier:
        return _without_interval(published)
    return [
        "Difference: of the first from the second, in points of the metric, with the interval of the verdict (for "
        "*equivalent* the one that lies within the margin). Runs: what the sweep's verdicts took, some of them shared "
        "with other sweeps. Each sweep allows 5 % of false claims; sweeps that share runs of a baseline err together.",
        scale.EXPLANATION,
        "*Again*: how often the question, asked once more with fresh seeds, has the same verdict: of plans as "
        "[simulated](../docs/statistics.md#how-large-against-what-matters), of other sweeps as [the noise predicts]"
        "(../docs/statistics.md#without-a-plan). Agreement goes by the interval; *not "
        "comparable*: the claim is about other runs than these. *Asked before*: answers of earlier rounds, whose "
        "runs are lost or replaced: of fewer epochs, the first by speakers. *With*: keys in which arms differ, too, "
        "beside what their names say. *Open*: by voices the plan asks for further runs.",
        scale.summary([one.comparison for one in published]),
        *([table(ANSWERS_HEAD, rows)] if rows else []),
        *([EARLIER.format(len(earlier)), table(ANSWERS_HEAD, earlier), "</details>"] if earlier else []),
        *_without_interval(published),
    ]


def in_table(contrast: Verdict) -> bool:
    """True if the difference has a finite interval."""
    return all(end is not None and math.isfinite(end) for end in (contrast.low, contrast.high))


def _without_interval(published: Sequence[Published]) -> list[str]:
    counts = {one.name: sum(not in_table(verdict) for verdict in one.comparison.answer) for one in published}
    named = ", ".join(f"[{name}](#{name}) ({count})" for name, count in counts.items() if count)
    return [f"Differences of too few seeds for an interval stand in their sections alone: {named}."] if named else []


def _rows(published: Published, *, earlier: bool) -> list[list[str]]:
    name, comparison = published.name, published.comparison
    shown = [
        verdict
        for verdict in comparison.answer
        if in_table(verdict) and scale.is_earlier(verdict, comparison) == earlier
    ]
    return [
        [
            f"[{name}](#{name}): {_question(verdict)}{_unsaid(verdict, comparison)}",
            _difference(verdict),
            *scale.cells(verdict, comparison),
            _outcome(verdict, published),
            " and ".join(map(str, sorted(set(verdict.seeds.values())))),
            *_source(verdict, published),
            _runs(comparison) if first else "",
        ]
        for first, verdict in zip([True, *[False] * len(shown)], shown, strict=False)
    ]


def _question(contrast: Verdict) -> str:
    question = contrast.question
    return f"{question.arm} against {question.baseline}{f', {question.within}' if question.within else ''}"


def _unsaid(contrast: Verdict, comparison: Comparison) -> str:
    """The keys in which the arms differ, beside what their names say."""
    arms = [
        difference
        for difference in differences_of_arms(comparison.design, comparison.arms)
        if contrast.question.weights.get(difference.arm, 0) > 0
    ]
    keys = {key: difference.keys[key] for difference in arms for key in difference.unsaid}
    return f" (with {keys_text(keys)})" if keys else ""


def _outcome(verdict: Verdict, published: Published) -> str:
    name = verdict.question.name
    nothing = did_nothing(verdict.question, published.comparison.arms)
    outcome = f"{verdict.outcome}: the choice did nothing" if nothing else verdict.outcome
    again, earlier = None if nothing else verdict.again, published.said.earlier.get(name)
    notes = [f"again in {again}" if again else "", f"asked before: {earlier}" if earlier else ""]
    return f"{outcome} ({'; '.join(filter(None, notes))})" if any(notes) else outcome


def _difference(contrast: Verdict) -> str:
    metric = find_metric(contrast.metric)
    ends: tuple[float | None, float | None] = (contrast.low, contrast.high)
    if contrast.look is not None and contrast.scale == "points" and contrast.outcome in EQUIVALENT:
        ends = (contrast.look.low, contrast.look.high)
    size = f"{metric.text(contrast.difference, sign=True)} {metric.label}"
    return f"{size} ({metric.text(ends[0], sign=True)} to {metric.text(ends[1], sign=True)})"


def _source(verdict: Verdict, published: Published) -> list[str]:
    """The effect that the source makes one expect, and the agreement with it; of every claim about the question."""
    held = agreements(verdict, published.said.claims, published.comparison.arms)
    if not held:
        return ["–", "–"]
    return ["; ".join(one.expected for one in held), "; ".join(one.outcome for one in held)]


def _runs(comparison: Comparison) -> str:
    """The number of runs behind the sweep's verdicts, and their hours of training."""
    if (cost := spent_by(comparison)) is None:
        return str(len(comparison.runs))
    return f"{cost.runs} of {cost.fixed}{f', {hours(cost.hours)}' if cost.hours is not None else ''}"


DECODERS = "_decoders"
"""Behind a sweep's name: the section of other decoders of its runs."""
HEAD = """# Results

Generated by `make results` from the records in `records/`. Do not edit."""
RECORDS = "records"
FIGURES = ("differences", "looks", "seeds", "sources_of_noise")
"""Of each sweep."""
SHOWN = (
    "Verdicts", "Keys that differ", "Looks", "Cost", "One arm", "Sources of noise", "What the search tried",
    "Error rates", "Training",
)  # fmt: skip
"""Sections of a comparison that the page has before what the literature says, by the beginning of their headings."""
TIMED = ("Until the median", "At equal cost")
"""The sections that it has if targets were declared and the times can be compared."""
LAST = ("Warnings", "Not finished")


def write_results(sweeps: Sequence[Path], target: Path) -> list[Path]:
    """Write RESULTS.md as `target`, from the archives in the folder `records` next to it, and a figure of each sweep.

    sweeps: folders of finished sweeps, which are put among the records first. Returns the paths of all files. Raises
    UsageError for a folder that cannot be a record.
    """
    records = target.parent / RECORDS
    kept = [archive for sweep in sweeps for archive in keep_finished(sweep, records)]
    with TemporaryDirectory() as temporary:
        ended = []
        for sweep in unpack(sorted(records.glob(f"*{ENDING}")), Path(temporary)):
            if is_open(sweep):
                print(f"{sweep.name}: kept, not published: its questions are open; its command goes on with them")
            else:
                ended.append(sweep)
        parts, figures, published = _compared(ended, target)
        trained = [(one.name, one.comparison) for one in published if not one.name.endswith(DECODERS)]
        together = [*seed_noise_section(trained), *loss_ranks_section([comparison for _, comparison in trained])]
        text = "\n\n".join([HEAD, *answers(published), *parts, *together]) + "\n"
        text = text.replace(f"{temporary}/", "outputs/")
    target.parent.mkdir(parents=True, exist_ok=True)
    write(target, text)
    return [target, *kept, *figures]


def keep_finished(sweep: Path, records: Path) -> list[Path]:
    """Put a sweep among the records; the archive, or none if the record that is there has runs that the sweep lacks,
    which is said. Raises UsageError for a folder that is missing, has a run at work or fewer than two results.
    """
    if not sweep.is_dir():
        raise UsageError(f"{sweep}: there is no such folder; expected a sweep, such as outputs/rnn_type")
    if working := [run.name for run in runs_in(sweep) if fate_of(run).state == "running"]:
        raise UsageError(f"{sweep}: {working[0]} is at work; expected a sweep that has ended")
    if (found := sum((run / SUMMARY).exists() for run in runs_in(sweep))) < 2:
        raise UsageError(f"{sweep}: {found} of its runs has a result; expected two or more")
    if archive := keep(sweep, records):
        return [archive]
    print(f"{sweep}: its record has runs that are not there, and stays: {records / sweep.name}{ENDING}")
    return []


def is_open(sweep: Path) -> bool:
    """True if the sweep has a plan whose looks have not ended: publishing them would be peeking."""
    try:
        return read_plan(sweep) is not None and not read_standing(sweep).get("ended")
    except FileNotFoundError:
        return True


def _compared(sweeps: Sequence[Path], target: Path) -> tuple[list[str], list[Path], list[Published]]:
    """The sections of the page, the figures, and what was compared."""
    parts: list[str] = []
    figures: list[Path] = []
    compared: list[Published] = []
    terminal = console(stderr=True)
    for sweep in track(sweeps, "comparing", console=terminal, transient=True, disable=not terminal.is_terminal):
        for name, folders in questions(sweep).items():
            try:
                comparison = compare_folders(folders, Options())
            except UsageError as error:
                parts += [f"## {name}", "Not compared:", indent(str(error), "    ")]
                continue
            if len(comparison.arms) > 1 or one_arm(comparison.arms):
                said = _commentary(name, sweep, comparison, target.parent)
                published = Published(name, _named(comparison, name, said.source), said)
                drawn = _light(write_figures(published.comparison, target.parent / "figures" / name, FIGURES))
                parts += [*_section(published, sweep), *_figures(drawn, target)]
                figures += drawn
                compared.append(published)
    return parts, figures, compared


def _named(comparison: Comparison, name: str, source: str | None) -> Comparison:
    """The comparison under the name of its section, with the source that the sweep file names today."""
    layout = comparison.design.layout
    design = replace(comparison.design, layout=replace(layout, declared=replace(layout.declared, source=source)))
    return replace(comparison, title=name, design=design)


def questions(sweep: Path) -> dict[str, list[Path]]:
    """The folders to compare, by the name of their section: the sweep's, and those of its runs' other decoders."""
    decoded = [run / EVALUATIONS for run in runs_in(sweep) if evaluations_in(run)]
    return {sweep.name: [sweep], **({f"{sweep.name}{DECODERS}": decoded} if decoded else {})}


def _commentary(name: str, sweep: Path, comparison: Comparison, files: Path) -> Commentary:
    """What a sweep file says today of the sweep's answers; without the file, what its runs recorded.

    The file is the one that the sweep's command names with -cn, else the one with the section's name.
    """
    command = read_sweep(sweep).get("command", []) if name == sweep.name and (sweep / SWEEP).exists() else []
    named = command[command.index("-cn") + 1] if "-cn" in command else name
    if (file := files / f"{named}.yaml").exists():
        declared = read_yaml(file).get("ablation") or {}
    else:
        declared = next((run.config["ablation"] for run in comparison.runs if run.config.get("ablation")), {})
    return of_comparison(parse_commentary(declared), comparison)


def _section(published: Published, sweep: Path) -> list[str]:
    comparison, said = published.comparison, published.said
    parts = [f"## {published.name}", *preamble(comparison), _command(comparison, sweep), _commits(comparison)]
    declared = any(not time.chosen for time in times_to_accuracy(comparison))
    timed = TIMED if declared and of_one_hour(comparison.arms) else ()
    every = sections(comparison)
    shown = [
        *(section for section in every if section.heading.startswith(SHOWN)),
        Section("The literature", lines=literature(said, comparison)),
        *(section for section in every if section.heading.startswith((*timed, *LAST))),
    ]
    for section in shown:
        if section.rows or section.lines:
            parts += [f"**{section.heading}**", *body(section)]
    return parts


def _command(comparison: Comparison, sweep: Path) -> str:
    if comparison.title.endswith(DECODERS):
        return f"    python src/compare.py outputs/{sweep.name}/*/{EVALUATIONS}"
    return indent("\n".join(sweep_commands(sweep, comparison.runs)), "    ")


def _commits(comparison: Comparison) -> str:
    codes = [run.environment.code for run in comparison.runs]
    changes = [" with uncommitted changes" if code.dirty_diff else "" for code in codes]
    commits = [(code.commit or "unknown")[:8] + change for code, change in zip(codes, changes, strict=True)]
    about = f"{scale.training(comparison.runs)}; {scale.days(comparison.runs)}"
    return f"Commit: {', '.join(dict.fromkeys(commits))}. Runs: {about}."


def _light(drawn: Sequence[Path]) -> list[Path]:
    """The figures as SVG alone: they are kept in git."""
    for path in drawn:
        if path.suffix != ".svg":
            path.unlink()
    return [path for path in drawn if path.suffix == ".svg"]


def _figures(drawn: Sequence[Path], target: Path) -> list[str]:
    return [f"![{path.stem}]({os.path.relpath(path, target.parent)})" for path in drawn]


def main(arguments: list[str] | None = None) -> int:
    """Keep the sweeps that are named and write RESULTS.md; the exit code, 2 for a mistake of the user's."""
    parser = ArgumentParser(prog="make results", description="Write sweeps/RESULTS.md from sweeps/records/.")
    parser.add_argument("sweeps", nargs="*", type=Path, help="finished sweeps to keep as records first: outputs/l2")
    parser.add_argument(
        "--into", type=Path, default=REPOSITORY / "sweeps", help="the folder of RESULTS.md and records/"
    )
    options = parser.parse_args(arguments)

    def write_page() -> int:
        print("wrote", *write_results(options.sweeps, options.into / "RESULTS.md"), sep="\n  ")
        return 0

    return exit_code(write_page)


if __name__ == "__main__":
    sys.exit(main())

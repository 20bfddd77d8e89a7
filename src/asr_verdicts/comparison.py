"""Compare runs: check them for confounds, group them into arms, measure the differences, and reach verdicts."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from asr_verdicts.arms import Arm
from asr_verdicts.decide import Family, decide_all
from asr_verdicts.design import Design, Layout, Options, assign
from asr_verdicts.errors import UsageError
from asr_verdicts.evidence import UNDECLARED, Evidence
from asr_verdicts.failures import FailureRule
from asr_verdicts.planned_looks import NO_LOOKS, Course, follow_plan
from asr_verdicts.record import Record, Records, Unfinished
from asr_verdicts.sentences import write_sentence
from asr_verdicts.verdict import Verdict
from asr_verdicts.warnings import seed_noise_text, warnings_about


@dataclass(frozen=True)
class Comparison:
    """The result of a comparison, from which all reports are made.

    - design: arms, baseline, questions and test sets, chosen before anything is measured
    - arms: arms that have results
    - verdicts: verdicts on the primary test set, followed by the verdicts on other test sets
    - evidence: the statistical test, and the reason for choosing it
    - course: planned looks (interim analyses) and their verdicts; NO_LOOKS if the sweep has no plan
    - unfinished: runs without a result
    - scored: a sentence that states how the transcripts were normalised before scoring; "" for training runs
    """

    title: str
    design: Design
    arms: list[Arm]
    verdicts: list[Verdict]
    evidence: Evidence = UNDECLARED
    course: Course = NO_LOOKS
    warnings: list[str] = field(default_factory=list)
    unfinished: list[Unfinished] = field(default_factory=list)
    scored: str = ""

    @property
    def baseline(self) -> str:
        return self.design.baseline.name

    @property
    def metric(self) -> str:
        return self.design.metric.name

    @property
    def set(self) -> str:
        """The primary test set, whose verdicts answer the questions."""
        return self.design.primary

    @property
    def sets(self) -> list[str]:
        return self.design.sets

    @property
    def question(self) -> str | None:
        return self.design.layout.declared.question

    @property
    def answer(self) -> list[Verdict]:
        """The verdicts on the primary test set."""
        return [verdict for verdict in self.verdicts if verdict.primary]

    @property
    def runs(self) -> list[Record]:
        return [run for arm in self.arms for run in arm.runs]


REASONS = 3  # an error message lists at most this many unfinished or diverged runs and counts the rest


def compare(
    records: Records,
    options: Options,
    title: str,
    evidence: Evidence = UNDECLARED,
    layout: Layout[Arm] | None = None,
) -> Comparison:
    """Compare runs, and return the verdicts with everything that reports need.

    layout: arms into which the runs are grouped, by default one for each choice for the factor under test

    Raises ConfoundedError if the runs differ in more than the factor, and UsageError if a question cannot be answered.
    """
    if not records.runs:
        raise UsageError(f"{title}: no run is finished: {_reasons(records)}")
    design = assign(records, options, layout)
    arms = [arm for arm in design.layout.arms if arm.results]
    course, evidence = follow_plan(design, evidence)
    measured, uncompared = _measure(design, arms, evidence, course)
    noise = seed_noise_text(evidence, arms, design)
    return Comparison(
        title=title,
        design=design,
        arms=arms,
        verdicts=[replace(each, sentence=write_sentence(each, arms, noise)) for each in measured],
        evidence=evidence,
        course=course,
        warnings=[*records.warnings, *warnings_about(design, arms, evidence), *uncompared],
        unfinished=records.unfinished,
        scored=records.scored,
    )


def _reasons(records: Records) -> str:
    reasons = [f"{run.folder.name} diverged at step {run.diverged_at}" for run in records.diverged]
    reasons += [f"{run.folder.name} {run.reason}" for run in records.unfinished]
    more = [f"and {len(reasons) - REASONS} more"] if len(reasons) > REASONS else []
    return "; ".join([*reasons[:REASONS], *more])


def _measure(
    design: Design, arms: Sequence[Arm], evidence: Evidence, course: Course
) -> tuple[list[Verdict], list[str]]:
    """Return all verdicts, those on the primary test set first, and warnings about arms that could not be compared."""
    if not design.baseline.results:
        return [], [f"{design.baseline.name}, the baseline, has no result yet"]
    names = {arm.name for arm in arms}
    questions = [question for question in design.questions if names >= {*question.weights}]
    family = Family(
        arms,
        design.baseline,
        questions,
        evidence.describing,
        design.size,
        rule=FailureRule.parse(design.layout.declared.failed),
        scale=design.layout.declared.scale,
        margin=design.margin,
    )
    sets = [name for name in design.sets if name not in course.sets]
    measured, warnings = decide_all(family, sets, design.primary, design.metric.name)
    return [*course.verdicts, *measured], warnings

"""Published answers that do not hold: the sweep file says which, of which commit, and why."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from asr_ablations.comparison.arms import Arm
from asr_ablations.comparison.contrast import Verdict


def withdrawn(
    verdicts: Sequence[Verdict], declared: Mapping[str, Mapping[str, str]], arms: Sequence[Arm]
) -> dict[str, str]:
    """Why an answer is withdrawn, by question. declared: `ablation.withdrawn`, by commit and question. An answer is of
    the commit if one of its runs is: the same question asked again, at another commit, stands.
    """
    reasons = {}
    for commit, questions in declared.items():
        for verdict in verdicts:
            question = verdict.contrast.question
            runs = [run for arm in arms if arm.name in question.weights for run in arm.results]
            commits = [run.environment.code.commit or "" for run in runs]
            if question.name in questions and any(own.startswith(commit) for own in commits):
                reasons[question.name] = questions[question.name]
    return reasons


def without_withdrawn(verdicts: Sequence[Verdict], reasons: Mapping[str, str]) -> list[Verdict]:
    """The verdicts; the sentence of one that is withdrawn begins with the reason."""
    return [
        replace(verdict, sentence=f"withdrawn: {reasons[name]}; it read: {verdict.sentence}")
        if (name := verdict.contrast.question.name) in reasons
        else verdict
        for verdict in verdicts
    ]

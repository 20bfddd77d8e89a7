"""Bad values of every key: of the wrong type, out of range, beyond the machine, empty, with escape sequences."""

import random

from hydra.errors import HydraException
from omegaconf.errors import OmegaConfBaseException

from asr_ablations.config.build import one_line
from asr_ablations.config.checks import check
from asr_ablations.tools.errors import UsageError
from asr_ablations.tools.terminal import harmless
from tests.campaign.commands import Result
from tests.campaign.input_places import InputPlaces
from tests.campaign.input_table import FINE, Case, judge
from tests.campaign.part import Context, Report
from tests.campaign.typed import DIFFERS, run_case, said, try_cases
from tests.campaign.values import ACCEPTED, Turned, value_cases
from tests.helpers.support import composed_by_hydra

NAME = "values"
DESCRIPTION = "twelve bad values of every key: refused in one line with its name, or accepted without harm"
CONTINUES = True


def run(context: Context) -> Report:
    """In a random order. What composing and checking a training's config refuses has said what the command says."""
    cases = value_cases(context.folder / "places" / "ready")
    random.Random(context.seed).shuffle(cases)
    return try_cases(context, cases, "group", tried, (ACCEPTED,))


def tried(case: Case, places: InputPlaces, twice: bool) -> tuple[str, str]:
    """twice: a command is typed even where the config was refused, and must say the same."""
    assert isinstance(case, Turned)
    line = refused(case)
    if line is None:
        return judged(case, *run_case(case, places, False))
    result = Result(2, "", harmless(f"error: {line}"))
    outcome = judge(case, result, (), False), said(result)
    if not twice or (again := run_case(case, places, False)) == outcome:
        return judged(case, *outcome)
    return DIFFERS, f"{outcome} {again}"


def judged(case: Turned, outcome: str, words: str) -> tuple[str, str]:
    """With what was accepted apart from what went wrong, and refusals that name no key among the latter."""
    if outcome == "silent" or (outcome == "wrong exit code" and "diverged at step" in words):
        return ACCEPTED, words
    if outcome == FINE and not any(name in words for name in case.names):
        return "wrong message", words
    return outcome, words


def refused(case: Turned) -> str | None:
    """What a training's config is refused with before anything is built; None where it is not, or is no training's."""
    if case.command != "train" or case.overrides[0] == "-m":
        return None
    try:
        check(composed_by_hydra(case.overrides))
    except (UsageError, HydraException, OmegaConfBaseException) as error:
        return one_line(error)
    return None

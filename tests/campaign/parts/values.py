"""Bad values of every key: of the wrong type, out of range, beyond the machine, empty, with escape sequences."""

import gc
import importlib
import random
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

import asr_ablations.onnx_export.request as export
import asr_ablations.transcription.request as transcribe
from asr_ablations.config.build import one_line
from asr_ablations.config.plain_keys import check
from asr_ablations.evaluation.request import check_requests
from asr_ablations.sweep.processes import PRELOAD
from asr_ablations.tools.errors import UsageError
from asr_ablations.tools.terminal import harmless
from tests.campaign import direct
from tests.campaign.commands import Result
from tests.campaign.input_places import InputPlaces
from tests.campaign.input_table import FINE, Case, judge
from tests.campaign.part import Context, Report
from tests.campaign.typed import DIFFERS, run_case, said, try_cases
from tests.campaign.values import Turned, value_cases
from tests.helpers.support import composed_by_hydra

NAME = "values"
DESCRIPTION = "twelve bad values of every key: refused in one line with its name, or one that the key admits, and used"
CONTINUES = True


def run(context: Context) -> Report:
    """In a random order. What composing, checking and building a training's parts refuses has said what the command
    says.
    """
    cases = value_cases(context.folder / "places" / "ready")
    random.Random(context.seed).shuffle(cases)
    for name in PRELOAD:  # once, and not in each of the processes that are forked
        importlib.import_module(name)
    gc.collect()
    gc.freeze()
    return try_cases(context, cases, "group", tried)


def tried(case: Case, places: InputPlaces, twice: bool) -> tuple[str, str]:
    """twice: a command is typed even where the config was refused, and must say the same."""
    assert isinstance(case, Turned)
    line = refused(case, places)
    if line is None:
        return judged(case, *run_case(case, places, False, lambda folders: unlike(case, folders)))
    result = Result(2, "", harmless(f"error: {line}"))
    outcome = judge(case, result, (), False), said(result)
    if not twice or alike(again := run_case(case, places, False), outcome):
        return judged(case, *outcome)
    return DIFFERS, f"{outcome} {again}"


def alike(one: tuple[str, str], other: tuple[str, str]) -> bool:
    """Whether outcome and last line are the same: a command may warn before it refuses."""
    return (one[0], one[1].partition(" lines: ")[2]) == (other[0], other[1].partition(" lines: ")[2])


def judged(case: Turned, outcome: str, words: str) -> tuple[str, str]:
    """With what ends with exit code 1 by design: a training that diverges from a value that is admitted, and a
    recording that is not there; and with refusals that do not name the key.
    """
    by_design = "diverged at step" if case.is_admitted else "files could not be transcribed"
    if outcome == "wrong exit code" and by_design in words:
        return FINE, words
    if outcome == FINE and not case.is_admitted and not case.is_named_in(words):
        return "wrong message", words
    return outcome, words


def refused(case: Turned, places: InputPlaces) -> str | None:
    """What a command is refused with before it begins; None where it is not, or is to be accepted."""
    with places.scratch() as scratch:
        words = places.words(case, scratch).arguments
        name, checked = CHECKS[case.command]
        try:
            cfg = composed(words, name)
            checked(cfg)
        except (UsageError, HydraException, OmegaConfBaseException) as error:
            return one_line(error)
        if case.is_admitted or case.command != "train" or words[0] == "-m":
            return None
        call = direct.Call(case.kind, case.typed, lambda _: direct.refused(lambda: build_parts(cfg, words, places)))
        outcome, line = direct.outcome(call)
        return line if outcome == FINE else None  # what else it is, the command shows


CHECKS: dict[str, tuple[str, Callable[[DictConfig], None]]] = {
    "train": ("config", check),
    "evaluate": ("evaluation", check_requests),
    "transcribe": ("transcribe", transcribe.check_transcription),
    "export": ("export", export.check_export),
    "lm": ("language_model", check),
}
"""The file of conf/ that a command begins with, and what checks its config."""


def composed(words: Sequence[str], name: str = "config") -> DictConfig:
    """The config of a command, of a sweep the first arm's."""
    cfg = composed_by_hydra(tuple(word for word in words if word != "-m" and not word.startswith("rnn=lstm,")), name)
    if cfg.get("sweep", "") is None:
        cfg.sweep = "single"
    return cfg


def build_parts(cfg: DictConfig, words: Sequence[str], places: InputPlaces) -> None:
    """All that precedes a training's first step, in a process that ends afterwards."""
    from asr_ablations.experiment.fit import TrainingRun
    from asr_ablations.experiment.run import set_up
    from asr_ablations.training.assembly import device_count
    from asr_ablations.training.signals import StopRequest

    places.use_environment()
    sys.argv = ["src/train.py", *words]
    devices = device_count(cfg)
    record, task, data = set_up(cfg)
    with record:
        TrainingRun(cfg, devices, record, task, data, StopRequest(), None)


def unlike(case: Turned, folders: Sequence[Path]) -> str | None:
    """What the records of runs below these folders have in place of the value that was typed; None where each has it,
    or nothing was recorded.
    """
    if case.command != "train" or not (files := [file for folder in folders for file in folder.rglob("config.yaml")]):
        return None
    typed = OmegaConf.select(composed(case.overrides), case.key)
    kept = [OmegaConf.select(OmegaConf.load(file), case.key) for file in files]
    return next((f"the run has {case.key}={value}" for value in kept if repr(value) != repr(typed)), None)

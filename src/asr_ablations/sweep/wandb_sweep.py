"""A sweep file as a Weights & Biases sweep, whose agents run the arms on many machines."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypedDict

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import (
    ChoiceSweep,
    Glob,
    IntervalSweep,
    ParsedElementType,
    RangeSweep,
    Transformer,
)
from hydra.errors import HydraException
from omegaconf import OmegaConf

from asr_ablations.config.compose import compose
from asr_ablations.tools.files import typed
from asr_verdicts.config import LIST
from asr_verdicts.errors import UsageError, choices

METHODS = ("grid", "random", "bayes")


class Parameter(TypedDict, total=False):
    """What an agent may choose for one key: a value, one of several, or one from a distribution."""

    value: ParsedElementType
    values: list[ParsedElementType]
    distribution: str
    min: float
    max: float


class Definition(TypedDict):
    """The input of `wandb sweep`."""

    name: str
    project: str
    program: str
    method: str
    metric: dict[str, str]
    parameters: dict[str, Parameter]
    command: list[str]


def definition(
    file: Path, repository: Path, overrides: Sequence[str], *, method: str | None, project: str | None
) -> Definition:
    """The input of `wandb sweep`. overrides: for every arm; method: None for grid where every parameter has a list of
    values, else random; project: None for the logger's.

    Raises UsageError for a file that varies nothing or trains nothing, and for a grid over an interval.
    """
    if not file.is_file():
        raise UsageError(f"{file}: there is no such sweep file; expected one like sweeps/rnn_type.yaml")
    conf = repository / "conf"
    cfg = compose(conf, overrides, name=file.stem, folder=file.parent.resolve(), with_hydra=True)
    if "max_epochs" not in cfg:
        raise UsageError(f"{file}: its arms decode a trained run in one process (src/evaluate.py), and train nothing")
    if cfg.get(LIST) is not None:
        raise UsageError(f"{file}: W&B's sweeps have no lists of arms; {typed('train')} -m runs them")
    varied = OmegaConf.to_container(cfg.hydra.sweeper.get("params") or OmegaConf.create({}), resolve=True)
    if not isinstance(varied, dict) or not varied:
        raise UsageError(f"{file}: varies nothing, it has no hydra.sweeper.params")
    parameters = {str(key): parameter(str(key), value, conf) for key, value in varied.items()}
    return {
        "name": file.stem,
        "project": project or str(OmegaConf.select(cfg, "logger.project") or "asr-ablations"),
        "program": "src/train.py",
        "method": _method(method, parameters),
        "metric": {"name": f"validation/{_first_set(cfg.data.validation)}/wer", "goal": "minimize"},
        "parameters": parameters,
        "command": _command(file, repository, overrides),
    }


def _first_set(validation: str | Sequence[str]) -> str:
    """The name of the first validation set in a run's metrics: for a manifest, that of the file without its ending."""
    path = Path(validation if isinstance(validation, str) else validation[0])
    return path.stem if path.suffix in (".json", ".jsonl") else path.name


def _command(file: Path, repository: Path, overrides: Sequence[str]) -> list[str]:
    """The command of an agent, with W&B's macros. It names the sweep, which without -m has no name."""
    program = ["${env}", "${interpreter}", "${program}", "-cd", _folder(file, repository), "-cn", file.stem]
    return [*program, f"sweep={file.stem}", *overrides, "${args_no_hyphens}"]


def count_arms(parameters: Mapping[str, Parameter]) -> int | None:
    """The number of arms of a grid; None where a parameter has no list of values."""
    number = 1
    for description in parameters.values():
        if "values" not in description and "value" not in description:
            return None
        number *= len(description.get("values", [None]))
    return number


def parameter(key: str, value: object, conf: Path) -> Parameter:
    """One entry of hydra.sweeper.params as W&B writes it: `value`, `values`, or `min`, `max` and `distribution`.

    Raises UsageError for a value that Hydra cannot read.
    """
    try:
        (override,) = OverridesParser.create().parse_overrides([f"{key}={value}"])
    except HydraException as error:
        raise UsageError(f"hydra.sweeper.params.{key}: {' '.join(str(error).split())}") from error
    sweep = override.value()
    if isinstance(sweep, IntervalSweep):
        return _interval(sweep)
    if isinstance(sweep, Glob):
        return {"values": sweep.filter(sorted(path.stem for path in (conf / key).glob("*.yaml")))}
    if isinstance(sweep, (ChoiceSweep, RangeSweep)):
        return {"values": list(override.sweep_iterator(transformer=_plain))}
    return {"value": _plain(sweep)}


def _interval(sweep: IntervalSweep) -> Parameter:
    assert sweep.start is not None
    assert sweep.end is not None
    whole = isinstance(sweep.start, int) and isinstance(sweep.end, int)
    if "log" in sweep.tags:
        kind = "q_log_uniform_values" if whole else "log_uniform_values"
    else:
        kind = "int_uniform" if whole else "uniform"
    return {"distribution": kind, "min": sweep.start, "max": sweep.end}


def _plain(value: ParsedElementType) -> ParsedElementType:
    """Numbers and switches as they are, for W&B's figures; all else as Hydra writes it: its null is not Python's."""
    return value if isinstance(value, (bool, int, float)) else Transformer.str(value)


def _method(requested: str | None, parameters: Mapping[str, Parameter]) -> str:
    has_grid = count_arms(parameters) is not None
    if requested == "grid" and not has_grid:
        endless = [key for key, description in parameters.items() if "distribution" in description]
        raise UsageError(f"method=grid: {', '.join(endless)} is an interval; expected random or bayes")
    if requested is not None and requested not in METHODS:
        raise choices("method", requested, METHODS)
    return requested or ("grid" if has_grid else "random")


def _folder(file: Path, repository: Path) -> str:
    """The folder of a sweep file as an agent finds it in its own checkout; one outside the repository must lie at the
    same place on every machine.
    """
    folder = file.parent.resolve()
    return str(folder.relative_to(repository)) if folder.is_relative_to(repository) else str(folder)

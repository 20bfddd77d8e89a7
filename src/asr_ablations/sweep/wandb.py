"""A sweep file as Weights & Biases has it, whose agents take the arms on many machines."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Glob, IntervalSweep, Override
from hydra.errors import HydraException
from omegaconf import OmegaConf

from asr_ablations.config.compose import compose
from asr_ablations.tools.errors import UsageError, choices

METHODS = ("grid", "random", "bayes")
Parameter = dict[str, Any]


def definition(
    file: Path, repository: Path, overrides: Sequence[str], *, method: str | None, project: str | None
) -> dict[str, Any]:
    """What `wandb sweep` takes. overrides: of every arm; method: None for grid where every parameter has a list of
    values, else random.

    Raises UsageError for a file that varies nothing or trains nothing, and for a grid over an interval.
    """
    if not file.is_file():
        raise UsageError(f"{file}: there is no such sweep file; expected one as sweeps/rnn_type.yaml")
    cfg = compose(repository / "conf", overrides, name=file.stem, folder=file.parent.resolve(), with_hydra=True)
    if "max_epochs" not in cfg:
        raise UsageError(f"{file}: its arms decode a trained run in one process (src/evaluate.py), and train nothing")
    asked: Any = OmegaConf.to_container(cfg.hydra.sweeper.get("params") or OmegaConf.create({}), resolve=True)
    if not asked:
        raise UsageError(f"{file}: varies nothing, it has no hydra.sweeper.params")
    found = {key: parameter(key, value, repository / "conf") for key, value in asked.items()}
    return {
        "name": file.stem,
        "project": project or str(OmegaConf.select(cfg, "logger.project") or "asr-ablations"),
        "program": "src/train.py",
        "method": _method(method, found),
        "metric": {"name": f"validation/{_first_set(cfg.data.validation)}/wer", "goal": "minimize"},
        "parameters": found,
        "command": _command(file, repository, overrides),
    }


def _first_set(validation: Any) -> str:
    """Its name in a run's metrics: a manifest's is that of the file without ending."""
    path = Path(validation if isinstance(validation, str) else validation[0])
    return path.stem if path.suffix in (".json", ".jsonl") else path.name


def _command(file: Path, repository: Path, overrides: Sequence[str]) -> list[str]:
    """With W&B's macros. Without -m nothing would name the sweep."""
    program = ["${env}", "${interpreter}", "${program}", "-cd", _folder(file, repository), "-cn", file.stem]
    return [*program, f"sweep={file.stem}", *overrides, "${args_no_hyphens}"]


def arms(parameters: Mapping[str, Parameter]) -> int | None:
    """How many a grid has; None where a parameter has no list of values."""
    number = 1
    for one in parameters.values():
        if "values" not in one and "value" not in one:
            return None
        number *= len(one.get("values", [None]))
    return number


def parameter(key: str, value: Any, conf: Path) -> Parameter:
    """One of hydra.sweeper.params as W&B writes it: `value`, `values`, or `min`, `max` and `distribution`."""
    line = f"{key}={value}"
    try:
        (override,) = OverridesParser.create().parse_overrides([line])
    except HydraException as error:
        raise UsageError(f"hydra.sweeper.params.{key}: {' '.join(str(error).split())}") from error
    if not override.is_sweep_override():
        return {"value": _plain(override, override.value())}
    sweep: Any = override.value()
    if isinstance(sweep, IntervalSweep):
        return _interval(sweep)
    if isinstance(sweep, Glob):
        return {"values": sweep.filter(sorted(path.stem for path in (conf / key).glob("*.yaml")))}
    return {"values": [_plain(override, one) for one in override.sweep_iterator()]}


def _interval(sweep: IntervalSweep) -> Parameter:
    assert sweep.start is not None
    assert sweep.end is not None
    whole = isinstance(sweep.start, int) and isinstance(sweep.end, int)
    if "log" in sweep.tags:
        kind = "q_log_uniform_values" if whole else "log_uniform_values"
    else:
        kind = "int_uniform" if whole else "uniform"
    return {"distribution": kind, "min": sweep.start, "max": sweep.end}


def _plain(override: Override, value: Any) -> Any:
    """Numbers and switches as they are, for W&B's figures; all else as Hydra writes it: its null is not Python's."""
    if isinstance(value, (bool, int, float)):
        return value
    return Override._get_value_element_as_str(value)


def _method(asked: str | None, parameters: Mapping[str, Parameter]) -> str:
    listed = arms(parameters) is not None
    if asked == "grid" and not listed:
        endless = [key for key, one in parameters.items() if "distribution" in one]
        raise UsageError(f"method=grid: {', '.join(endless)} is an interval; expected random or bayes")
    if asked is not None and asked not in METHODS:
        raise choices("method", asked, METHODS)
    return asked or ("grid" if listed else "random")


def _folder(file: Path, repository: Path) -> str:
    """As an agent finds it in its own checkout; a folder elsewhere must lie at the same place on every machine."""
    folder = file.parent.resolve()
    return str(folder.relative_to(repository)) if folder.is_relative_to(repository) else str(folder)

"""Run the benchmark that a config names and keep what it found."""

import os
from pathlib import Path
from typing import Any

from omegaconf import DictConfig

from asr_ablations.config.build import build
from asr_ablations.config.checks import check
from asr_ablations.runs.environment import hardware, versions
from asr_ablations.runs.folder import Run
from asr_ablations.runs.layout import REPORT
from asr_ablations.tools.files import write, write_json
from asr_ablations.training.quiet import quiet
from asr_ablations.training.signals import StopRequest
from asr_benchmarks.plots import draw
from asr_benchmarks.side_by_side import RESULT
from asr_benchmarks.tables import markdown, show

UNFINISHED = "unfinished: the benchmark was ended before the rest was measured"


def measure(cfg: DictConfig) -> Path:
    """The folder with config, environment, result.json, report.md and plots of one benchmark. Raises UsageError for a
    wrong config.
    """
    check(cfg)
    quiet()
    record = Run(cfg)
    if (record.folder / RESULT).exists():
        record.keep_previous()
    stop = StopRequest()
    stop.listen()
    try:
        with record:
            found = _measured(cfg, record)
    finally:
        stop.close()
    show(record.name, found)
    print(f"result in {record.folder}")
    return record.folder


def _measured(cfg: DictConfig, record: Run) -> dict[str, Any]:
    """A benchmark gives its result, or piece by piece what it has so far: that much is kept if it is ended."""
    before = _load()
    told = build(cfg.benchmark)(cfg)
    found: dict[str, Any] = {}
    try:
        for found in [told] if isinstance(told, dict) else told:
            found["machine"] = {**machine(before), **found.get("machine", {})}
            write_json(record.folder / RESULT, _unfinished(found))
    except BaseException:
        if found:
            _report(record, _unfinished(found))
            print(f"what was measured by then is in {record.folder}")
        raise
    _report(record, found)
    return found


def _unfinished(found: dict[str, Any]) -> dict[str, Any]:
    return {**found, "notes": [UNFINISHED, *found.get("notes", [])]}


def _report(record: Run, found: dict[str, Any]) -> None:
    write_json(record.folder / RESULT, found)
    figures = [path.name for path in draw(found.get("plots", []), record.folder)]
    images = [name for name in figures if name.endswith(".png")]
    write(record.folder / REPORT, markdown(record.name, found, images))


def machine(load_before: str) -> dict[str, Any]:
    """What the figures were measured on, and how busy it was."""
    told = hardware()
    gpus = ", ".join(told["gpus"]) or "none"
    driver = {"driver": driver_version()} if told["gpus"] else {}
    known = versions()
    packages: dict[str, Any] = {name: known[name] for name in ("python", "torch") if name in known}
    described = {"processor": told["processor"], "cores": told["cores"], "threads": told["threads"], "gpus": gpus}
    return {**described, **driver, **packages, "load before": load_before, "load after": _load()}


def driver_version() -> str:
    """Of the GPUs."""
    import pynvml

    try:
        pynvml.nvmlInit()
        return str(pynvml.nvmlSystemGetDriverVersion())
    except pynvml.NVMLError as error:
        return f"unknown ({error})"


def _load() -> str:
    """Processes that wanted a core, in the mean of the last minute."""
    return f"{os.getloadavg()[0]:.2f}"

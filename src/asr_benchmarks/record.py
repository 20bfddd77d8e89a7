"""Run the benchmark that a config describes, and record its result."""

import os
import platform
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import torch
from omegaconf import DictConfig

from asr_ablations.config.build import build
from asr_ablations.config.plain_keys import check
from asr_ablations.runs.environment import hardware
from asr_ablations.runs.folder import Run
from asr_ablations.runs.layout import REPORT, RESULT
from asr_ablations.training.ddp import quiet
from asr_ablations.training.signals import StopRequest
from asr_benchmarks.plots import draw
from asr_benchmarks.tables import FRAMEWORKS, Result, markdown, show
from asr_verdicts.files import write, write_json
from asr_verdicts.record import Hardware

CPUS = Path("/sys/devices/system/cpu")
"""Where Linux shows how it clocks the cores; virtual machines mostly show nothing."""

UNFINISHED = "unfinished: the benchmark was ended before the rest was measured"


def measure(cfg: DictConfig) -> Path:
    """Run one benchmark and return its folder: config, environment, result.json, report.md and plots.

    Raises UsageError for a wrong config.
    """
    check(cfg)
    record = Run(cfg)
    if (record.folder / RESULT).exists():
        record.keep_previous()
    stop = StopRequest()
    stop.listen()
    try:
        with record:
            result = _measured(cfg, record)
    finally:
        stop.close()
    show(record.name, result)
    print(f"result in {record.folder}")
    return record.folder


def _measured(cfg: DictConfig, record: Run) -> Result:
    """The benchmark's result, written to the run folder. A benchmark may also yield what it has measured so far, again
    and again: if it is ended, the latest of these results is kept.
    """
    before = _load()
    benchmark = build(cfg.benchmark)
    if cfg.threads is not None:
        torch.set_num_threads(cfg.threads)
    quiet()  # after the imports: Lightning sets what it says by itself
    measured: Result | Iterator[Result] = benchmark(cfg)
    latest: Result | None = None
    try:
        for latest in [measured] if isinstance(measured, Result) else measured:
            latest.machine = {**machine(before), **latest.machine}
            write_json(record.folder / RESULT, _unfinished(latest).to_json())
    except BaseException:
        if latest is not None:
            _report(record, _unfinished(latest))
            print(f"what was measured by then is in {record.folder}")
        raise
    latest = latest or Result(machine=machine(before))
    _report(record, latest)
    return latest


def _unfinished(result: Result) -> Result:
    return replace(result, notes=[UNFINISHED, *result.notes])


def _report(record: Run, result: Result) -> None:
    write_json(record.folder / RESULT, result.to_json())
    figures = [path.name for path in draw(result.plots, record.folder)]
    images = [name for name in figures if name.endswith(".png")]
    write(record.folder / REPORT, markdown(record.name, result, images))


def machine(load_before: str) -> dict[str, object]:
    """The machine that the figures were measured on, and how busy it was."""
    described = hardware()
    gpus = ", ".join(described.gpus) or "none"
    driver = {"driver": driver_version()} if described.gpus else {}
    return {
        **{key: getattr(described, key) for key in ("processor", "cores", "threads")},
        **clocking(CPUS),
        "gpus": gpus,
        **_connected(described),
        **driver,
        **frameworks(),
        "load before": load_before,
        "load after": _load(),
    }


def _connected(hardware: Hardware) -> dict[str, str]:
    """Bus and links of the GPUs (Baunsgaard2020 figure 5), as far as they are known."""
    links = ", ".join(f"{pair} {link}" for pair, link in (hardware.links or {}).items())
    shown = {"buses": ", ".join(hardware.buses or []), "links": links}
    return {name: text for name, text in shown.items() if text}


def frameworks() -> dict[str, str]:
    """Versions of Python and of what is measured, as far as it is installed (Braun2018 table 1)."""
    installed = {"python": platform.python_version()}
    for package in FRAMEWORKS[1:]:
        with suppress(PackageNotFoundError):
            installed[package] = version(package)
    return installed


def clocking(cpus: Path) -> dict[str, object]:
    """The governor that chooses the cores' clock, and its range (Braun2018 §3.4); empty where it is not shown."""
    governors = sorted({path.read_text().strip() for path in cpus.glob("cpu[0-9]*/cpufreq/scaling_governor")})
    ranges = {
        limit: [int(path.read_text()) / 1e6 for path in cpus.glob(f"cpu[0-9]*/cpufreq/scaling_{limit}_freq")]
        for limit in ("min", "max")
    }
    shown: dict[str, object] = {"governor": ", ".join(governors)} if governors else {}
    if all(ranges.values()):
        shown["clock"] = f"{min(ranges['min']):.2f} to {max(ranges['max']):.2f} GHz"
    return shown


def driver_version() -> str:
    """Version of the GPU driver."""
    import pynvml

    try:
        pynvml.nvmlInit()
        return str(pynvml.nvmlSystemGetDriverVersion())
    except pynvml.NVMLError as error:
        return f"unknown ({error})"


def _load() -> str:
    """Mean number of processes that wanted a core during the last minute."""
    return f"{os.getloadavg()[0]:.2f}"

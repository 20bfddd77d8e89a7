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
from asr_ablations.runs.layout import RESULT
from asr_ablations.training.lightning_warnings import silence_lightning
from asr_ablations.training.signals import StopRequest
from asr_benchmarks.tables import FRAMEWORKS, Result, show, write_report
from asr_verdicts.files import write_json

CPUS = Path("/sys/devices/system/cpu")
"""Where Linux shows how it clocks the cores; virtual machines mostly show nothing."""

UNFINISHED = "unfinished: the benchmark was ended before the rest was measured"


def measure(cfg: DictConfig) -> Path:
    """Run one benchmark and return its folder: config, environment, result.json, report.md and plots."""
    check(cfg)
    record = Run(cfg)
    if (record.folder / RESULT).exists():
        record.keep_previous()
    with StopRequest(), record:
        result = _run_benchmark(cfg, record)
    show(record.name, result)
    print(f"result in {record.folder}")
    return record.folder


def _run_benchmark(cfg: DictConfig, record: Run) -> Result:
    """The benchmark's result, written to the run folder. A benchmark may also yield what it has measured so far, again
    and again: if it is ended, the latest of these results is kept.
    """
    before, file = _read_load(), record.folder / RESULT
    benchmark = build(cfg.benchmark)
    if cfg.threads is not None:
        torch.set_num_threads(cfg.threads)
    silence_lightning()  # after the imports: Lightning sets what it says by itself
    measured: Result | Iterator[Result] = benchmark(cfg)
    latest = unfinished = None
    try:
        for latest in [measured] if isinstance(measured, Result) else measured:
            latest.machine = {**describe_machine(before), **latest.machine}
            unfinished = replace(latest, notes=[UNFINISHED, *latest.notes])
            write_json(file, unfinished.to_json())
    except BaseException:
        if unfinished is not None:
            write_report(file, record.name, unfinished)
            print(f"what was measured by then is in {record.folder}")
        raise
    latest = latest or Result(machine=describe_machine(before))
    write_report(file, record.name, latest)
    return latest


def describe_machine(load_before: str) -> dict[str, object]:
    """The machine that was measured, its GPUs' links (Baunsgaard2020 figure 5), and how busy it was."""
    described, installed = hardware(), {"python": platform.python_version()}
    for package in FRAMEWORKS[1:]:  # as far as they are installed (Braun2018 table 1)
        with suppress(PackageNotFoundError):
            installed[package] = version(package)
    links = ", ".join(f"{pair} {link}" for pair, link in (described.links or {}).items())
    connected = {"buses": ", ".join(described.buses or []), "links": links}
    if described.gpus:
        connected["driver"] = read_driver_version()
    return {
        **{key: getattr(described, key) for key in ("processor", "cores", "threads")},
        **read_clocking(CPUS),
        "gpus": ", ".join(described.gpus) or "none",
        **{name: text for name, text in connected.items() if text},
        **installed,
        "load before": load_before,
        "load after": _read_load(),
    }


def read_clocking(cpus: Path) -> dict[str, object]:
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


def read_driver_version() -> str:
    """Version of the GPU driver."""
    import pynvml

    try:
        pynvml.nvmlInit()
        return str(pynvml.nvmlSystemGetDriverVersion())
    except pynvml.NVMLError as error:
        return f"unknown ({error})"


def _read_load() -> str:
    """Mean number of processes that wanted a core during the last minute."""
    return f"{os.getloadavg()[0]:.2f}"

"""Run the benchmark that a config selects, and record its result."""

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
"""Folder in which Linux keeps the settings of CPU cores. Virtual machines usually lack the clock settings."""

UNFINISHED = "unfinished: the benchmark ended before all measurements were made"


def measure(cfg: DictConfig) -> Path:
    """Run a benchmark, and return the folder with its config, environment, result.json, report.md and plots."""
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
    """Run the benchmark and write its result to the run folder.

    A benchmark may yield several results, each more complete than the previous one. If it fails, the latest is kept."""
    before, file = _read_load(), record.folder / RESULT
    benchmark = build(cfg.benchmark)
    if cfg.threads is not None:
        torch.set_num_threads(cfg.threads)
    silence_lightning()  # only now, because Lightning sets its log levels when the benchmark imports it
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
            print(f"unfinished result in {record.folder}")
        raise
    latest = latest or Result(machine=describe_machine(before))
    write_report(file, record.name, latest)
    return latest


def describe_machine(load_before: str) -> dict[str, object]:
    """Return the machine's hardware, GPU links (Baunsgaard2020 figure 5), package versions and load averages."""
    machine, installed = hardware(), {"python": platform.python_version()}
    for package in FRAMEWORKS[1:]:  # Braun2018 table 1 also lists the versions
        with suppress(PackageNotFoundError):
            installed[package] = version(package)
    links = ", ".join(f"{pair} {link}" for pair, link in (machine.links or {}).items())
    connected = {"buses": ", ".join(machine.buses or []), "links": links}
    if machine.gpus:
        connected["driver"] = read_driver_version()
    return {
        **{key: getattr(machine, key) for key in ("processor", "cores", "threads")},
        **read_clocking(CPUS),
        "gpus": ", ".join(machine.gpus) or "none",
        **{name: text for name, text in connected.items() if text},
        **installed,
        "load before": load_before,
        "load after": _read_load(),
    }


def read_clocking(cpus: Path) -> dict[str, object]:
    """Read the cores' frequency governors and clock range (Braun2018 §3.4). Omit settings that the system lacks."""
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
    import pynvml

    try:
        pynvml.nvmlInit()
        return str(pynvml.nvmlSystemGetDriverVersion())
    except pynvml.NVMLError as error:
        return f"unknown ({error})"


def _read_load() -> str:
    """Return the load average: the mean number of running and waiting processes over the last minute."""
    return f"{os.getloadavg()[0]:.2f}"

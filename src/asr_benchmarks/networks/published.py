"""The numbers of Shi2016 table 4, in the same form as the measured rows."""

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from asr_benchmarks.tables import Row, published

BEYOND = "beyond cores / cores"

TABLE = published("networks")
"""Table 4 of the paper; published/networks.yaml explains how it was read."""


def build_gain_row(
    network: str, framework: str, machine: str, cores: int, seconds: Mapping[int, float], gpu: float | None
) -> Row:
    """Compute speed-ups from seconds by number of threads; None if one was not measured. They are: from one thread to
    two, from one thread per core to the next larger number, and to the GPU.
    """
    full = seconds.get(cores)
    beyond = min((count for count in seconds if count > cores), default=0)
    ratios = {
        "1 to 2 threads": (seconds.get(1), seconds.get(2)),
        BEYOND: (seconds.get(beyond), full),
        "CPU / GPU": (full, gpu),
    }
    return {
        **{"network": network, "framework": framework, "machine": machine, "cores": cores},
        **{name: above / below if above and below else None for name, (above, below) in ratios.items()},
    }


def count_slower(rows: Collection[Row]) -> str | None:
    """Count the cases in which more threads than cores were slower than one per core; None if not measured."""
    ratios = [ratio for row in rows if (ratio := row[BEYOND]) is not None]
    return f"{sum(ratio > 1 for ratio in ratios)} of {len(ratios)}" if ratios else None


def list_gains(networks: Collection[str]) -> list[Row]:
    """List the paper's gains from threads and GPUs for these networks."""
    return [
        build_gain_row(network, framework, f"{machine['name']}, published", machine["cores"], threads, gpu)
        for network, framework, machine, threads, gpu in _list_cases(networks)
    ]


def list_seconds(networks: Collection[str]) -> list[Row]:
    """List seconds per mini-batch by threads of the CPU, and on each GPU."""
    machines = TABLE["machines"].values()
    counts = sorted({count for machine in machines for count in machine["threads"]})
    cases = [(case[0], case[1], case[2]["name"], case[3], case[4]) for case in _list_cases(networks)]
    others: list[Any] = [
        (network, framework, gpu, {}, seconds)
        for network, frameworks in TABLE["seconds"].items()
        for framework, measured in frameworks.items()
        for gpu, seconds in zip(TABLE["gpus"], measured["gpu"], strict=True)
        if network in networks and seconds is not None and gpu not in {machine["gpu"] for machine in machines}
    ]
    return [
        {
            **{"network": network, "framework": framework, "machine": f"{machine}, published"},
            **{str(count): threads.get(count) for count in counts},
            "GPU": gpu,
        }
        for network, framework, machine, threads, gpu in [*cases, *others]
    ]


def explain_machines() -> str:
    machines = [f"{machine['name']}: {machine['about']}" for machine in TABLE["machines"].values()]
    return f"published: {TABLE['source']}, {TABLE['software']}; {'; '.join(machines)}"


def _list_cases(networks: Collection[str]) -> Iterator[tuple[str, str, Any, dict[int, float], float | None]]:
    """Yield network, framework, machine, and the published seconds by CPU threads and on the machine's GPU."""
    for network, frameworks in TABLE["seconds"].items():
        for framework, measured in frameworks.items():
            for key, machine in TABLE["machines"].items():
                pairs = zip(machine["threads"], measured[key], strict=True)
                threads = {count: value for count, value in pairs if value is not None}
                gpu = measured["gpu"][TABLE["gpus"].index(machine["gpu"])]
                if network in networks and (threads or gpu):
                    yield network, framework, machine, threads, gpu

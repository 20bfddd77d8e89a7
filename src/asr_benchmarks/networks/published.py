"""Published numbers from Shi2016 table 4, as rows like those of the measurements."""

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from asr_benchmarks.tables import Row, published

BEYOND = "beyond cores / cores"

TABLE = published("networks")
"""Table 4 of the paper. published/networks.yaml explains how it was reconstructed."""


def build_gain_row(
    network: str, framework: str, machine: str, cores: int, seconds: Mapping[int, float], gpu: float | None
) -> Row:
    """Build a row with three ratios of times. A ratio is None if one of its times was not measured.

    The ratios are: one thread over two threads, more threads than cores over one thread per core, and CPU over GPU.
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
    """Count in how many cases more threads than cores were slower than one per core. None without such cases."""
    ratios = [ratio for row in rows if (ratio := row[BEYOND]) is not None]
    return f"{sum(ratio > 1 for ratio in ratios)} of {len(ratios)}" if ratios else None


def list_gains(networks: Collection[str]) -> list[Row]:
    """List the published gains from threads and GPUs for these networks."""
    return [
        build_gain_row(network, framework, f"{machine['name']}, published", machine["cores"], threads, gpu)
        for network, framework, machine, threads, gpu in _list_cases(networks)
    ]


def list_seconds(networks: Collection[str]) -> list[Row]:
    """List the published seconds per mini-batch by number of CPU threads, and on each GPU."""
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
    """Yield network, framework, machine, and the published seconds by number of CPU threads and on its GPU."""
    for network, frameworks in TABLE["seconds"].items():
        for framework, measured in frameworks.items():
            for key, machine in TABLE["machines"].items():
                pairs = zip(machine["threads"], measured[key], strict=True)
                threads = {count: value for count, value in pairs if value is not None}
                gpu = measured["gpu"][TABLE["gpus"].index(machine["gpu"])]
                if network in networks and (threads or gpu):
                    yield network, framework, machine, threads, gpu

"""The numbers of Shi2016 table 4, as rows like those measured here."""

from collections.abc import Collection, Mapping, Sequence
from functools import cache
from typing import NamedTuple, TypeAlias, TypedDict

from asr_benchmarks.tables import Row, published

BEYOND = "beyond cores / cores"

GainRow = TypedDict(
    "GainRow",
    {
        "network": str,
        "framework": str,
        "machine": str,
        "cores": int,
        "1 to 2 threads": float | None,
        "beyond cores / cores": float | None,
        "CPU / GPU": float | None,
    },
)
"""Ratios of seconds; None where one of the two was not measured."""


def row(
    network: str, framework: str, machine: str, cores: int, seconds: Mapping[int, float], gpu: float | None
) -> GainRow:
    """Speed-up from one to two threads; seconds with more threads than cores (the smallest such number) over those with
    as many threads as cores; and how many times faster the GPU is than as many threads as cores.

    seconds: by number of threads of the CPU; gpu: seconds on the GPU.
    """
    full = seconds.get(cores)
    beyond = min((count for count in seconds if count > cores), default=None)
    return {
        "network": network,
        "framework": framework,
        "machine": machine,
        "cores": cores,
        "1 to 2 threads": _ratio(seconds.get(1), seconds.get(2)),
        "beyond cores / cores": _ratio(None if beyond is None else seconds[beyond], full),
        "CPU / GPU": _ratio(full, gpu),
    }


def finding(rows: Sequence[GainRow]) -> str | None:
    """Count the cases in which more threads than cores were slower than one per core; None if not measured."""
    ratios = [ratio for row in rows if (ratio := row["beyond cores / cores"]) is not None]
    return f"{sum(ratio > 1 for ratio in ratios)} of {len(ratios)}" if ratios else None


def _ratio(above: float | None, below: float | None) -> float | None:
    return above / below if above and below else None


class Machine(TypedDict):
    """A machine of the paper. cores: of its CPU; threads: the numbers of threads that Table 4 has for it."""

    name: str
    about: str
    cores: int
    threads: list[int]
    gpu: str


Seconds: TypeAlias = dict[str, list[float | None]]
"""Seconds per mini-batch: by the key of a machine one per number of threads, and under `gpu` one per GPU."""


class Table(TypedDict):
    """The content of published/networks.yaml, which says how it was read. seconds: by network and framework."""

    source: str
    software: str
    machines: dict[str, Machine]
    gpus: list[str]
    seconds: dict[str, dict[str, Seconds]]


class Case(NamedTuple):
    """A network in a framework on a machine: seconds by threads of the CPU, and those of the machine's GPU."""

    network: str
    framework: str
    machine: Machine
    threads: Mapping[int, float]
    gpu: float | None


@cache
def table() -> Table:
    """Table 4 of the paper."""
    content: Table = published("networks")
    return content


def seconds(networks: Collection[str]) -> list[Row]:
    """Seconds per mini-batch of these networks by threads of the CPU, and on the GPU. A machine has one GPU here; the
    others have rows of their own.
    """
    counts = sorted({count for machine in table()["machines"].values() for count in machine["threads"]})
    on_machines = [
        {
            "network": case.network,
            "framework": case.framework,
            "machine": _marked(case.machine),
            **{str(count): case.threads.get(count) for count in counts},
            "GPU": case.gpu,
        }
        for case in _cases(networks)
    ]
    return [*on_machines, *_other_gpus(networks, counts)]


def _other_gpus(networks: Collection[str], counts: Collection[int]) -> list[Row]:
    """Seconds on the GPUs that are no machine's here."""
    named = {machine["gpu"] for machine in table()["machines"].values()}
    return [
        {
            "network": network,
            "framework": framework,
            "machine": f"{gpu}, published",
            **{str(count): None for count in counts},
            "GPU": seconds,
        }
        for network, frameworks in table()["seconds"].items()
        for framework, measured in frameworks.items()
        for gpu, seconds in zip(table()["gpus"], measured["gpu"], strict=True)
        if network in networks and gpu not in named and seconds is not None
    ]


def scaling(networks: Collection[str]) -> list[GainRow]:
    """Return the paper's gains from threads and GPUs with these networks."""
    return [
        row(case.network, case.framework, _marked(case.machine), case.machine["cores"], case.threads, case.gpu)
        for case in _cases(networks)
    ]


def note() -> str:
    """Explain the names of the paper's machines."""
    machines = [f"{machine['name']}: {machine['about']}" for machine in table()["machines"].values()]
    return f"published: {table()['source']}, {table()['software']}; {'; '.join(machines)}"


def _marked(machine: Machine) -> str:
    return f"{machine['name']}, published"


def _cases(networks: Collection[str]) -> list[Case]:
    """The cases of these networks that have a number."""
    cases = []
    for network, frameworks in table()["seconds"].items():
        for framework, measured in frameworks.items():
            for key, machine in table()["machines"].items():
                pairs = zip(machine["threads"], measured[key], strict=True)
                threads = {count: value for count, value in pairs if value is not None}
                gpu = measured["gpu"][table()["gpus"].index(machine["gpu"])]
                if network in networks and (threads or gpu):
                    cases.append(Case(network, framework, machine, threads, gpu))
    return cases

"""What Table 4 of Shi et al. 2016 says, as rows like those measured here."""

from collections.abc import Collection
from functools import cache
from typing import Any

from asr_benchmarks.published import published


@cache
def table() -> dict[str, Any]:
    """published/networks.yaml, which says how it was read."""
    found: dict[str, Any] = published("networks")
    return found


def seconds(networks: Collection[str]) -> list[dict[str, Any]]:
    """Of these networks: seconds a mini-batch by threads of the CPU, and of the GPU beside it."""
    counts = sorted({count for machine in table()["machines"].values() for count in machine["threads"]})
    return [
        {
            **{"network": network, "framework": tool, "machine": _marked(machine)},
            **{str(count): threads.get(count) for count in counts},
            "GPU": gpu,
        }
        for network, tool, machine, threads, gpu in _rows(networks)
    ]


def scaling(networks: Collection[str]) -> list[dict[str, Any]]:
    """Their threads and GPUs beside each other, as `threads.row` has them."""
    from asr_benchmarks.networks.threads import row

    return [
        row(network, tool, _marked(machine), machine["cores"], threads, gpu)
        for network, tool, machine, threads, gpu in _rows(networks)
    ]


def note() -> str:
    """What the names of its machines mean."""
    told = [f"{machine['name']}: {machine['about']}" for machine in table()["machines"].values()]
    return f"published: {table()['source']}, {table()['software']}; {'; '.join(told)}"


def _marked(machine: dict[str, Any]) -> str:
    return f"{machine['name']}, published"


def _rows(networks: Collection[str]) -> list[tuple[str, str, dict[str, Any], dict[int, float], float | None]]:
    """Network, tool, machine, seconds by threads, seconds of the machine's GPU; without rows that have no number."""
    found = []
    for network, tools in table()["seconds"].items():
        for tool, measured in tools.items():
            for key, machine in table()["machines"].items():
                pairs = zip(machine["threads"], measured[key], strict=True)
                threads = {count: value for count, value in pairs if value is not None}
                gpu = measured["gpu"][table()["gpus"].index(machine["gpu"])]
                if network in networks and (threads or gpu):
                    found.append((network, tool, machine, threads, gpu))
    return found

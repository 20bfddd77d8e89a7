"""The speeds that Braun2018 §4 and §5 report, for comparison with the measured ones."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from asr_benchmarks.tables import Row, fill_row, published

Point = tuple[str, str]
"""Configuration and implementation."""

COLUMNS = "configuration | slower | faster | no longer exists | source (published) | times | up to | ours"

CUDNN, ANY_CUDNN, SLOWEST = "PyTorch cuDNNLSTM", "cuDNNLSTM", "the slowest"


@dataclass(frozen=True)
class Ratio:
    """`slower` takes `least` to `most` times as long as `faster`. where: the source, or the derivation."""

    slower: Point
    faster: Point
    least: float
    most: float
    where: str


def _read_ratio(place: str | list[str], slower: str, faster: str, times: float | list[float], where: str) -> Ratio:
    first, second = place if isinstance(place, list) else (place, place)
    least, most = times if isinstance(times, list) else (times, times)
    return Ratio((first, slower), (second, faster), least, most, where)


PRINTED = published("lstm")
RATIOS = tuple(_read_ratio(*row) for row in PRINTED["ratios"])


def find_speed_up(configuration: str, implementation: str | None) -> float | None:
    """Find the speed of an implementation relative to the paper's slowest; None if the text does not give it."""
    slowest = PRINTED["slowest"].get(configuration)
    if implementation is None or slowest is None:
        return None
    if implementation == slowest:
        return 1.0
    names = (implementation, ANY_CUDNN if implementation == CUDNN else implementation)
    ratios = (ratio for ratio in RATIOS if ratio.slower == (configuration, slowest))
    return next((ratio.most for ratio in ratios if ratio.faster in [(configuration, name) for name in names]), None)


def list_ratios(measured: Mapping[Point, float], configurations: Collection[str]) -> list[Row]:
    """List published and measured ratios of configurations. measured: seconds by configuration and published name."""
    rows = []
    for ratio in RATIOS:
        (first, slower), (second, faster) = ratio.slower, ratio.faster
        if not {*first.split(", "), *second.split(", ")} & set(configurations):
            continue
        above, below = (_find_seconds(point, measured) for point in (ratio.slower, ratio.faster))
        gone = [side for side, name in (("slower", slower), ("faster", faster)) if name in PRINTED["gone"]]
        place = first if first == second else f"{first} : {second}"
        ours = above / below if above and below else None
        source = f"Braun2018 {ratio.where}"
        printed = (slower, faster, " and ".join(gone) or "–", source, ratio.least, ratio.most)
        rows.append(fill_row(COLUMNS, place, *printed, ours))
    return rows


def _find_seconds(point: Point, measured: Mapping[Point, float]) -> float | None:
    """Find the measured seconds of a point, or of the slowest implementation if the point is SLOWEST."""
    configuration, name = point
    if name == SLOWEST:
        return max((seconds for (place, _), seconds in measured.items() if place == configuration), default=None)
    return measured.get((configuration, CUDNN if name == ANY_CUDNN else name))

"""Time training steps of LSTM networks in several frameworks, with equal initial weights (Braun2018 §3)."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from omegaconf import DictConfig

from asr_ablations.tools.checks import is_whole, number, switch, whole
from asr_ablations.training.assembly import device_count
from asr_benchmarks.frameworks.network import LSTM, Dense, Network, Reshape
from asr_benchmarks.lstm.agreement import Agreement, Expected, refuse_others
from asr_benchmarks.plots import plot
from asr_benchmarks.tables import Result, Row, fill_row, published
from asr_benchmarks.timing import check_counts, in_turn, noise_notes
from asr_benchmarks.worker import Implementation, Measured, Worker, choose_runnable, measure_in_turn, run_workers
from asr_verdicts.errors import choices

NOT_CUDNN = "on a CPU, nn.LSTM does not use cuDNN; the paper's PyTorch cuDNNLSTM, in the same row, ran on a GPU"

NUMBERS = "logits differ | loss differs | first step lowers loss by | peak GB"


def lstm_speed(
    cfg: DictConfig,
    *,
    networks: Mapping[str, Mapping[str, object]],
    configurations: list[str],
    implementations: Mapping[str, Implementation],
    only: list[str] | None,
    scale: float,
    steps: int,
    warmup: int,
    budget: float | None,
    threads: int | None,
) -> Iterator[Result]:
    """Measure all configurations, and yield the accumulated result after each. Exclude implementations with errors."""
    check_counts(steps=steps, warmup=warmup, **({} if threads is None else {"threads": threads}))
    options: dict[str, Any] = {"steps": steps, "warmup": warmup, "budget": budget}
    in_turn({}, **options)  # rejects an invalid budget before any process starts
    chosen = choose_networks(networks, configurations, scale)
    if only is not None and (not only or not all(name in implementations for name in only)):
        raise choices("benchmark.only", only, f"null for all, or a list of some: {', '.join(implementations)}")
    device = "gpu" if device_count(cfg) else "cpu"
    wanted = {name: way for name, way in implementations.items() if only is None or name in only}
    runnable, notes = choose_runnable(wanted, device)
    if scale != 1:
        notes.append(f"sizes are {scale:g} times the paper's; the paper's ratios apply to full sizes")
    if device == "cpu" and "torch_lstm" in runnable:
        notes.append(NOT_CUDNN)
    measured: dict[str, tuple[dict[str, Measured], dict[str, Agreement]]] = {}
    noise: list[str] = []
    for network in chosen:
        agreements: dict[str, Agreement] = {}
        expected = Expected(network, cfg.seed)
        place: dict[str, Any] = {"device": device, "threads": threads}
        keys = {"batch": network.batch, "seed": cfg.seed, "tf32": False, **place}
        starts = {name: partial(way.start, network, **place, keys=keys) for name, way in runnable.items()}

        def check(name: str, worker: Worker, into: dict[str, Agreement] = agreements, by: Expected = expected) -> None:
            into[name] = by.compare(worker)

        refused: list[str] = []
        with run_workers(starts, check, f"{network.name}: comparing numbers", refused) as workers:
            for name, reason in refuse_others(agreements, expected.loss).items():
                refused.append(f"{name} not measured: {reason}")
                workers.pop(name).close()
            results = measure_in_turn(workers, title=network.name, **options)
        measured[network.name] = results, agreements
        notes += [f"{network.name}: {line}" for line in refused]
        timings = {name: result.timing for name, result in results.items()}
        noise += [f"{network.name}: {line}" for line in noise_notes(timings)]
        paper_names = {name: way.published for name, way in runnable.items()}
        yield _build_result("cuda" if device == "gpu" else "cpu", measured, paper_names, [*notes, *noise])


def _build_result(
    device: str,
    measured: Mapping[str, tuple[dict[str, Measured], dict[str, Agreement]]],
    paper_names: Mapping[str, str | None],
    notes: list[str],
) -> Result:
    """Build the accumulated result. paper_names: each implementation's name in the paper, or None."""
    steps: list[Row] = []
    numbers: list[Row] = []
    seconds: dict[tuple[str, str], float] = {}
    versions: dict[str, str] = {}
    bars: dict[str, dict[str, float]] = {name: {} for name in paper_names}
    for name, (results, agreements) in measured.items():
        slowest = max((result.timing.median for result in results.values()), default=0.0)
        for way, (timing, _, memory, device_memory, packages) in results.items():
            point = (name, paper_names[way] or "")
            printed = None if point in seconds else find_speed_up(*point)
            if point[1]:
                seconds.setdefault(point, timing.median)
            place, agreement = {"configuration": name, "implementation": way}, agreements[way]
            steps.append({**place, **timing.row(), "x slowest": slowest / timing.median, "published": printed})
            gpu = {} if device_memory is None else {"GPU peak GB": device_memory / 1e9}
            differences = (agreement.logits, agreement.loss, agreement.decrease)
            numbers.append({**place, **fill_row(NUMBERS, *differences, memory / 1e9), **gpu})
            bars[way][name] = 1000 * timing.median
            versions |= packages
    drawn = {name: values for name, values in bars.items() if values}
    listed = ", ".join(f"{package} {version}" for package, version in versions.items())
    return Result(
        {"device": device},
        {"steps": steps, "numbers_and_memory": numbers, "published": list_ratios(seconds, measured)},
        [*notes, f"versions: {listed}"],
        [plot("Training step of LSTM networks", "bars", "configuration", "ms per batch", drawn, log=True)],
        {"steps": ["ms"]},
    )


SIZES = ("layers", "units", "features", "batch", "outputs", "labels")
KEYS = ("name", "layers", "units", "bidirectional", "features", "batch", "frames", "loss", "outputs", "labels")
"""Keys of a network. frames: frames of the shortest and of the longest utterance. labels: labels per utterance."""


def choose_networks(networks: Mapping[str, Mapping[str, Any]], chosen: list[str], scale: float) -> list[Network]:
    """Build the chosen networks, with units, batch, frames and labels multiplied by `scale`.

    Raise UsageError for invalid values."""
    number("benchmark.scale", scale, above=0)
    if not chosen or not all(name in networks for name in chosen):
        raise choices("benchmark.configurations", chosen, f"one or more of {', '.join(networks)}")
    built = []
    for name in chosen:
        values = dict(networks[name])
        _check(f"benchmark.networks.{name}", values)
        if scale != 1:
            values |= {key: max(1, round(scale * values[key])) for key in ("units", "batch", "labels")}
            values["frames"] = [max(2, round(scale * count)) for count in values["frames"]]
        built.append(build_network(**values))
    return built


def build_network(
    *,
    name: str,
    layers: int,
    units: int,
    bidirectional: bool,
    features: int,
    batch: int,
    frames: list[int],
    loss: str,
    outputs: int,
    labels: int,
) -> Network:
    """Build LSTM layers and a linear layer on the last frame (CTC: all frames), initialised as in torch.nn.LSTM."""
    directions = 2 if bidirectional else 1
    recurrent, output = LSTM(features, units, layers, directions), Dense(units * directions, outputs)
    sequence = (recurrent, output) if loss == "ctc" else (recurrent, Reshape("last"), output)
    options: Any = {
        "loss": loss,
        "optimizer": "adam",
        "copied": True,
        "shortest": frames[0],
        "labels": labels,
        "bound": units**-0.5,
    }
    return Network(name, "RNN", (frames[1], features), outputs, sequence, batch, **options)


def _check(where: str, values: Mapping[str, Any]) -> None:
    if set(values) != set(KEYS):
        raise choices(where, sorted(values), f"the keys {', '.join(KEYS)}")
    for name in SIZES:
        whole(f"{where}.{name}", values[name], 1)
    switch(f"{where}.bidirectional", values["bidirectional"])
    frames, labels, loss = values["frames"], values["labels"], values["loss"]
    if loss not in ("ce", "ctc"):
        raise choices(f"{where}.loss", loss, ("ce", "ctc"))
    two = isinstance(frames, list) and len(frames) == 2 and all(is_whole(count, 1) for count in frames)
    if not two or frames[0] > frames[1]:
        raise choices(f"{where}.frames", frames, "two whole numbers, 1 or more, the smaller one first")
    if loss == "ctc" and not (2 * labels <= frames[0] and values["outputs"] > 1):
        raise choices(f"{where}.labels", labels, f"at most half of the {frames[0]} frames, and 2 outputs or more")
    if loss == "ce" and (labels != 1 or frames[0] < frames[1]):
        raise choices(f"{where}.labels", labels, "1 with loss=ce, and frames of one length")


Point = tuple[str, str]
"""A configuration and an implementation."""

RATIO_COLUMNS = "configuration | slower | faster | no longer exists | source (published) | times | up to | ours"

CUDNN, ANY_CUDNN, SLOWEST = "PyTorch cuDNNLSTM", "cuDNNLSTM", "the slowest"


@dataclass(frozen=True)
class Ratio:
    """`slower` takes `least` to `most` times as long as `faster`. where: section of the paper, and any derivation."""

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
    """Return an implementation's published speed relative to the slowest one, or None if the paper does not give it."""
    slowest = PRINTED["slowest"].get(configuration)
    if implementation is None or slowest is None:
        return None
    if implementation == slowest:
        return 1.0
    names = (implementation, ANY_CUDNN if implementation == CUDNN else implementation)
    ratios = (ratio for ratio in RATIOS if ratio.slower == (configuration, slowest))
    return next((ratio.most for ratio in ratios if ratio.faster in [(configuration, name) for name in names]), None)


def list_ratios(measured: Mapping[Point, float], configurations: Iterable[str]) -> list[Row]:
    """List published and measured time ratios. measured: seconds by configuration and name in the paper."""
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
        rows.append(fill_row(RATIO_COLUMNS, place, *printed, ours))
    return rows


def _find_seconds(point: Point, measured: Mapping[Point, float]) -> float | None:
    """Return a point's measured seconds, or None. SLOWEST means the slowest implementation of the configuration."""
    configuration, name = point
    if name == SLOWEST:
        return max((seconds for (place, _), seconds in measured.items() if place == configuration), default=None)
    return measured.get((configuration, CUDNN if name == ANY_CUDNN else name))

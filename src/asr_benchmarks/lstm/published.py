"""The speeds that Braun2018 §4 and §5 give for its implementations.

Its table 4, the milliseconds on a GTX 1080, is missing from the text at hand: these are the ratios of the two sections,
and what follows from them by division, as each ratio says. The paper rounds them to one decimal.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from asr_benchmarks.tables import Row

CE_SHORT, CE_LONG = "1x320/CE-short", "1x320/CE-long"
DEEP_CE, DEEP_CTC = "4x320/CE-long", "4x320/CTC-long"
BOTH_SHALLOW, BOTH_DEEP = f"{CE_SHORT}, {CE_LONG}", f"{DEEP_CE}, {DEEP_CTC}"

BASIC, FUSED, CUDNN = "PyTorch LSTMCell-basic", "PyTorch LSTMCell-fused", "PyTorch cuDNNLSTM"
ANY_CUDNN = "cuDNNLSTM"  # of PyTorch, TensorFlow and Keras, which differ little
LSTM_CELL, BLOCK_CELL, BLOCK_FUSED = "TensorFlow LSTMCell", "TensorFlow LSTMBlockCell", "TensorFlow LSTMBlockFusedCell"
LASAGNE, KERAS_THEANO, KERAS_TF = "Lasagne LSTMLayer", "Keras/Theano LSTM", "Keras/TensorFlow LSTM"
SLOWEST = "the slowest"
OLD_BASIC = f"{BASIC} of the slowest version"
THREE = f"{LASAGNE}, {BLOCK_CELL}, {LSTM_CELL}"

GONE = (LSTM_CELL, BLOCK_CELL, BLOCK_FUSED, LASAGNE, KERAS_THEANO, THREE, OLD_BASIC)
"""Theano and Lasagne have ended, TensorFlow 2 has no cells of TensorFlow 1, and old PyTorch needs an old Python."""

Point = tuple[str, str]
"""Configuration and implementation."""


@dataclass(frozen=True)
class Ratio:
    """`slower` takes `least` to `most` times as long as `faster`. where: the source, or how it follows."""

    slower: Point
    faster: Point
    least: float
    most: float
    where: str


def _ratio(configuration: str, slower: str, faster: str, times: float, where: str) -> Ratio:
    return Ratio((configuration, slower), (configuration, faster), times, times, where)


RATIOS = (
    _ratio(CE_LONG, KERAS_TF, ANY_CUDNN, 7.2, "§4, fastest"),
    _ratio(CE_SHORT, SLOWEST, ANY_CUDNN, 5.1, "§4, 100 vs 1000 time steps"),
    _ratio(CE_LONG, FUSED, BLOCK_FUSED, 1.3, "§4, optimized"),
    _ratio(CE_LONG, BLOCK_CELL, BLOCK_FUSED, 3.4, "§4, optimized"),
    _ratio(CE_LONG, BLOCK_CELL, FUSED, 3.4 / 1.3, "§4, optimized: 3.4 / 1.3"),
    *(_ratio(CE_LONG, LSTM_CELL, name, 1.6, "§4, basic") for name in (BASIC, LASAGNE, KERAS_THEANO)),
    *(_ratio(CE_LONG, KERAS_TF, name, 1.8, "§4, basic") for name in (BASIC, LASAGNE, KERAS_THEANO)),
    _ratio(CE_LONG, KERAS_TF, LSTM_CELL, 1.8 / 1.6, "§4, basic: 1.8 / 1.6; §5 says 1.1"),
    _ratio(CE_LONG, BASIC, ANY_CUDNN, 7.2 / 1.8, "§4, fastest and basic: 7.2 / 1.8"),
    _ratio(CE_LONG, LSTM_CELL, ANY_CUDNN, 7.2 * 1.6 / 1.8, "§4, fastest and basic: 7.2 · 1.6 / 1.8"),
    _ratio(CE_SHORT, LSTM_CELL, BASIC, 1.5, "§5: 1.5 to 1.6 in two, 1.6 in the long one"),
    Ratio((BOTH_SHALLOW, LSTM_CELL), (BOTH_SHALLOW, KERAS_THEANO), 1.5, 1.7, "§5, which names no configuration"),
    Ratio(
        (f"{BOTH_SHALLOW}, {BOTH_DEEP}", LSTM_CELL), (f"{BOTH_SHALLOW}, {BOTH_DEEP}", LASAGNE), 1.3, 1.6, "§5, likewise"
    ),
    _ratio(CE_LONG, OLD_BASIC, BASIC, 2.2, "§4, PyTorch versions"),
    Ratio((BOTH_DEEP, THREE), (BOTH_DEEP, CUDNN), 4.7, 7.0, "§4, quad-layer"),
    Ratio((DEEP_CTC, CUDNN), (DEEP_CE, CUDNN), 1.1, 1.1, "§4, fixed vs. variable"),
    Ratio((DEEP_CTC, LASAGNE), (DEEP_CE, LASAGNE), 1.2, 1.2, "§4, fixed vs. variable"),
)

PAPERS_SLOWEST: Mapping[str, str] = {CE_SHORT: SLOWEST, CE_LONG: KERAS_TF}
"""The slowest implementation of each configuration for which the text compares others with it."""


def times_faster(configuration: str, implementation: str | None) -> float | None:
    """The speed of an implementation over the paper's slowest of the configuration; None if the text does
    not say.
    """
    slowest = PAPERS_SLOWEST.get(configuration)
    if implementation is None or slowest is None:
        return None
    if implementation == slowest:
        return 1.0
    names = (implementation, ANY_CUDNN) if implementation == CUDNN else (implementation,)
    points = [(configuration, name) for name in names]
    ratios = (ratio for ratio in RATIOS if ratio.slower == (configuration, slowest))
    return next((ratio.most for ratio in ratios if ratio.faster in points), None)


def rows(measured: Mapping[Point, float], configurations: Collection[str]) -> list[Row]:
    """The published ratios of these configurations, and ours where both implementations have a counterpart that was
    measured. measured: seconds by configuration and published name.
    """
    return [_row(ratio, measured) for ratio in RATIOS if _configurations(ratio) & set(configurations)]


def _configurations(ratio: Ratio) -> set[str]:
    return {name for names, _ in (ratio.slower, ratio.faster) for name in names.split(", ")}


def _row(ratio: Ratio, measured: Mapping[Point, float]) -> Row:
    (configuration, slower), (other, faster) = ratio.slower, ratio.faster
    seconds = [_seconds(point, measured) for point in (ratio.slower, ratio.faster)]
    gone = [side for side, name in (("slower", slower), ("faster", faster)) if name in GONE]
    return {
        "configuration": configuration if configuration == other else f"{configuration} : {other}",
        "slower": slower,
        "faster": faster,
        "no longer exists": " and ".join(gone) or "–",
        "source (published)": f"Braun2018 {ratio.where}",
        "times": ratio.least,
        "up to": ratio.most,
        "ours": seconds[0] / seconds[1] if seconds[0] and seconds[1] else None,
    }


def _seconds(point: Point, measured: Mapping[Point, float]) -> float | None:
    """The measured seconds of a point; those of the slowest implementation where the point is SLOWEST."""
    configuration, name = point
    among: Sequence[float] = [seconds for (where, _), seconds in measured.items() if where == configuration]
    if name == SLOWEST:
        return max(among, default=None)
    return measured.get((configuration, CUDNN if name == ANY_CUDNN else name))

"""The six networks of Shi2016 table 2.

Each takes its sizes from conf/benchmark/networks/network/, and `shrink`, which divides them: 1 for the real ones.
"""

import itertools
import math

from asr_benchmarks.networks.layers import (
    LSTM,
    Activation,
    BatchNorm,
    Convolution,
    Dense,
    Embedding,
    Flatten,
    Layer,
    MaxPool,
    MeanPool,
    Residual,
)
from asr_benchmarks.networks.network import Network

SMALLEST_IMAGE = 64
"""Pixels per side; with fewer, nothing would be left after the pools."""


def fcn(
    name: str,
    *,
    shrink: int,
    batch: int,
    published: float,
    inputs: int,
    outputs: int,
    hidden: int,
    hidden_layers: int,
) -> Network:
    """A fully connected network, with a sigmoid after each hidden layer."""
    sizes = [_part(inputs, shrink), *[_part(hidden, shrink)] * hidden_layers, _part(outputs, shrink)]
    layers: list[Layer] = []
    for before, after in itertools.pairwise(sizes):
        layers += [Dense(before, after), Activation("sigmoid")]
    return Network(name, "FCN", (sizes[0],), sizes[-1], tuple(layers[:-1]), batch, published)


def alexnet(
    name: str,
    *,
    shrink: int,
    batch: int,
    published: float,
    image: int,
    outputs: int,
    channels: list[int],
    hidden: int,
) -> Network:
    """AlexNet in one tower (Krizhevsky 2014, One weird trick): 61.1 million parameters with 224 × 224 × 3 = 150,528
    inputs, the 61 of Table 2. It has no dropout and no normalisation across channels. The "4 layers" of Table 2 are
    neither the eight layers with weights nor the five convolutions; the paper does not say which they are.
    """
    side, classes, wide = _image(image, shrink), _part(outputs, shrink), _part(hidden, shrink)
    first, second, third, fourth, fifth = (_part(count, shrink) for count in channels)
    features: tuple[Layer, ...] = (
        *(Convolution(3, first, 11, stride=4, padding=2), Activation("relu"), MaxPool(3, 2)),
        *(Convolution(first, second, 5, padding=2), Activation("relu"), MaxPool(3, 2)),
        *(Convolution(second, third, 3, padding=1), Activation("relu")),
        *(Convolution(third, fourth, 3, padding=1), Activation("relu")),
        *(Convolution(fourth, fifth, 3, padding=1), Activation("relu"), MaxPool(3, 2), Flatten()),
    )
    shape: tuple[int, ...] = (side, side, 3)
    for layer in features:
        shape = layer.out(shape)
    head = (Dense(math.prod(shape), wide), Activation("relu"), Dense(wide, wide), Activation("relu"))
    return Network(name, "CNN", (side, side, 3), classes, (*features, *head, Dense(wide, classes)), batch, published)


def resnet(
    name: str,
    *,
    shrink: int,
    batch: int,
    published: float,
    image: int,
    outputs: int,
    width: int,
    blocks: list[int],
) -> Network:
    """ResNet of He et al. 2015, Table 1: bottlenecks; the first of a stage halves the image in its first convolution.

    With that stride and 50 layers a sample needs 3.8 × 10⁹ multiply-additions, as He et al. say; the paper's Table 2
    has that number as "3.8 billions" of parameters, of which there are 25.6 millions.
    """
    side, classes, channels = _image(image, shrink), _part(outputs, shrink), _part(width, shrink)
    layers: list[Layer] = [
        *_normed(3, channels, size=7, stride=2),
        Activation("relu"),
        MaxPool(3, 2, padding=1),
    ]
    inputs = channels
    for stage, count in enumerate(blocks):
        middle = channels * 2**stage
        for number in range(count):
            layers += _bottleneck(inputs, middle, stride=2 if stage and not number else 1)
            inputs = 4 * middle
    layers += [MeanPool(), Dense(inputs, classes)]
    return Network(name, "CNN", (side, side, 3), classes, tuple(layers), batch, published)


def lstm(
    name: str,
    *,
    shrink: int,
    batch: int,
    published: float,
    words: int,
    outputs: int,
    hidden: int,
    lstm_layers: int,
    length: int,
) -> Network:
    """A language model: an embedding as wide as the LSTM, the LSTM's layers, and the next word at each position."""
    known, classes, wide = _part(words, shrink), _part(outputs, shrink), _part(hidden, shrink)
    layers = (Embedding(known, wide), LSTM(wide, wide, lstm_layers), Dense(wide, classes))
    return Network(name, "RNN", (_part(length, min(shrink, 8)),), classes, layers, batch, published)


def _bottleneck(inputs: int, middle: int, stride: int) -> tuple[Layer, ...]:
    branch = (
        *(*_normed(inputs, middle, size=1, stride=stride), Activation("relu")),
        *(*_normed(middle, middle, size=3), Activation("relu")),
        *_normed(middle, 4 * middle, size=1),
    )
    projected = stride > 1 or inputs != 4 * middle
    shortcut = _normed(inputs, 4 * middle, size=1, stride=stride) if projected else ()
    return Residual(branch, shortcut), Activation("relu")


def _normed(inputs: int, outputs: int, size: int, stride: int = 1) -> tuple[Layer, ...]:
    return Convolution(inputs, outputs, size, stride, padding=size // 2, bias=False), BatchNorm(outputs)


def _part(size: int, shrink: int) -> int:
    return max(2, size // shrink)


def _image(side: int, shrink: int) -> int:
    return max(min(side, SMALLEST_IMAGE), side // shrink)

"""The six networks of Shi2016 table 2. Sizes come from conf/benchmark/networks/network/ and are divided by `shrink`.

Each function passes its remaining keyword arguments, `batch` and `published`, to Network.
"""

import itertools
import math
from typing import Any

from asr_benchmarks.frameworks import network as kinds
from asr_benchmarks.frameworks.network import Activation, Convolution, Dense, Layer, MaxPool, Network, Reshape

SMALLEST_IMAGE = 64
"""Minimum side of an image in pixels. The pooling layers would reduce smaller images to nothing."""


def fcn(name: str, *, shrink: int, inputs: int, outputs: int, hidden: int, hidden_layers: int, **size: Any) -> Network:
    """Build a fully connected network with a sigmoid after each hidden layer."""
    sizes = [_shrink(inputs, shrink), *[_shrink(hidden, shrink)] * hidden_layers, _shrink(outputs, shrink)]
    layers: list[Layer] = []
    for before, after in itertools.pairwise(sizes):
        layers += [Dense(before, after), Activation("sigmoid")]
    return Network(name, "FCN", (sizes[0],), sizes[-1], tuple(layers[:-1]), **size)


def alexnet(
    name: str, *, shrink: int, image: int, outputs: int, channels: list[int], hidden: int, **size: Any
) -> Network:
    """Build a single-tower AlexNet (Krizhevsky 2014, One weird trick), without dropout or cross-channel normalisation.

    As in Table 2, it has 61 million parameters. The table also says "4 layers", but 8 layers have weights, and 5 of
    them are convolutions.
    """
    side, classes, wide = _shrink_image(image, shrink), _shrink(outputs, shrink), _shrink(hidden, shrink)
    first, second, third, fourth, fifth = (_shrink(count, shrink) for count in channels)
    features: tuple[Layer, ...] = (
        *(Convolution(3, first, 11, stride=4, padding=2), Activation("relu"), MaxPool(3, 2)),
        *(Convolution(first, second, 5, padding=2), Activation("relu"), MaxPool(3, 2)),
        *(Convolution(second, third, 3, padding=1), Activation("relu")),
        *(Convolution(third, fourth, 3, padding=1), Activation("relu")),
        *(Convolution(fourth, fifth, 3, padding=1), Activation("relu"), MaxPool(3, 2), Reshape("flat")),
    )
    shape: tuple[int, ...] = (side, side, 3)
    for layer in features:
        shape = layer.out(shape)
    head = (Dense(math.prod(shape), wide), Activation("relu"), Dense(wide, wide), Activation("relu"))
    return Network(name, "CNN", (side, side, 3), classes, (*features, *head, Dense(wide, classes)), **size)


def resnet(name: str, *, shrink: int, image: int, outputs: int, width: int, blocks: list[int], **size: Any) -> Network:
    """Build the ResNet of He et al. 2015, Table 1. In every stage after the first, one convolution halves the image.

    Shi2016 table 2 gives 3.8 × 10⁹ parameters, but this is the number of multiply-additions per sample.
    """
    side, classes, channels = _shrink_image(image, shrink), _shrink(outputs, shrink), _shrink(width, shrink)
    layers: list[Layer] = [*_conv_norm(3, channels, size=7, stride=2), Activation("relu"), MaxPool(3, 2, padding=1)]
    inputs = channels
    for stage, count in enumerate(blocks):
        middle = channels * 2**stage
        for number in range(count):
            layers += _bottleneck(inputs, middle, stride=2 if stage and not number else 1)
            inputs = 4 * middle
    layers += [Reshape("mean"), Dense(inputs, classes)]
    return Network(name, "CNN", (side, side, 3), classes, tuple(layers), **size)


def lstm(
    name: str, *, shrink: int, words: int, outputs: int, hidden: int, lstm_layers: int, length: int, **size: Any
) -> Network:
    """Build an LSTM language model with one output word per position. The embedding is as wide as the LSTM."""
    vocabulary, classes, wide = _shrink(words, shrink), _shrink(outputs, shrink), _shrink(hidden, shrink)
    layers = (kinds.Embedding(vocabulary, wide), kinds.LSTM(wide, wide, lstm_layers), Dense(wide, classes))
    return Network(name, "RNN", (_shrink(length, min(shrink, 8)),), classes, layers, **size)


def _bottleneck(inputs: int, middle: int, stride: int) -> tuple[Layer, ...]:
    branch = (
        *(*_conv_norm(inputs, middle, size=1, stride=stride), Activation("relu")),
        *(*_conv_norm(middle, middle, size=3), Activation("relu")),
        *_conv_norm(middle, 4 * middle, size=1),
    )
    projected = stride > 1 or inputs != 4 * middle
    shortcut = _conv_norm(inputs, 4 * middle, size=1, stride=stride) if projected else ()
    return kinds.Residual(branch, shortcut), Activation("relu")


def _conv_norm(inputs: int, outputs: int, size: int, stride: int = 1) -> tuple[Layer, ...]:
    return Convolution(inputs, outputs, size, stride, padding=size // 2, bias=False), kinds.BatchNorm(outputs)


def _shrink(size: int, shrink: int) -> int:
    return max(2, size // shrink)


def _shrink_image(side: int, shrink: int) -> int:
    return max(min(side, SMALLEST_IMAGE), side // shrink)

"""The networks and their training step as functions of JAX arrays. Importing this module imports JAX."""

from functools import partial
from typing import TypeAlias, TypedDict

import jax
import jax.numpy as jnp
from jax import Array

from asr_benchmarks.lstm.jax_ctc import ctc

RATE, DECAY, SQUARE_DECAY, EPSILON = 1e-3, 0.9, 0.999, 1e-8
"""Adam's constants as in Kingma & Ba 2015 and in torch; JAX itself has no optimizer."""

Direction: TypeAlias = tuple[Array, Array, Array]
"""Weights of one LSTM for inputs (D, 4H) and for the last state (H, 4H), bias (4H,); gates in the order i, f, g, o."""


class Parameters(TypedDict):
    """layers: the directions of each, forward first; output: matrix (H · directions, outputs) and bias (outputs,)."""

    layers: list[list[Direction]]
    output: tuple[Array, Array]


AdamState: TypeAlias = tuple[Parameters, Parameters, Array]
"""Moving averages of the gradients and of their squares, and the number of steps."""


def logits(kind: str, weights: Parameters, x: Array, lengths: Array) -> Array:
    """(x (B, T, D), lengths (B,)) → logits: (B, T, V) if the kind of loss is ctc, (B, V) of the last frame if ce."""
    position = jnp.arange(x.shape[1])[None]
    last = lengths[:, None] - 1
    flip = jnp.where(position <= last, last - position, position)[..., None]  # within each utterance's length
    for layer in weights["layers"]:
        outputs = [_lstm(layer[0], x)]
        if len(layer) == 2:
            backwards = _lstm(layer[1], jnp.take_along_axis(x, flip, axis=1))
            outputs.append(jnp.take_along_axis(backwards, flip, axis=1))
        x = jnp.concatenate(outputs, axis=-1)
    matrix, bias = weights["output"]
    return (x if kind == "ctc" else x[:, -1]) @ matrix + bias


def update(
    kind: str, weights: Parameters, state: AdamState, x: Array, lengths: Array, labels: Array
) -> tuple[Parameters, AdamState, Array]:
    """One training step: the weights and Adam's state after it, and the loss before it."""
    loss, gradient = jax.value_and_grad(partial(_loss, kind))(weights, x, lengths, labels)
    weights, state = _adam(weights, state, gradient)
    return weights, state, loss


def _lstm(weights: Direction, x: Array) -> Array:
    """(B, T, D) → (B, T, H)."""
    inputs, recurrent, bias = weights
    zeros = jnp.zeros((x.shape[0], recurrent.shape[0]), x.dtype)

    def frame(state: tuple[Array, Array], entering: Array) -> tuple[tuple[Array, Array], Array]:
        hidden, memory = state
        enter, forget, candidate, leave = jnp.split(entering + hidden @ recurrent, 4, axis=1)
        memory = jax.nn.sigmoid(forget) * memory + jax.nn.sigmoid(enter) * jnp.tanh(candidate)
        hidden = jax.nn.sigmoid(leave) * jnp.tanh(memory)
        return (hidden, memory), hidden

    _, outputs = jax.lax.scan(frame, (zeros, zeros), (x @ inputs + bias).swapaxes(0, 1))
    return outputs.swapaxes(0, 1)


def _loss(kind: str, weights: Parameters, x: Array, lengths: Array, labels: Array) -> Array:
    """Nats per label, the mean over utterances."""
    log_probs = jax.nn.log_softmax(logits(kind, weights, x, lengths))
    if kind == "ctc":
        return ctc(log_probs, lengths, labels).mean() / labels.shape[1]
    return -jnp.take_along_axis(log_probs, labels, axis=1).mean()


def _adam(weights: Parameters, state: AdamState, gradient: Parameters) -> tuple[Parameters, AdamState]:
    mean, square, steps = state
    steps = steps + 1
    mean = jax.tree.map(lambda m, g: DECAY * m + (1 - DECAY) * g, mean, gradient)
    square = jax.tree.map(lambda s, g: SQUARE_DECAY * s + (1 - SQUARE_DECAY) * g * g, square, gradient)
    # the factors by which averages that began at 0 are too small
    first, second = 1 - DECAY**steps, 1 - SQUARE_DECAY**steps
    weights = jax.tree.map(
        lambda w, m, s: w - RATE * (m / first) / (jnp.sqrt(s / second) + EPSILON), weights, mean, square
    )
    return weights, (mean, square, steps)

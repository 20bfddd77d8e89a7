"""Connectionist temporal classification in JAX, which has none of its own."""

import jax
import jax.numpy as jnp
from jax import Array

NEVER = -1e30
"""The logarithm of 0: finite, so that gradients through it are 0 and not undefined."""


def ctc(log_probs: Array, lengths: Array, labels: Array) -> Array:
    """(log_probs (B, T, V) in nats, lengths (B,), labels (B, L), all valid) → nats (B,); blank is 0.

    Graves et al. 2006, equations 6 to 8, in logarithms and scanned over the frames.
    """
    count = labels.shape[1]
    symbols = jnp.zeros((len(labels), 2 * count + 1), labels.dtype).at[:, 1::2].set(labels)
    # from two symbols before: not onto a blank, and not from a label onto its equal
    repeated = jnp.concatenate([jnp.ones((len(labels), 1), bool), labels[:, 1:] == labels[:, :-1]], axis=1)
    over = jnp.full(symbols.shape, NEVER).at[:, 1::2].set(jnp.where(repeated, NEVER, 0.0))
    spoken = jnp.take_along_axis(log_probs, symbols[:, None], axis=2).swapaxes(0, 1)  # (T, B, 2 L + 1)

    def frame(log_alpha: Array, numbered: tuple[Array, Array]) -> tuple[Array, None]:
        number, emitted = numbered
        moved = jnp.logaddexp(jnp.logaddexp(log_alpha, _shifted(log_alpha, 1)), _shifted(log_alpha, 2) + over)
        return jnp.where((number < lengths)[:, None], moved + emitted, log_alpha), None

    first = jnp.full(symbols.shape, NEVER).at[:, :2].set(spoken[0, :, :2])
    log_alpha, _ = jax.lax.scan(frame, first, (jnp.arange(1, len(spoken)), spoken[1:]))
    return -jnp.logaddexp(log_alpha[:, -1], log_alpha[:, -2])


def _shifted(log_alpha: Array, by: int) -> Array:
    return jnp.pad(log_alpha[:, :-by], ((0, 0), (by, 0)), constant_values=NEVER)

"""Separate random streams from one seed, so that one choice does not shift the draws of another."""

import hashlib

import numpy as np


def stream(seed: int, *names: object) -> int:
    """A 63-bit seed that depends on all the arguments and on nothing else (no hash(), no global state)."""
    key = "\x1f".join(map(str, (seed, *names))).encode()
    return int.from_bytes(hashlib.blake2b(key, digest_size=8).digest(), "little") >> 1


def generator(seed: int, *names: object) -> np.random.Generator:
    """A numpy generator of its own for one purpose."""
    return np.random.default_rng(stream(seed, *names))


def uniforms(count: int, seed: int, *names: object) -> np.ndarray:
    """`count` numbers in [0, 1): the cheap way to a few draws per utterance (a generator costs 20 µs, this 2)."""
    key = "\x1f".join(map(str, (seed, *names))).encode()
    salts = (i.to_bytes(8, "little") for i in range(-(-count // 8)))
    blocks = [hashlib.blake2b(key, digest_size=64, salt=salt).digest() for salt in salts]
    return (np.frombuffer(b"".join(blocks), dtype="<u8")[:count] >> 11) * 2.0**-53

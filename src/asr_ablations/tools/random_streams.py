"""Independent random streams from one seed. More draws from one stream do not change the draws from another."""

import hashlib

import numpy as np


def stream(seed: int, *names: object) -> int:
    """Return a 63-bit seed that depends only on the arguments, not on hash() or global state."""
    key = "\x1f".join(map(str, (seed, *names))).encode()
    return int.from_bytes(hashlib.blake2b(key, digest_size=8).digest(), "little") >> 1


def generator(seed: int, *names: object) -> np.random.Generator:
    """Return a NumPy generator for one purpose, which `names` identify."""
    return np.random.default_rng(stream(seed, *names))


def uniforms(count: int, seed: int, *names: object) -> np.ndarray:
    """Draw `count` numbers in [0, 1), shape (count,). A few draws take 2 µs, but creating a generator takes 20 µs."""
    key = "\x1f".join(map(str, (seed, *names))).encode()
    salts = (i.to_bytes(8, "little") for i in range(-(-count // 8)))
    blocks = [hashlib.blake2b(key, digest_size=64, salt=salt).digest() for salt in salts]
    return (np.frombuffer(b"".join(blocks), dtype="<u8")[:count] >> 11) * 2.0**-53

"""The rows of a file of NumPy's, read where they are needed.

It is not mapped: one that is cut meanwhile would end the process by SIGBUS, without a word.
"""

import math
import os
import weakref
from pathlib import Path

import numpy as np

from asr_ablations.tools.errors import UsageError


class Rows:
    """An array (rows, …) in a file that stays open. Raises ValueError for a file that is no such array, or is shorter
    than its head says.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = path.open("rb", buffering=0)
        weakref.finalize(self, self._file.close)
        if (version := np.lib.format.read_magic(self._file)) != (1, 0):
            raise ValueError(f"version {version} of NumPy's format, expected (1, 0)")
        self.shape, in_columns, self.dtype = np.lib.format.read_array_header_1_0(self._file)
        self._begin = self._file.tell()
        if in_columns or self.dtype.hasobject or not self.shape:
            raise ValueError(f"no rows: {self.shape} values of {self.dtype}")
        expected, size = self._begin + self.shape[0] * self._width, os.fstat(self._file.fileno()).st_size
        if size < expected:
            raise ValueError(f"{size} bytes, its head says {expected}")

    def read(self, begin: int, end: int) -> np.ndarray:
        """The rows from `begin` to before `end`. Raises UsageError where the file was cut since it was opened."""
        size = (end - begin) * self._width
        content = os.pread(self._file.fileno(), size, self._begin + begin * self._width)
        if len(content) < size:
            raise UsageError(f"{self.path} was cut while it is read: the same command computes it again")
        return np.frombuffer(content, self.dtype).reshape(-1, *self.shape[1:])

    @property
    def _width(self) -> int:
        """Bytes of a row."""
        return int(self.dtype.itemsize * math.prod(self.shape[1:]))

"""The file of weights that a run starts from, named by a run's folder or by itself."""

import functools
from pathlib import Path

from asr_ablations.runs.layout import last_checkpoint
from asr_ablations.tools.errors import choices
from asr_ablations.tools.files import sha256
from asr_ablations.tools.paths import expanded


def weights_file(path: str) -> Path:
    """The checkpoint that the key `weights` means. Raises UsageError where there is none."""
    given = expanded(path, "weights")
    file = last_checkpoint(given) if given.is_dir() else given
    if not file.is_file():
        raise choices("weights", path, f"a run's folder or a .ckpt, and there is no {file}")
    return file


def sha256_of_weights(path: str | None) -> str | None:
    """What ${sha256_of_weights:…} stands for in a config: the hash of the file, None without one."""
    if path is None:
        return None
    file = weights_file(str(path))
    status = file.stat()
    return _sha256(file, status.st_size, status.st_mtime_ns)


@functools.cache
def _sha256(file: Path, size: int, modified: int) -> str:
    """A config is resolved several times, and a checkpoint can be large."""
    return sha256(file)

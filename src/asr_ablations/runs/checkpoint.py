"""The one reader of checkpoints. A checkpoint can be a stranger's: nothing of it is executed."""

import hashlib
import pickle
import warnings
import zipfile
from pathlib import Path
from typing import IO

from asr_ablations.tools.errors import is_lack_of_memory
from asr_verdicts.errors import UsageError
from asr_verdicts.files import Json, is_regular


def read_checkpoint(path: Path) -> Json:
    """Read the tensors, on the CPU, and the plain values of a checkpoint.

    Raises UsageError if it is damaged or holds more, OSError or MemoryError if it cannot be read now.
    """
    import torch

    if not is_regular(path):
        raise UsageError(f"{path}: refused, it is no regular file")
    try:
        with path.open("rb") as file, warnings.catch_warnings():  # opened once: a living run replaces its last.ckpt
            _check_sums(file)
            file.seek(0)
            warnings.simplefilter("ignore")  # about unusual pickles: those are refused below
            content = torch.load(file, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        raise UsageError(f"{path}: refused, it is damaged or holds more than weights and plain values") from error
    except RuntimeError as error:
        if is_lack_of_memory(error):
            raise MemoryError(first_line(error)) from error
        raise UsageError(f"{path}: damaged, it cannot be read: {first_line(error)}") from error
    except (OSError, MemoryError):
        raise
    except Exception as error:  # what torch makes of bytes that are no checkpoint can be any
        raise UsageError(f"{path}: damaged, it cannot be read: {first_line(error)}") from error
    if not isinstance(content, dict) or not isinstance(content.get("state_dict"), dict):
        raise UsageError(f"{path}: no checkpoint of a run (it has no state_dict)")
    return content


def _check_sums(file: IO[bytes]) -> None:
    """Raises BadZipFile for content that is not what was written: torch itself looks at no checksum."""
    if not zipfile.is_zipfile(file):
        return
    with zipfile.ZipFile(file) as archive:
        if (name := archive.testzip()) is not None:
            raise zipfile.BadZipFile(f"wrong checksum of {name}")


def weights_hash(path: Path) -> str:
    """SHA-256 over names, types, shapes and bytes of the weights in a checkpoint; "" without one."""
    import torch

    if not path.exists():
        return ""
    digest = hashlib.sha256()
    for name, tensor in sorted(read_checkpoint(path)["state_dict"].items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        digest.update(tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def first_line(error: BaseException) -> str:
    """The first line of an error's message that says something; libraries add pages."""
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)

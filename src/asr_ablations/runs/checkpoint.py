"""The only reader of checkpoints. They may come from strangers, so nothing in them is executed."""

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
    """Read the tensors, to the CPU, and the plain values of a checkpoint.

    Raises UsageError if it is damaged or has other content, and OSError or MemoryError if it cannot be read now.
    """
    import torch

    if not is_regular(path):
        raise UsageError(f"{path}: refused; it is not a regular file")
    try:
        with path.open("rb") as file, warnings.catch_warnings():  # opened once, as a running run replaces its last.ckpt
            _check_sums(file)
            file.seek(0)
            warnings.simplefilter("ignore")  # about unusual pickles, which are refused below
            content = torch.load(file, map_location="cpu", weights_only=True)
    except (OSError, MemoryError):
        raise
    except pickle.UnpicklingError as error:
        raise UsageError(f"{path}: refused; it is damaged or holds more than weights and plain values") from error
    except Exception as error:  # torch may raise anything for bytes that are not a checkpoint
        if is_lack_of_memory(error):
            raise MemoryError(first_line(error)) from error
        raise UsageError(f"{path}: damaged and cannot be read: {first_line(error)}") from error
    if not isinstance(content, dict) or not isinstance(content.get("state_dict"), dict):
        raise UsageError(f"{path}: not a run's checkpoint (it lacks state_dict)")
    return content


def _check_sums(file: IO[bytes]) -> None:
    """Raise BadZipFile if a checksum differs from the content; torch does not check this."""
    if not zipfile.is_zipfile(file):
        return
    with zipfile.ZipFile(file) as archive:
        if (name := archive.testzip()) is not None:
            raise zipfile.BadZipFile(f"wrong checksum of {name}")


def weights_hash(path: Path) -> str:
    """Return a SHA-256 over names, types, shapes and bytes of a checkpoint's weights; "" if the file is missing."""
    import torch

    if not path.exists():
        return ""
    digest = hashlib.sha256()
    for name, tensor in sorted(read_checkpoint(path)["state_dict"].items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        digest.update(tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message that is not empty, because libraries append pages."""
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)

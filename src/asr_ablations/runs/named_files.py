"""The files that a config names, known by their content: weights that a run starts from, noise, language models."""

from pathlib import Path

from asr_ablations.runs.layout import CONFIG, ENVIRONMENT, OVERRIDES, STATUS, last_checkpoint
from asr_ablations.tools.content_keys import content_key, hash_file, hash_files, visible_files
from asr_ablations.tools.files import expanded
from asr_verdicts.config import SHA256
from asr_verdicts.errors import UsageError, choices


def weights_file(path: str) -> Path:
    """The checkpoint that the key `weights` means. Raises UsageError where there is none."""
    given = expanded(path, "weights")
    file = last_checkpoint(given) if given.is_dir() else given
    if not file.is_file():
        raise choices("weights", path, f"a run's folder or a .ckpt, and there is no {file}")
    return file


def sha256_of_weights(path: str | None) -> str | None:
    """The value of ${sha256_of_weights:…} in a config: the hash of the file, or None without a file."""
    if path is None:
        return None
    return hash_file(weights_file(str(path)))


RECORDS = (CONFIG, ENVIRONMENT, OVERRIDES, STATUS, "lm.json")
"""Files in a folder that say how the others were made, and when."""


def sha256_of(path: object) -> str | None:
    """The value of ${sha256_of:…} in a config: the hash of a file, or of the names and contents of all files in a
    folder except hidden ones and RECORDS; of a run, of its last checkpoint and its config. None if there is no such
    file: the class that reads it says what it needs.
    """
    if not isinstance(path, str) or not path:
        return None
    given = expanded(path)
    if given.is_dir() and not last_checkpoint(given).is_file():
        return hash_files((file for file in visible_files(given) if file.name not in RECORDS), given)
    if given.is_dir():
        given = last_checkpoint(given)
    if not given.is_file():
        return None
    configs = [folder / CONFIG for folder in (given.parent, given.parent.parent) if given.suffix == ".ckpt"]
    read = [given, *(file for file in configs if file.is_file())][:2]
    return hash_file(given) if len(read) == 1 else content_key(64, files=[hash_file(file) for file in read])


def refuse_changed_files(node: object, place: str = "") -> None:
    """Raises UsageError for a file or folder in a resolved config that is not what it was when that was composed."""
    if isinstance(node, list):
        node = dict(enumerate(node))
    if not isinstance(node, dict):
        return
    for key, value in node.items():
        refuse_changed_files(value, f"{place}{key}.")
        path = node.get(str(key).removesuffix(SHA256)) if str(key).endswith(SHA256) and place else None
        if path is not None and value is not None and (actual := sha256_of(path)) != value:
            raise UsageError(
                f"{place}{key}: {path} has changed since this config was composed: its SHA-256 was {value}, now it is "
                f"{actual or 'gone'}"
            )

"""The file of weights that a run starts from, named by a run's folder or by itself."""

import functools
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import yaml
from omegaconf import OmegaConf
from omegaconf.resolvers import oc

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


def look_up_in(conf: Path) -> None:
    """From now on ${characters_of:<language>} stands for the characters of that language's file in `conf`, and
    ${sha256_of_weights:<path>} for the hash of a file of weights.

    The configs of a process are composed from one folder conf/, except where it reproduces a run by its recorded code.
    The files are read once from then on: a resolved config asks several times.
    """
    alphabets.cache_clear()
    # a launcher's jobs get the resolver with the configs: it must be picklable, and so hold nothing but the folder
    OmegaConf.register_new_resolver("sha256_of_weights", sha256_of_weights, replace=True)
    OmegaConf.register_new_resolver("sha256_of", sha256_of, replace=True)
    OmegaConf.register_new_resolver(
        "characters_of", lambda language: characters_of(language, alphabets(conf)), replace=True
    )


def characters_of(language: object, known: Mapping[str, str]) -> str:
    """The characters of a language's alphabet. Raises UsageError, with the choices, for one without a file."""
    if str(language) not in known:
        other = "or any with an alphabet of its own: alphabet=derived"
        raise choices("data.language", language, [*known, other])
    return known[str(language)]


@functools.cache
def alphabets(conf: Path) -> dict[str, str]:
    """Characters by language, from the files in conf/alphabet that spell them out."""
    nodes = {file.stem: yaml.safe_load(file.read_text("utf-8")) for file in sorted((conf / "alphabet").glob("*.yaml"))}
    characters = {language: str(node.get("characters", "")) for language, node in nodes.items()}
    return {language: spelled for language, spelled in characters.items() if spelled and "${" not in spelled}


OWN_VARIABLES = ("ASR_ABLATIONS_DATA", "XDG_CACHE_HOME", "HOME", "WANDB_PROJECT")
"""Variables of the environment that conf/ reads: where corpora lie, and where W&B's runs go."""


@contextmanager
def of_the_environment_only(names: Collection[str]) -> Iterator[None]:
    """Within, ${oc.env:…} reads these variables. Raises UsageError for any other, without its value."""

    def variable(name: str, *default: str | None) -> str | None:
        if name not in names:
            raise UsageError(f"${{oc.env:{name}}}: a config from elsewhere reads {', '.join(names)} only")
        return oc.env(name, *default)

    OmegaConf.register_new_resolver("oc.env", variable, replace=True)
    try:
        yield
    finally:
        OmegaConf.register_new_resolver("oc.env", oc.env, replace=True)

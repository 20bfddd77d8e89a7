"""The file of weights that a run starts from, named by a run's folder or by itself."""

import functools
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import yaml
from omegaconf import OmegaConf
from omegaconf.resolvers import oc

from asr_ablations.runs.layout import last_checkpoint
from asr_ablations.tools.errors import UsageError, choices
from asr_ablations.tools.files import expanded, sha256


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
    file = weights_file(str(path))
    status = file.stat()
    return _sha256(file, status.st_size, status.st_mtime_ns)


@functools.cache
def _sha256(file: Path, size: int, modified: int) -> str:
    """A config is resolved several times, and a checkpoint can be large."""
    return sha256(file)


def look_up_in(conf: Path) -> None:
    """From now on ${characters_of:<language>} stands for the characters of that language's file in `conf`, and
    ${sha256_of_weights:<path>} for the hash of a file of weights.

    The configs of a process are composed from one folder conf/, except where it reproduces a run by its recorded code.
    The files are read once from then on: a resolved config asks several times.
    """
    alphabets.cache_clear()
    # a launcher's jobs get the resolver with the configs: it must be picklable, and so hold nothing but the folder
    OmegaConf.register_new_resolver("sha256_of_weights", sha256_of_weights, replace=True)
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

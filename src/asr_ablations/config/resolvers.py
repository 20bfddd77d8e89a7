"""Resolvers for ${…} in configs: the characters of a language, and hashes of files."""

import functools
from pathlib import Path

import yaml
from omegaconf import OmegaConf

from asr_ablations.runs.identity import sha256_of, sha256_of_weights
from asr_verdicts.errors import choices


def look_up_in(conf: Path) -> None:
    """Register the resolvers; ${characters_of:<language>} reads the language's file in `conf`, once.

    The configs of a process are composed from one folder conf/, unless it reproduces a run by its recorded code.
    """
    alphabets.cache_clear()
    # launchers pickle the resolver with the configs of their jobs, so it may hold nothing but the folder
    OmegaConf.register_new_resolver("sha256_of_weights", sha256_of_weights, replace=True)
    OmegaConf.register_new_resolver("sha256_of", sha256_of, replace=True)
    OmegaConf.register_new_resolver("characters_of", functools.partial(characters_of, conf), replace=True)


def characters_of(conf: Path, language: object) -> str:
    """Return the characters of a language's alphabet. Raise UsageError with the choices if it has no file."""
    spelled = alphabets(conf)
    if str(language) not in spelled:
        raise choices("data.language", language, [*spelled, "or any language with alphabet=derived"])
    return spelled[str(language)]


@functools.cache
def alphabets(conf: Path) -> dict[str, str]:
    """Return characters by language, from the files in conf/alphabet that spell them out."""
    nodes = {file.stem: yaml.safe_load(file.read_text("utf-8")) for file in sorted((conf / "alphabet").glob("*.yaml"))}
    characters = {language: str(node.get("characters", "")) for language, node in nodes.items()}
    return {language: spelled for language, spelled in characters.items() if spelled and "${" not in spelled}

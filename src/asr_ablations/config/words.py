"""The words after a command, before Hydra reads them: options in front, and one line for what is no key=value."""

from collections.abc import Sequence
from pathlib import Path

from hydra._internal.utils import get_args_parser

from asr_ablations.config.keys import known
from asr_ablations.tools.errors import UsageError

COMPLETION = ("-sc", "--shell-completion")


def arranged(words: Sequence[str], config_name: str) -> list[str]:
    """The words with Hydra's options before the overrides: its parser takes no override after an option that follows
    one, as in seed=1 -m rnn=lstm,gru.

    config_name: the file of conf/ that the command begins with. Raises UsageError for a word that is neither.
    """
    if any(word in COMPLETION for word in words):
        return list(words)
    parsed, unknown = get_args_parser().parse_known_intermixed_args(list(words))
    for word in unknown:
        if "=" in word:
            raise UsageError(f"{word}: keys have no dashes; expected {word.lstrip('-')}")
        raise UsageError(f"{word}: there is no such option; keys are set as dropout=0.2, and --help lists them")
    for word in parsed.overrides:
        if "=" not in word and not word.startswith("~"):
            raise UsageError(f"{word}: expected key=value{_example(word, config_name)}")
    return [*(word for word in words if word not in parsed.overrides), *parsed.overrides]


def _example(word: str, config_name: str) -> str:
    """The end of the message, for a word that is likely a folder, or else."""
    if "/" not in word and not Path(word).exists():
        return "; --help lists the keys"
    return f", as {'run' if 'run' in known(config_name)[0] else 'data.root'}={word}"

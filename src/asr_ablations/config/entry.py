"""Start commands with Hydra, and report a user's mistake in one line instead of a traceback."""

import functools
import os
import re
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import hydra
import yaml
from hydra._internal.utils import get_args_parser
from hydra.conf import HydraConf
from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException
from hydra.types import RunMode
from omegaconf import DictConfig
from omegaconf.errors import OmegaConfBaseException

from asr_ablations.config.build import one_line
from asr_ablations.config.compose import look_up_in, sweep_name, use_loader
from asr_ablations.config.keys import ELSEWHERE, READS, read_command, refuse_key
from asr_ablations.config.plain_keys import check
from asr_ablations.config.targets import list_user_folders, use_folder
from asr_ablations.runs.command import prepare_command, report_end
from asr_ablations.runs.lease import LEASE_HELD_EXIT_CODE, LeaseHeldError
from asr_ablations.tools.errors import Stopped, stop_before
from asr_ablations.tools.files import CONF, typed, version
from asr_ablations.tools.reference import Help
from asr_ablations.tools.signals import handle_on_a_stack_of_their_own, interrupt
from asr_verdicts.errors import UsageError


def arrange_words(words: Sequence[str], config_name: str) -> list[str]:
    """Move Hydra's options before all overrides, because its parser refuses overrides on both sides of an option.

    Raise UsageError for an argument that is neither an option nor an override. config_name: the command's file in conf/
    """
    if {"-sc", "--shell-completion"}.intersection(words):
        return list(words)
    parsed, unknown = get_args_parser().parse_known_intermixed_args(list(words))
    for word in unknown:
        hint = f"keys have no dashes; expected {word.lstrip('-')}" if "=" in word else "--help lists keys and options"
        raise UsageError(f"{word}: there is no such option; {hint}")
    options = [name for name in ("run", "multirun", "cfg", "info") if getattr(parsed, name)]
    if len(options) > 1:
        raise UsageError(f"--{' and --'.join(options)}: expected one of them")
    typed_before: dict[str, str] = {}
    for word in parsed.overrides:
        key, is_set, _ = word.partition("=")
        if not is_set and not word.startswith("~"):  # probably a path
            example = f", such as {'run' if 'run' in read_command(config_name)[0] else 'data.root'}={word}"
            is_path = "/" in word or Path(word).exists()
            raise UsageError(f"{word}: expected key=value{example if is_path else '; --help lists the keys'}")
        if key in ("hydra.run.dir", "hydra.sweep.dir", "hydra.sweep.subdir"):
            raise UsageError(f"{word}: nothing is written there; expected outputs=<folder>")
        if key.startswith("+trainer.") and key.rpartition(".")[2] in ELSEWHERE:
            raise refuse_key(key.lstrip("+"), config_name)
        if (key := key.lstrip("+")) in typed_before:
            raise UsageError(f"{typed_before[key]} {word}: {key} is set twice; expected it once")
        typed_before[key] = word
    if not parsed.multirun:
        _refuse_several_values(parsed.overrides, words)
    return [*(word for word in words if word not in parsed.overrides), *parsed.overrides]


def _refuse_several_values(overrides: Sequence[str], words: Sequence[str]) -> None:
    """Raise UsageError for a value of a sweep, such as rnn=lstm,gru, because there is no -m."""
    for word in overrides:
        with suppress(HydraException):  # Hydra itself reports a value that it cannot read
            if OverridesParser.create().parse_override(word).is_sweep_override():
                value = word.partition("=")[2]
                is_decimal = re.fullmatch(r"-?\d+,0\d+", value)
                point = f"; a decimal number has a point: {value.replace(',', '.')}" if is_decimal else ""
                command = typed(Path(sys.argv[0]).stem, "-m", *words)
                raise UsageError(f"{word}: several values need -m: {command}{point}")


def _complete_file(words: Sequence[str]) -> bool:
    """Print the files of -cd if the shell asks how to complete a word after -cn. Hydra itself completes only overrides.

    Return whether something was printed.
    """
    line = os.environ.get("COMP_LINE", "")
    if words[:1] != ["-sc"] or not re.search(r"\s(-cn|--config-name)[ =]\S*$", line):
        return False
    folder = re.search(r"\s(?:-cd|--config-dir)[ =](\S+)", line)
    files = Path(folder[1]) if folder else CONF
    print(" ".join(sorted(file.stem for file in files.glob("*.yaml"))))
    return True


def _print_help(words: list[str], config_name: str, header: str | None) -> bool:
    """Print the version or the help if the user requests it. Return whether something was printed.

    If --help is combined with overrides, Hydra shows the composed config instead.
    """
    if words == ["--version"]:
        print(version())
        return True
    parsed, unknown = get_args_parser().parse_known_args(words)
    if parsed.config_dir is not None:
        use_folder(Path(parsed.config_dir))
    topics = [word for word in parsed.overrides if "=" not in word and not word.startswith("~")]
    if not parsed.help or unknown or parsed.config_name is not None or len(topics) != len(parsed.overrides):
        return False
    folders = CONF, *list_user_folders()
    page = Help(CONF / f"{config_name}.yaml", *read_command(config_name), config_name in READS, folders, header)
    print("\n\n".join(map(page.explain, topics)) or page.overview())
    return True


Task = Callable[[Any], object]
"""A function that runs a command for one config, or for all configs of a sweep."""


def entry(
    config_name: str, checked: Callable[[Any], None] = check, *, continues: bool = False, header: str | None = None
) -> Callable[[Task], Task]:
    """Turn `task(cfg)` into a command. If it is called without a config, it composes one from the command line.

    - config_name: the command's file in conf/
    - checked: function that checks a config; the default checks training configs
    - continues: whether the same command continues its work after an interruption
    - header: the first lines of --help, by default those in the command's file
    """

    def decorate(task: Task) -> Task:
        look_up_in(CONF)

        @hydra.main(version_base="1.3", config_path=str(CONF), config_name=config_name)
        @functools.wraps(task)
        def command(cfg: DictConfig) -> object:
            try:
                invocation = HydraConfig.get() if HydraConfig.initialized() else None
                if "sweep" in cfg and cfg.sweep is None:
                    cfg.sweep = sweep_name(invocation)
                if invocation is not None:
                    _refuse_sweep_file(invocation)
                checked(cfg)  # before the task imports torch, to report wrong values at once
                return task(cfg)
            except Exception as error:
                raise _CarriedError(error) from None

        @functools.wraps(task)
        def main(cfg: DictConfig | None = None) -> object:
            # Spinning OpenMP threads can be 15 times as slow on a shared machine. torch reads this variable on import.
            os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
            # Batches of different lengths leave gaps in GPU memory that other batches do not fit. Also read on import.
            if "PYTORCH_CUDA_ALLOC_CONF" not in os.environ:  # the variable's name in older versions of torch
                os.environ.setdefault("PYTORCH_ALLOC_CONF", "expandable_segments:True")
            handle_on_a_stack_of_their_own()
            if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
                signal.signal(signal.SIGINT, interrupt)
            prepare_command()
            use_loader()
            os.environ["HYDRA_FULL_ERROR"] = "1"  # errors are printed below; Hydra would print more and exit with 1
            try:
                if cfg is None:
                    if _complete_file(sys.argv[1:]) or _print_help(sys.argv[1:], config_name, header):
                        return None
                    sys.argv[1:] = arrange_words(sys.argv[1:], config_name)
                return command(cfg)
            except _CarriedError as carried:
                error = _explain(carried.error) if isinstance(carried.error, UsageError) else carried.error
            except (Exception, KeyboardInterrupt, Stopped) as raised:  # raised by Hydra or a launcher
                error = _explain(raised)
            if isinstance(error, LeaseHeldError):
                print(f"{error}: wait until the run has ended; the same command then continues", file=sys.stderr)
                sys.exit(LEASE_HELD_EXIT_CODE)
            if (exit_code := getattr(error, "exit_code", None)) is not None:
                sys.exit(exit_code)  # a run diverged or arms failed, and the reasons have been printed
            sys.exit(report_end(error, continues=continues))

        return main

    return decorate


class _CarriedError(BaseException):
    """Carries a task's exception through Hydra, which would print a traceback for any Exception."""

    def __init__(self, error: Exception) -> None:
        self.error = error


def _refuse_sweep_file(hydra: HydraConf | DictConfig) -> None:
    """Raise UsageError if a sweep file is used without -m, unless overrides set all keys that the file varies."""
    typed_keys = {word.partition("=")[0].lstrip("+") for word in hydra.overrides.task}
    varied = set(hydra.sweeper.get("params") or ()) - typed_keys
    if varied and hydra.mode == RunMode.RUN:
        command = typed(Path(sys.argv[0]).stem, "-m", *sys.argv[1:])
        raise UsageError(f"-cn {hydra.job.config_name} varies {', '.join(sorted(varied))}; expected -m: {command}")


def _explain(error: BaseException) -> BaseException:
    """Convert an error to a one-line UsageError if the command line or a user's file caused it; else return it."""
    if isinstance(error, RuntimeError) and str(error).startswith("Invalid plugin"):
        return UsageError(f"hydra.launcher, hydra.sweeper: {error}; expected one that --help lists")
    if str(error).endswith("INTERVAL_SWEEP"):
        return UsageError("interval(…) needs hydra/sweeper=optuna, which draws values from it; expected it, or values")
    if not isinstance(error, (UsageError, HydraException, OmegaConfBaseException, yaml.YAMLError, UnicodeDecodeError)):
        return error
    return stop_before(error) or UsageError(one_line(error))

"""Run a finished run's config again: unchanged, to judge whether its result is reproducible, or with new overrides."""

import itertools
import os
import re
import socket
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf, open_dict
from omegaconf.errors import OmegaConfBaseException
from omegaconf.resolvers import oc

from asr_ablations.config.build import one_line
from asr_ablations.config.compose import compose
from asr_ablations.config.plain_keys import check
from asr_ablations.reproduction.verdict import (
    ReproductionVerdict,
    compare_bits,
    find_causes,
    judge,
    measure_noise,
    weights_hash,
)
from asr_ablations.runs import layout
from asr_ablations.runs.identity import content, fill
from asr_ablations.runs.layout import CONFIG, REPRODUCTION, REQUEST, runs_in
from asr_ablations.runs.lease import Lease, LeaseHeldError, owner
from asr_ablations.runs.process import child_environment, command, load_frozen, wait_for
from asr_ablations.runs.reader import UnreadableFileError, read_status, read_sweep
from asr_ablations.runs.records import read_run
from asr_ablations.runs.status import why_unfinished
from asr_ablations.tools.signals import STOPPED_EXIT_CODES, STOPPING
from asr_verdicts.config import MACHINE_KEYS, determining, differences, ranks
from asr_verdicts.errors import UsageError
from asr_verdicts.files import Json, write, write_json
from asr_verdicts.record import Code, Record


def load_original(folder: Path) -> Record:
    """Load a finished run. Raise UsageError for any other folder, with a message that explains what it contains."""
    folder = folder.resolve()
    example = "expected a run folder, like outputs/<sweep>/<run>-<hash>"
    if not folder.is_dir():
        raise UsageError(f"{folder}: there is no such folder; {example}")
    if not layout.is_run(folder):
        if runs := runs_in(folder):
            raise UsageError(f"{folder}: this is a sweep folder; expected one of its runs, like {runs[0].name}")
        raise UsageError(f"{folder}: not a run folder (it has no {layout.STATUS}); {example}")
    if reason := why_unfinished(folder):
        raise UsageError(f"{folder}: not finished ({reason}); the command that started it continues it")
    return read_run(folder)


def announce(original: Record, repository: Path, *, trust: bool) -> None:
    """Print which code --checkout will run. Raise UsageError for an untrusted run from another user or machine."""
    commit, diff = _read_code(original.environment.code)
    # --numstat lists the changed files, with quoted names, and does not apply the changes
    listed = _git(repository, "apply", "--numstat", "-", text=diff)[0] if diff else ""
    files = ", ".join(line.split("\t", 2)[-1] for line in listed.split("\n") if line)
    print(f"--checkout runs commit {commit}" + (f", with uncommitted changes of {files}" if diff else ""), flush=True)
    folder, host = original.folder, read_status(original.folder).host
    paths = (folder, *(folder / name for name in (CONFIG, layout.ENVIRONMENT, layout.STATUS)))
    reason = "it belongs to another user" if any(path.stat().st_uid != os.getuid() for path in paths) else ""
    if host != socket.gethostname():
        reason = f"written on the machine {host!r}"
    if reason and not trust:
        raise UsageError(f"--checkout: {folder}: {reason}; --trust runs its recorded code anyway")


def _read_code(code: Code) -> tuple[str, str]:
    """Return the commit and the uncommitted changes. Raise UsageError if git could mistake the commit for an option."""
    commit, diff = code.commit or "", code.dirty_diff or ""
    if not re.fullmatch(r"[0-9a-f]{40,64}", commit):
        raise UsageError("--checkout: the run's environment.json names no commit: its code was not a git checkout")
    return commit, diff


@contextmanager
def checked_out(repository: Path, code: Code) -> Iterator[Path]:
    """Yield a temporary folder with the recorded commit and uncommitted changes.

    Raise UsageError if `repository` is not a git checkout or lacks the commit, or if the changes do not apply.
    """
    commit, diff = _read_code(code)
    with tempfile.TemporaryDirectory(prefix="reproduce-") as temporary:
        tree = Path(temporary) / commit[:8]
        if error := _git(repository, "worktree", "add", "--detach", str(tree), commit)[1]:
            raise UsageError(f"--checkout: {repository} cannot give commit {commit[:8]} ({error})")
        try:
            if diff and (error := _git(tree, "apply", "--whitespace=nowarn", "-", text=diff)[1]):
                raise UsageError(f"--checkout: the uncommitted changes do not apply to {commit[:8]} ({error})")
            yield tree
        finally:
            _git(repository, "worktree", "remove", "--force", str(tree))


def _git(folder: Path, *arguments: str, text: str = "") -> tuple[str, str]:
    """Return git's output, and the last line of its error message, or "" if git succeeds. text: standard input."""
    command = ["git", "-C", str(folder), "-c", "safe.directory=*", *arguments]
    given = text.encode(errors="surrogateescape")  # bytes, because text mode would drop a diff's carriage returns
    done = subprocess.run(command, input=given, capture_output=True, check=False)
    output, errors = (stream.decode(errors="backslashreplace") for stream in (done.stdout, done.stderr))
    return output, (errors.strip().splitlines() or ["git failed"])[-1] if done.returncode else ""


@contextmanager
def open_attempt(original: Record, reproductions: Path, *, checkout: bool) -> Iterator[Path]:
    """Yield the first unused or interrupted folder under `reproductions`, and lock it for this process.

    checkout: whether the recorded code runs. Attempts with and without --checkout are numbered separately.
    """
    parent = reproductions / original.folder.parent.name / original.folder.name
    for number in itertools.count(1):
        home = parent / f"{number}{'-checkout' if checkout else ''}"
        lease = Lease(home / REQUEST, lost=lambda reason: None)  # the run in this folder has a separate lease
        with suppress(LeaseHeldError):
            lease.take()
            try:
                request, path = format_request(original, home), home / REQUEST
                if not path.exists():
                    write(path, request)
                has_ended = (home / REPRODUCTION).exists()
                if has_ended or path.read_text(encoding="utf-8") != request or any(map(owner, runs_in(home))):
                    continue
                yield home
                return
            finally:
                lease.release()


def format_request(original: Record, home: Path) -> str:
    """Format the original's config as YAML, for a run in `home` with the original's thread count and without W&B."""
    cfg = OmegaConf.create(original.config)
    machine: Json = {
        "outputs": str(home.parent),
        "sweep": home.name,
        "logger": {"_target_": "asr_ablations.components.logger.csv.no_further_logger", "_partial_": True},
        "force": False,
        "plan": False,
        "threads": original.environment.hardware.threads,
    }
    if not original.environment.hardware.gpus and cfg.get("gpus") == "auto":
        machine["gpus"] = 0  # this machine may have GPUs although the original's machine had none
    for key in machine.keys() & cfg.keys():  # configs written by other versions may lack some keys
        cfg[key] = machine[key]
    make_absolute(cfg)
    return OmegaConf.to_yaml(cfg)


def reproduce(
    original: Record, source: Path, reproductions: Path, *, checkout: bool
) -> tuple[ReproductionVerdict, Path, Path]:
    """Run the original's config again; return the verdict, the new run's folder, and the file with the verdict.

    source: a checkout of this project. checkout: whether to run the original's recorded commit, from the repository of
    `source`, instead of the current code. Raise UsageError if the run is refused, RunFailedError if it fails, and
    KeyboardInterrupt if it is interrupted.
    """
    weights_hash(original.folder)  # refuses a damaged checkpoint before the new training
    code = checked_out(source, original.environment.code) if checkout else nullcontext(source)
    with code as tree:
        if not checkout:
            check_trusted(original, source)
        with open_attempt(original, reproductions, checkout=checkout) as home:
            print(f"reproduces {original.folder}\n        in {home}", flush=True)
            run_frozen(tree, home / REQUEST)
            folder = runs_in(home)[0]
            record = read_run(folder)
            verdict = judge(compare_bits(original, record), find_causes(original, record), measure_noise(original))
            runs = {"original": str(original.folder), "reproduction": str(folder), "checkout": checkout}
            write_json(home / REPRODUCTION, {**runs, **verdict.as_json()})
            return verdict, folder, home / REPRODUCTION


def check_trusted(original: Record, source: Path) -> None:
    """Check the original's config, which a stranger may have written. Raise UsageError for wrong or missing values."""
    path = original.folder / CONFIG
    defaults = compose(source / "conf", [], name="config", folder=None)
    if missing := [str(key) for key in defaults if key not in original.config]:
        raise UsageError(f"{path}: it lacks {', '.join(missing)}, so other code wrote it; --checkout runs that code")
    try:
        cfg = OmegaConf.create(original.config)
        fill(cfg)
        check(cfg)
    except UsageError as error:
        raise UsageError(f"{path}: {error}") from error


class RunFailedError(Exception):
    """A new run of the original's config did not finish."""


def make_absolute(cfg: DictConfig) -> None:
    """Make the paths data.root and weights absolute, because the run starts in another folder.

    If data.root is null, it becomes the current folder.
    """
    if cfg.get("weights"):
        cfg.weights = str(Path(cfg.weights).absolute())
    data = cfg.get("data")
    if isinstance(data, DictConfig) and "root" in data:
        data.root = str(Path(data.root or ".").absolute())


def run_frozen(source: Path, config: Path) -> None:
    """Run a frozen config with the code in the checkout `source`.

    Raise KeyboardInterrupt if the run is interrupted, UsageError if it is refused, and RunFailedError if it fails.
    """
    line = command(source / "src" / "train.py", config.absolute(), ranks(load_frozen(config)))
    # started in `source`, because Python would import from the user's folder if that contained a src/
    exit_code = wait_for(line, child_environment(source / "src"), source)
    if exit_code in STOPPED_EXIT_CODES or -exit_code in STOPPING:
        raise KeyboardInterrupt
    if exit_code == 2:
        raise UsageError("the run was refused (reason above); --checkout runs the recorded code")
    if exit_code:
        raise RunFailedError(f"the run did not finish this time: exit code {exit_code}")


def run_variation(
    original: Record, changes: Sequence[str], source: Path, outputs: Path | None, *, checkout: bool
) -> None:
    """Train a new run in the original's sweep, with the overrides `changes` applied to the original's config.

    source, checkout: as in `reproduce`. outputs: folder of sweeps; None for the original's. Raise UsageError if the run
    is refused, or if conf/ no longer produces the original's config.
    """
    code = checked_out(source, original.environment.code) if checkout else nullcontext(source)
    with code as tree:
        cfg = vary(original, changes, tree, source)
        cfg.outputs = str(outputs.absolute() if outputs else original.folder.parents[1])
        for key, old, new in differences(determining(original.config), content(cfg)):
            print(f"the new run differs in {key}: {new!r} instead of {old!r}", flush=True)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / CONFIG
            path.write_text(OmegaConf.to_yaml(cfg, resolve=True), encoding="utf-8")
            run_frozen(tree, path)


def vary(original: Record, changes: Sequence[str], tree: Path, source: Path) -> DictConfig:
    """Apply the overrides `changes` to the original's config, and check the result. tree: the code's checkout."""
    changed = parse_overrides(changes)
    now = content(compose_like(original, original.overrides, tree, source))
    if drift := differences(determining(original.config), now):
        listed = "; ".join(f"{key}: {old!r} then, {new!r} now" for key, old, new in drift)
        raise UsageError(
            f"conf/ no longer produces the config of {original.folder.name} ({listed}); "
            "--checkout uses the original's conf/"
        )
    cfg = compose_like(original, list({**parse_overrides(original.overrides), **changed}.values()), tree, source)
    kept = {*MACHINE_KEYS} - {"overrides", *(key.split(".")[0] for key in changed)}
    with open_dict(cfg):
        for key in kept & original.config.keys() & cfg.keys():
            cfg[key] = original.config[key]
        cfg.update(force=False, plan=False, sweep=original.folder.parent.name)
        if cfg.threads is None:
            cfg.threads = original.environment.hardware.threads
    check(cfg)
    make_absolute(cfg)
    return cfg


def parse_overrides(overrides: Sequence[str]) -> dict[str, str]:
    """Return overrides by key or group. Raise UsageError for an invalid override or one with several values."""
    for line in overrides:
        if "=" not in line and not line.startswith("~"):
            raise UsageError(f"{line}: expected KEY=VALUE after a single run folder")
    try:
        parsed = OverridesParser.create().parse_overrides(list(overrides))
    except HydraException as error:
        raise UsageError(" ".join(str(error).split())) from error
    for override in parsed:
        if override.is_sweep_override():
            raise UsageError(f"{override.input_line}: expected one value; src/train.py -m runs several")
    return {override.key_or_group: str(override.input_line) for override in parsed}


TRUSTED_VARIABLES = ("ASR_ABLATIONS_DATA", "XDG_CACHE_HOME", "HOME", "WANDB_PROJECT")
"""Environment variables that conf/ reads: folders of corpora, and the W&B project."""


@contextmanager
def restrict_environment() -> Iterator[None]:
    """Let ${oc.env:…} read only TRUSTED_VARIABLES, because a stranger's config could copy other variables."""

    def read_variable(name: str, *default: str | None) -> str | None:
        if name not in TRUSTED_VARIABLES:
            raise UsageError(f"${{oc.env:{name}}}: a recorded config may only read {', '.join(TRUSTED_VARIABLES)}")
        return oc.env(name, *default)

    OmegaConf.register_new_resolver("oc.env", read_variable, replace=True)
    try:
        yield
    finally:
        OmegaConf.register_new_resolver("oc.env", oc.env, replace=True)


def compose_like(original: Record, overrides: Sequence[str], tree: Path, source: Path) -> DictConfig:
    """Compose overrides with the original's config file and the conf/ of `tree`, and resolve the result."""
    name, folder = find_config_file(original)
    if folder is not None and folder.is_relative_to(source):
        folder = tree / folder.relative_to(source)
    cfg = compose(tree / "conf", overrides, name=name, folder=folder)
    with open_dict(cfg):
        cfg.overrides = list(overrides)
    try:
        with restrict_environment():  # a stranger may have written the record that names the config folder
            OmegaConf.resolve(cfg)
    except OmegaConfBaseException as error:
        raise UsageError(one_line(error)) from error
    return cfg


def find_config_file(original: Record) -> tuple[str, Path | None]:
    """Return the name of the config file that the original was composed from, and its folder if set with -cd."""
    if recorded := original.environment.composed:
        return str(recorded.config_name), Path(recorded.config_dir) if recorded.config_dir else None
    with suppress(FileNotFoundError, UnreadableFileError):
        manifest = read_sweep(original.folder.parent)
        folders = manifest.get("config_folders", [])[1:]
        return str(manifest.get("config_name", "config")), Path(folders[0]) if folders else None
    return "config", None

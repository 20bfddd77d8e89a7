"""Bad values of every key: of the wrong type, out of range, beyond the machine, empty, with escape sequences."""

import random
import re
import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

import asr_serving.requests as export
import asr_serving.requests as transcribe
from asr_ablations.config.build import one_line
from asr_ablations.config.plain_keys import check
from asr_ablations.evaluation.request import check_requests
from asr_verdicts.errors import UsageError
from asr_verdicts.terminal import harmless
from tests.campaign.commands import Result
from tests.campaign.input_places import InputPlaces
from tests.campaign.input_table import FINE, Case, judge
from tests.campaign.part import Context, Report
from tests.campaign.typed import run_case, said, try_cases
from tests.helpers.command import SHORT_SPEECH
from tests.helpers.every_key import Knob, every_knob, keys_of
from tests.helpers.support import CONF, composed_by_hydra

BAD = {
    "text": "x", "negative": "-1", "zero": "0", "fraction": "0.7", "huge": "99999999999999999999", "nan": "nan",
    "empty": "''", "null": "null", "list": "[]", "mapping": "{a: 1}", "true": "true", "escapes": "'\x1b[31mx\r'",
}  # fmt: skip
"""By name, as typed."""
ADMITTED = Path(__file__).parents[1] / "admitted.txt"
"""Which of them are no bad ones of which keys: a row is `command key | names of values | what they are there`."""
OTHERS = {
    "evaluate": ("evaluation.yaml", "run=<trained>"),
    "transcribe": ("transcribe.yaml", "run=<trained> audio=<noise>"),
    "export": ("export.yaml", "run=<one>"),
    "lm": ("lm/ngram.yaml", "lm.program=null"),
}
"""Commands with keys of their own: the file that has them, and what is typed before one of them."""
ALIKE = re.compile(r"\.\d+|(?<=\.sha256)\..*|(?<=\.named)\..*|(?<=\.md5)\..*|steps\.\d+\.")
"""What keys of the same kind differ in: places in lists, names in tables."""
FIXED = {"_target_", "_partial_", "defaults", "hydra", "overrides"}
"""Keys that nobody types: Hydra's, and what targets.py holds."""


@dataclass(frozen=True)
class Turned(Case):
    """A key with a bad value. option: beside which it is one; overrides: all words, without their quotes; bad: its name
    in BAD.
    """

    option: str = ""
    overrides: tuple[str, ...] = ()
    bad: str = ""

    @property
    def is_admitted(self) -> bool:
        return self.codes == (0,)

    @property
    def kind(self) -> str:
        return self.option.partition("=")[0] or f"{self.command}, plain keys"

    @property
    def key(self) -> str:
        return self.overrides[-1].partition("=")[0]

    def is_named_in(self, line: str) -> bool:
        """Whether a refusal has the first and the last part of the key: what lies between may be left out."""
        parts = [part for part in self.key.split(".") if not part.isdecimal()]
        return all(re.search(rf"(?<![\w-]){re.escape(part)}(?![\w-])", line) for part in (parts[0], parts[-1]))


def value_cases(ready: Path) -> list[Turned]:
    """ready: the folder of what placeholders name."""
    admitted = read_admitted()
    keys = (*_keys_of_training(ready), *_keys_of_others())
    if stale := admitted.keys() - {(command, key) for command, _, _, key in keys}:
        raise ValueError(f"{ADMITTED.name}: no such keys: {sorted(stale)}")
    return [
        _case(command, option, before, key, name, name in admitted.get((command, key), ()))
        for command, option, before, key in keys
        for name in BAD
    ]


def read_admitted(file: Path = ADMITTED) -> dict[tuple[str, str], frozenset[str]]:
    """By command and key. Raises ValueError, which names the line, for one that is no row."""
    rows: dict[tuple[str, str], frozenset[str]] = {}
    for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), start=1):
        if not line.strip() or line.startswith("#"):
            continue
        cells = [cell.split() for cell in line.split("|")]
        if len(cells) != 3 or len(cells[0]) != 2 or not cells[2] or not BAD.keys() >= {*cells[1]}:
            raise ValueError(f"{file.name}:{number}: expected command key | names of values | what they are: {line!r}")
        command, key = cells[0]
        rows[command, key] = frozenset(cells[1])
    return rows


def _case(command: str, option: str, before: list[str], key: str, name: str, is_admitted: bool) -> Turned:
    overrides, codes = (*before, f"{key}={BAD[name]}"), (0,) if is_admitted else (2,)
    return Turned(command, 0, shlex.join(overrides), codes, (), "", option, overrides, name)


def _keys_of_training(ready: Path) -> Iterator[tuple[str, str, list[str], str]]:
    """Command, option, what is typed before, and key; of keys that several options share, and of those in lists and
    tables of the same kind, the first.
    """
    seen: set[tuple[str, str]] = set()
    for knob in every_knob():
        kind = knob.root, ALIKE.sub("", knob.key)
        if knob.key and kind not in seen and knob.key not in FIXED and not _is_set_by_others(knob):
            seen.add(kind)
            yield "train", knob.option, _before(knob, ready), knob.key


def _is_set_by_others(knob: Knob) -> bool:
    """Whether a group's file sets a plain key, which is tried as such, or the key follows a plain one."""
    return bool(knob.option) and (knob.root in PLAIN or knob.name in PLAIN)


def _before(knob: Knob, ready: Path) -> list[str]:
    words = knob.words(ready)
    if knob.option == "data=synthetic":
        words = [words[0], *SHORT_SPEECH, *words[1:]]
    if knob.option == "until=verdict":
        words = ["-m", *words, "rnn=lstm,gru", "until.margin=2.0", "plan=true"]
    return [word for word in words if word.partition("=")[0] != knob.key]


def _keys_of_others() -> Iterator[tuple[str, str, list[str], str]]:
    for command, (file, before) in OTHERS.items():
        prefix = file.partition("/")[0] + "." if "/" in file else ""
        for key in keys_of(OmegaConf.load(CONF / file)):
            if key.partition(".")[0] not in FIXED:
                yield command, "", before.split(), prefix + key


PLAIN = frozenset(knob.root for knob in every_knob() if knob.key and not knob.option)


NAME = "values"
DESCRIPTION = "twelve bad values of every key: refused in one line with its name, or one that the key admits, and used"
CONTINUES = True


def run(context: Context) -> Report:
    """In a random order. What composing and checking a config refuses has said what the command says."""
    cases = value_cases(context.folder / "places" / "ready")
    random.Random(context.seed).shuffle(cases)
    return try_cases(context, cases, "group", tried)


def tried(case: Case, places: InputPlaces, _: bool) -> tuple[str, str]:
    assert isinstance(case, Turned)
    if (line := refused(case, places)) is None:
        return judged(case, *run_case(case, places, False, lambda folders: unlike(case, folders)))
    result = Result(2, "", harmless(f"error: {line}"))
    return judged(case, judge(case, result, (), False), said(result))


def judged(case: Turned, outcome: str, words: str) -> tuple[str, str]:
    """With what ends with exit code 1 by design: a training that diverges from a value that is admitted, and a
    recording that is not there; and with refusals that do not name the key.
    """
    by_design = "diverged at step" if case.is_admitted else "files could not be transcribed"
    if outcome == "wrong exit code" and by_design in words:
        return FINE, words
    if outcome == FINE and not case.is_admitted and not case.is_named_in(words):
        return "wrong message", words
    return outcome, words


def refused(case: Turned, places: InputPlaces) -> str | None:
    """The error of composing and checking the config; None where a command has to be started."""
    with places.scratch() as scratch:
        name, checked = CHECKS[case.command]
        try:
            checked(composed(places.words(case, scratch).arguments, name))
        except (UsageError, HydraException, OmegaConfBaseException) as error:
            return one_line(error)
    return None


CHECKS: dict[str, tuple[str, Callable[[DictConfig], None]]] = {
    "train": ("config", check),
    "evaluate": ("evaluation", check_requests),
    "transcribe": ("transcribe", transcribe.check_transcription),
    "export": ("export", export.check_export),
    "lm": ("language_model", check),
}
"""The file of conf/ that a command begins with, and what checks its config."""


def composed(words: Sequence[str], name: str = "config") -> DictConfig:
    """The config of a command, of a sweep the first arm's."""
    cfg = composed_by_hydra(tuple(word for word in words if word != "-m" and not word.startswith("rnn=lstm,")), name)
    if cfg.get("sweep", "") is None:
        cfg.sweep = "single"
    return cfg


def unlike(case: Turned, folders: Sequence[Path]) -> str | None:
    """What the records of runs below these folders have in place of the value that was typed; None where each has it,
    or nothing was recorded.
    """
    if case.command != "train" or not (files := [file for folder in folders for file in folder.rglob("config.yaml")]):
        return None
    typed = OmegaConf.select(composed(case.overrides), case.key)
    kept = [OmegaConf.select(OmegaConf.load(file), case.key) for file in files]
    return next((f"the run has {case.key}={value}" for value in kept if repr(value) != repr(typed)), None)

"""Write commands and cost into the head of every file in sweeps/, from what the file composes to.

make docs

The rest of a head is written by hand: question, arms, what was published, what is held fixed.
"""

import itertools
import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from textwrap import wrap

from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf import DictConfig, OmegaConf

from asr_ablations.config.compose import compose
from asr_ablations.tools.files import CONF, REPOSITORY
from asr_verdicts.files import write
from asr_verdicts.listed_arms import read_arms

SWEEPS = REPOSITORY / "sweeps"
WIDTH = 120
COST = "# Cost by make docs: "
COMMANDS = ("#   python src/train.py -m -cd", "#   python src/evaluate.py -m -cd", "#   python src/compare.py")
TO_GIVE = {"run": "<folder of runs>"} | dict.fromkeys(
    ("data.root", "decoder.words", "models.words", "models.letters"), "<folder>"
)
"""Keys that a command must give where a sweep file leaves them open, and what stands for their value."""

DEFAULT_RUN = (134, 754)
"""Seconds of `make train` on two cores of an Intel Xeon: with nothing else on the machine, and with four times as much
other work as cores (docs/results.md).
"""

DEFAULT_SPEECH = 2 * 6
"""Hours of speech that it trained on."""

REAL = {"AN4": (0.63, 544), "SpeechOcean762": (1.68, 2000)}
"""Hours of speech of an epoch, and seconds of a run on one core, by the class of the corpus: docs/results.md."""

LIBRISPEECH = {"clean100": 100, "clean460": 460, "full960": 960}
"""Hours of speech in LibriSpeech's training sets, as their names have it (Panayotov et al. 2015)."""

EPOCH = (75, 119)
"""Minutes that an epoch of 960 hours takes in 16 bits: Ambroszczyk2019 §2.1, and table 2.2 on one GPU."""

IN_32_BITS = 135 / 75
"""How much longer an epoch takes in 32 bits: Ambroszczyk2019 §2.1."""

PAPER = (
    "an epoch of 960 hours takes 75 minutes in 16 bits in Ambroszczyk2019 §2.1, which does not say on how many GPUs, "
    "and 119, if minutes, on one in table 2.2"
)
DECODING = "no training: each arm searches the sets of every run once, and log-probabilities are computed once per run"
ELSEWHERE = "data=librispeech data.train=full960 model=ds2"


@dataclass(frozen=True)
class Training:
    """The training of one run. speech: hours in each epoch; processes: number of ranks that share a step."""

    data: str
    speech: float
    epochs: int
    processes: int
    precision: str


def main() -> int:
    for file in sorted(SWEEPS.glob("*.yaml")):
        text = file.read_text(encoding="utf-8")
        write(file, with_head(text, file.stem, compose(CONF, [], name=file.stem, folder=SWEEPS, with_hydra=True)))
    print(f"wrote the heads of {SWEEPS.relative_to(REPOSITORY)}/*.yaml")
    return 0


def with_head(text: str, name: str, cfg: DictConfig) -> str:
    """The text of a sweep file with the commands and the cost that belong to it. cfg: composed, with Hydra's part."""
    lines = text.splitlines()
    head = [*itertools.takewhile(lambda line: line.startswith("#"), lines)]
    own = [*itertools.takewhile(lambda line: not line.startswith(COST.rstrip()), head)]
    own = [line for line in own if not line.startswith(COMMANDS)]
    paragraph = wrap(COST + cost(cfg), WIDTH, subsequent_indent="# ", break_on_hyphens=False)
    return "\n".join([own[0], *commands(cfg, name), *own[1:], *paragraph, *lines[len(head) :], ""])


def commands(cfg: DictConfig, name: str) -> list[str]:
    """Return the commands that run the sweep and answer its question."""
    decodes = "max_epochs" not in cfg
    factor = cfg.ablation.get("factor") or []
    factors = [factor] if isinstance(factor, str) else list(factor)
    missing = [key for key in TO_GIVE if _is_open(cfg, key)]
    given = [f"{key}={','.join([TO_GIVE[key]] * (2 if key in factors else 1))}" for key in missing]
    script, folder = ("evaluate", "<a run's folder>/evaluations") if decodes else ("train", f"outputs/{name}")
    return [
        " ".join([f"#   python src/{script}.py -m -cd sweeps -cn {name}", *given]),
        f"#   python src/compare.py {folder}",
    ]


def _is_open(cfg: DictConfig, key: str) -> bool:
    """True if a config has the key with the value null."""
    return OmegaConf.select(cfg, key, default="") is None


def cost(cfg: DictConfig) -> str:
    """Runs, epochs and speech of a sweep, and the hours that they take at the speeds known."""
    arms, seeds, searched = arms_of(cfg)
    if "max_epochs" not in cfg:
        trials = OmegaConf.select(cfg, "models.trials")
        tuned = f"; of an arm that is tuned, {trials} times more a validation set of each" if trials else ""
        return f"{_count(len(arms), 'arm')}, {DECODING}{tuned}."
    trainings = [training(cfg, arm) for arm in arms]
    runs = searched or len(arms) * seeds
    listed = (
        f"at most {runs} runs" if searched else f"{runs} runs ({_count(len(arms), 'arm')}, {_count(seeds, 'seed')})"
    )
    epochs = sorted({one.epochs for one in trainings})
    times = runs / len(trainings)
    speech = times * sum(one.speech * one.epochs for one in trainings)
    what = f"{listed} of {_range(epochs)} epochs, {speech:,.0f} hours of speech in all."
    return " ".join([what, *_estimates(cfg, trainings, times), "plan=true measures it."])


def _estimates(cfg: DictConfig, trainings: Sequence[Training], times: float) -> Iterator[str]:
    """Hours on the machines whose speed is known. times: runs of each training."""
    shared = ", if processes that share a step lose no time," if any(one.processes > 1 for one in trainings) else ""
    if all(one.data == "Synthetic" for one in trainings):
        speech = times * sum(one.speech * one.epochs for one in trainings)
        hours = [seconds * speech / DEFAULT_SPEECH / 3600 for seconds in DEFAULT_RUN]
        clocks = " to ".join(f"{seconds // 60}:{seconds % 60:02d}" for seconds in DEFAULT_RUN)
        yield (
            f"That much of the default run{shared} takes {_hours(hours)} on two cores of an Intel Xeon, at {clocks} "
            "minutes for each."
        )
    if trainings[0].data in REAL:
        _, seconds = REAL[trainings[0].data]
        of_a_core = _hours([times * len(trainings) * seconds / 3600])
        yield f"At {seconds // 60}:{seconds % 60:02d} minutes for each, {of_a_core} of one core."
        return
    precisions = {one.precision for one in trainings}
    words = [] if len(precisions) > 1 else ["precision=16"]
    slower = sum(IN_32_BITS if one.precision == "32" and len(precisions) > 1 else 1.0 for one in trainings)
    if any(str(key).startswith("data.") for key in cfg.hydra.sweeper.params):
        if all(one.data == "LibriSpeech" for one in trainings):
            share = sum(one.speech * one.epochs for one in trainings) / LIBRISPEECH["full960"]
            yield f"With {' '.join(words)}{shared} {_hours(_v100(share * times))} of a V100: {PAPER}."
    elif "n_trials" not in cfg.hydra.sweeper:
        epochs = sum(one.epochs for one in trainings) / len(trainings)
        bits = ", and 135 in 32 bits" if len(precisions) > 1 else ""
        where = " ".join([ELSEWHERE, *words])
        yield f"With {where}{shared} {_hours(_v100(slower * epochs * times))} of a V100: {PAPER}{bits}."


def _v100(epochs: float) -> list[float]:
    return [epochs * minutes / 60 for minutes in EPOCH]


def arms_of(cfg: DictConfig) -> tuple[list[dict[str, str]], int, int]:
    """The values of each arm by their keys, seeds of each, and runs of a search: 0 for what is none."""
    params = dict(cfg.hydra.sweeper.params)
    if "n_trials" in cfg.hydra.sweeper:
        return [{}], 1, int(cfg.hydra.sweeper.n_trials)
    parser = OverridesParser.create()
    read = {key: parser.parse_override(f"{key}={values}") for key, values in params.items()}
    values = {
        key: [*one.sweep_string_iterator()] if one.is_sweep_override() else [str(one.get_value_element_as_str())]
        for key, one in read.items()
    }
    seeds = len(values.pop("seed", [""]))
    combinations = [dict(zip(values, arm, strict=True)) for arm in itertools.product(*values.values())]
    listed = [{key: str(value) for key, value in arm.changes.items()} for arm in read_arms(cfg.get("arms"))] or [{}]
    return [combination | changes for combination in combinations for changes in listed], seeds, 0


def training(cfg: DictConfig, arm: Mapping[str, str]) -> Training:
    """Return the training of one arm from the keys that it sets. A sweep over the group `data` would need more."""
    assert "data" not in arm
    data = cfg.data._target_.rpartition(".")[2]

    def value(key: str) -> str:
        return arm.get(key, str(OmegaConf.select(cfg, key)))

    if data in REAL:
        speech, _ = REAL[data]
    else:
        speech = float(value("data.hours") if data == "Synthetic" else LIBRISPEECH[value("data.train")])
    processes = value("ranks")
    return Training(
        data,
        speech,
        epochs=int(value("max_epochs")),
        processes=1 if processes in ("None", "null") else int(processes),
        precision=value("precision"),
    )


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _range(numbers: Sequence[float]) -> str:
    return " to ".join(f"{number:g}" for number in sorted({min(numbers), max(numbers)}))


def _hours(hours: Sequence[float]) -> str:
    """Two digits where there are no three before the point: more is not known."""
    return f"{_range([round(number, max(0, 1 - math.floor(math.log10(number)))) for number in hours])} hours"


if __name__ == "__main__":
    sys.exit(main())

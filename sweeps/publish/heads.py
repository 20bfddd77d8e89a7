"""Write commands and cost into the head of every file in sweeps/: make docs

The rest of a head is written by hand: the question, the arms, published results, and fixed settings.
"""

import itertools
import sys
from operator import mul
from textwrap import wrap

from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf import DictConfig, OmegaConf

from asr_ablations.config.compose import compose
from asr_ablations.runs.listed_arms import read_arms
from asr_ablations.tools.files import CONF, REPOSITORY
from asr_verdicts.files import write

SWEEPS = REPOSITORY / "sweeps"
WIDTH = 120
COST = "# Cost computed by make docs: "
COMMANDS = ("#   python src/train.py -m -cd", "#   python src/evaluate.py -m -cd", "#   python src/compare.py")
# keys that a command must give if a sweep file leaves them null, with placeholders for their values
FOLDERS = {
    "run": "<folder of runs>", "data.root": "<folder>", "decoder.words": "<folder>", "models.words": "<folder>",
    "models.letters": "<folder>",
}  # fmt: skip


def main() -> int:
    for file in sorted(SWEEPS.glob("*.yaml")):
        cfg = compose(CONF, [], name=file.stem, folder=SWEEPS, with_hydra=True)
        write(file, replace_head(file.read_text(encoding="utf-8"), file.stem, cfg))
    print(f"wrote the heads of {SWEEPS.relative_to(REPOSITORY)}/*.yaml")
    return 0


def replace_head(text: str, name: str, cfg: DictConfig) -> str:
    """Return the text of a sweep file with its commands and its cost. cfg: composed, with Hydra's part."""
    lines = text.splitlines()
    head = list(itertools.takewhile(lambda line: line.startswith("#"), lines))
    by_hand = itertools.takewhile(lambda line: not line.startswith(COST.rstrip()), head)
    question, *rest = (line for line in by_hand if not line.startswith(COMMANDS))
    cost = wrap(COST + describe_cost(cfg), WIDTH, subsequent_indent="# ", break_on_hyphens=False)
    return "\n".join([question, *format_commands(cfg, name), *rest, *cost, *lines[len(head) :], ""])


def format_commands(cfg: DictConfig, name: str) -> list[str]:
    """Return the commands that run the sweep and answer its question."""
    values = [f"{key}={value}" for key, value in FOLDERS.items() if OmegaConf.select(cfg, key, default="") is None]
    script, folder = "train", f"outputs/{name}"
    if "max_epochs" not in cfg:
        script, folder = "evaluate", "<a run's folder>/evaluations"
    return [
        " ".join([f"#   python src/{script}.py -m -cd sweeps -cn {name}", *values]),
        f"#   python src/compare.py {folder}",
    ]


def describe_cost(cfg: DictConfig) -> str:
    """Return the runs and epochs of a sweep, and the hours of speech from the built-in corpus."""
    arms, seeds = list_arms(cfg)
    counts = f"{len(arms)} arm{'s' * (len(arms) > 1)}"
    if "max_epochs" not in cfg:
        return f"{counts}, no training: each searches the sets of every run once."
    trials = cfg.hydra.sweeper.get("n_trials")
    counts = f"{len(arms) * seeds} runs ({counts}, {seeds} seed{'s' * (seeds > 1)})"
    epochs = [int(arm.get("max_epochs", cfg.max_epochs)) for arm in arms]
    span = " to ".join(map(str, sorted({min(epochs), max(epochs)})))
    cost = f"{f'at most {trials} runs' if trials else counts} of {span} epochs"
    if "hours" in cfg.data:
        hours = [float(arm.get("data.hours", cfg.data.hours)) for arm in arms]
        cost += f", {(trials or seeds) * sum(map(mul, epochs, hours)):,.0f} hours of speech"
    return f"{cost}. plan=true measures the time."


def list_arms(cfg: DictConfig) -> tuple[list[dict[str, str]], int]:
    """Return the values of each arm by key, and the number of seeds. A search has one arm without values."""
    parser, values = OverridesParser.create(), {}
    for key, text in cfg.hydra.sweeper.params.items() if "n_trials" not in cfg.hydra.sweeper else ():
        override = parser.parse_override(f"{key}={text}")
        values[key] = list(override.sweep_string_iterator()) if override.is_sweep_override() else [str(text)]
    seeds = len(values.pop("seed", [""]))
    combinations = [dict(zip(values, arm, strict=True)) for arm in itertools.product(*values.values())]
    changes = [{key: str(value) for key, value in arm.changes.items()} for arm in read_arms(cfg.get("arms"))] or [{}]
    return [combination | change for combination in combinations for change in changes], seeds


if __name__ == "__main__":
    sys.exit(main())

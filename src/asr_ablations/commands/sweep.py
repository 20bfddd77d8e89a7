"""Hand a sweep file to something else than this machine's launcher.

python src/sweep.py wandb sweeps/rnn_type.yaml                          a W&B sweep: agents on many machines take arms
python src/sweep.py wandb sweeps/hyperparameters.yaml --method bayes    let W&B search

Every agent runs in its own checkout of the same commit. If they share outputs/ (an override in the file's command, as
outputs=<folder>), no arm is trained twice: what is done is skipped, and what another agent is at is left to it.
"""

import argparse
import sys
from pathlib import Path

from asr_ablations.tools.errors import UsageError
from asr_ablations.tools.paths import REPOSITORY

METHODS = ("grid", "random", "bayes")


def main(arguments: list[str] | None = None) -> int:
    """Exit code 2 for a mistake of the user's."""
    asked = parser().parse_intermixed_args(arguments)
    try:
        return write_wandb(asked)
    except UsageError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("kind", choices=["wandb"], help="write the definition of a W&B sweep")
    made.add_argument("file", type=Path, metavar="FILE", help="a sweep file, as sweeps/rnn_type.yaml")
    made.add_argument("overrides", nargs="*", metavar="KEY=VALUE", help="for every arm, as for src/train.py")
    made.add_argument("--method", choices=METHODS, help="by default grid, or random where a value is an interval")
    made.add_argument("--output", type=Path, help="where to write it (by default outputs/<name>.wandb.yaml)")
    made.add_argument("--project", help="of W&B (by default the logger's)")
    return made


def write_wandb(asked: argparse.Namespace) -> int:
    import yaml

    from asr_ablations.sweep.wandb import arms, definition
    from asr_ablations.tools.files import write

    made = definition(asked.file, REPOSITORY, asked.overrides, method=asked.method, project=asked.project)
    target = asked.output or Path("outputs") / f"{asked.file.stem}.wandb.yaml"
    target.parent.mkdir(parents=True, exist_ok=True)
    write(target, yaml.safe_dump(made, sort_keys=False, allow_unicode=True))
    number = arms(made["parameters"]) if made["method"] == "grid" else None
    print(f"wrote {target}: {made['method']}{f' of {number} arms' if number else ', until you stop it'}")
    print("next, once:\n  wandb sweep", target)
    print("and with what that prints, in a checkout on every machine:")
    print(f"  wandb agent <entity>/{made['project']}/<sweep>{'' if number else ' --count <runs>'}")
    return 0

"""Hand a sweep file to something other than this machine's launcher.

python src/sweep.py wandb sweeps/rnn_type.yaml                          a W&B sweep: agents on many machines take arms
python src/sweep.py wandb sweeps/hyperparameters.yaml --method bayes    let W&B search

Every agent runs in its own checkout of the same commit. If they share outputs/ (an override in the file's command, as
outputs=<folder>), no arm is trained twice: what is done is skipped, and an arm that another agent trains is left to it.
"""

import argparse
from pathlib import Path

from asr_ablations.commands.console import exit_code
from asr_ablations.tools.files import REPOSITORY

METHODS = ("grid", "random", "bayes")


def main(arguments: list[str] | None = None) -> int:
    """The exit code: 2 for a mistake of the user's."""
    options = parser().parse_intermixed_args(arguments)
    return exit_code(lambda: write_wandb(options))


def parser() -> argparse.ArgumentParser:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("kind", choices=["wandb"], help="write the definition of a W&B sweep")
    arguments.add_argument("file", type=Path, metavar="FILE", help="a sweep file, as sweeps/rnn_type.yaml")
    arguments.add_argument(
        "overrides",
        nargs="*",
        default=[],  # without it argparse calls them required
        metavar="KEY=VALUE",
        help="for every arm, as for src/train.py",
    )
    arguments.add_argument("--method", choices=METHODS, help="by default grid, or random where a value is an interval")
    arguments.add_argument("--output", type=Path, help="where to write it (by default outputs/<name>.wandb.yaml)")
    arguments.add_argument("--project", help="of W&B (by default the logger's)")
    return arguments


def write_wandb(options: argparse.Namespace) -> int:
    import yaml

    from asr_ablations.sweep.wandb_sweep import count_arms, definition
    from asr_verdicts.files import write

    sweep = definition(options.file, REPOSITORY, options.overrides, method=options.method, project=options.project)
    target = options.output or Path("outputs") / f"{options.file.stem}.wandb.yaml"
    target.parent.mkdir(parents=True, exist_ok=True)
    write(target, yaml.safe_dump(sweep, sort_keys=False, allow_unicode=True))
    number = count_arms(sweep["parameters"]) if sweep["method"] == "grid" else None
    print(f"wrote {target}: {sweep['method']}{f' of {number} arms' if number else ', until you stop it'}")
    print("next, once:\n  wandb sweep", target)
    print("and with what that prints, in a checkout on every machine:")
    print(f"  wandb agent <entity>/{sweep['project']}/<sweep>{'' if number else ' --count <runs>'}")
    return 0

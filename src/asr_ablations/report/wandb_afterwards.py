"""What was done with a finished run, beside it at Weights & Biases: an evaluation, or a reproduction."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from asr_ablations.components.logger.wandb import tags
from asr_ablations.components.logger.wandb_mode import LOGGER
from asr_ablations.components.logger.wandb_parts import sync_command
from asr_ablations.components.logger.wandb_run import begin, end
from asr_ablations.config.plain import plain_config
from asr_ablations.runs.reader import read_config, read_environment
from asr_ablations.tools.errors import UsageError
from asr_ablations.tools.files import Json

if TYPE_CHECKING:
    import wandb

RATES = ("wer", "cer", "cer_longer")


def log_afterwards(
    run: Path, job_type: Literal["evaluation", "reproduction"], name: str, results: Mapping[str, object], more: Json
) -> str | None:
    """Log results as a W&B run of their own, in the group of the run that they belong to, where that was logged to W&B.
    W&B's own trouble is printed: the results are written already.

    run: its folder; more: what the config has beside that of the run. Returns the command that sends it later, where it
    is offline.
    """
    config = read_config(run)
    logger = wandb_of(config.get("logger"))
    if logger is None:
        return None
    options: Json = {
        "project": logger.get("project"),
        "entity": logger.get("entity"),
        "group": str(config.get("sweep")),
        "job_type": job_type,
        "name": name,
        "tags": tags(config),
        "config": {**plain_config(config), "identity": read_environment(run).get("id"), **more},
        "dir": str(run),
    }
    try:
        online = begin(**options)
        if not _log(online, results):
            _log(begin(**options, id=online.id, offline=True), results)
    except UsageError as error:
        print(f"not logged: {error}", file=sys.stderr)
        return None
    return sync_command([run])


def _log(experiment: "wandb.Run", results: Mapping[str, object]) -> bool:
    """Log and end; whether W&B has received it, or offline, has it in a file."""
    experiment.summary.update(dict(results))
    return end(experiment)


def wandb_of(node: object) -> Json | None:
    """The W&B logger among those of a config; None where there is none."""
    if isinstance(node, dict):
        if node.get("_target_") == LOGGER:
            return node
        return next((logger for inner in node.values() if (logger := wandb_of(inner)) is not None), None)
    return None


def final_rates(sets: Mapping[str, Json]) -> dict[str, float]:
    """Rates by set, under the names that a training logs them by."""
    return {f"final/{name}/{rate}": of_set[rate] for name, of_set in sets.items() for rate in RATES if rate in of_set}

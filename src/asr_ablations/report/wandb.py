"""Comparisons, evaluations and reproductions at Weights & Biases, as runs in the group of the training."""

import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from asr_ablations.components.logger.plain_config import plain_config
from asr_ablations.report.training_report import sections
from asr_ablations.runs.reader import read_config, read_environment
from asr_ablations.runs.wandb_run import LOGGER, begin, end, in_percent, list_tags, sync_command
from asr_ablations.tools.errors import refusals
from asr_verdicts.comparison import Comparison
from asr_verdicts.errors import UsageError
from asr_verdicts.files import Json, slug
from asr_verdicts.record import Rates

if TYPE_CHECKING:
    import wandb

RATES = ("wer", "cer", "cer_longer")


def log_comparison(comparison: Comparison, project: str, folder: Path) -> str:
    """Log a run with job type `comparison` in the sweep's group. Returns lines about the result.

    The run has the report's tables and the page in `folder`, if it exists. For a planned sweep, its summary also has
    the latest look and the state of each question. If W&B's server fails before receiving everything, the whole run is
    stored in a file to be sent later. Raises UsageError for a value that W&B refuses.
    """
    name = f"comparison-{comparison.title}"
    options: Json = {"project": project, "group": comparison.title, "job_type": "comparison", "name": name}
    options["dir"] = str(folder)
    run, received = _send(options, lambda run: _log(run, comparison, folder))
    lines = [f"W&B: {run.url}"] if run.url else []
    if not received:
        lines = ["W&B has not received everything: its server does not answer"]
    if later := sync_command([folder]):
        lines.append(f"W&B later: {later}")
    return "\n".join(lines)


def _send(options: Json, log: Callable[["wandb.Run"], bool]) -> tuple["wandb.Run", bool]:
    """Log in a W&B run with these options, and again in a file if its server has not received everything. `log` returns
    whether the server took it. Return the first run, and whether the server has received it.
    """
    run = begin(**options)
    received = log(run)
    if not (end(run) and received):
        offline = begin(**options, id=run.id, offline=True)
        log(offline)
        end(offline)
        return run, False
    return run, True


def _log(run: "wandb.Run", comparison: Comparison, folder: Path) -> bool:
    """Log a comparison. Return whether W&B received it: tables are artifacts, which its server confirms."""
    import wandb

    try:
        for section in sections(comparison):
            name = slug(re.split(", | to | of the ", section.heading.lower())[0])
            rows, head = (
                (section.rows, section.head) if section.rows else ([[line] for line in section.lines], ["line"])
            )
            run.log({f"comparison/{name}": wandb.Table(columns=[*head], data=rows)})
        if (page := folder / "index.html").exists():
            run.log({"comparison/page": wandb.Html(page.read_text(encoding="utf-8"), inject=False)})
    except refusals():
        return False
    if comparison.course.looks:
        run.summary["until/look"] = len(comparison.course.looks)
        run.summary.update({f"until/state/{question.arm}": question.outcome for question in comparison.course.verdicts})
    return True


def log_afterwards(
    run: Path,
    job_type: Literal["evaluation", "reproduction"],
    name: str,
    results: Mapping[str, object],
    more: Json,
    decoder: Json | None = None,
) -> str | None:
    """Log results as a separate W&B run in the group of their run, if that was logged. W&B's errors are only printed,
    because the results are already written.

    run: its folder; more: additional config keys; decoder: replaces the run's decoder in the config. Returns the
    command that sends the results later, if W&B is offline.
    """
    config = read_config(run)
    logger = find_logger(config.get("logger"))
    if logger is None:
        return None
    config |= {} if decoder is None else {"decoder": decoder}
    options: Json = {
        **{key: logger.get(key) for key in ("project", "entity")},
        "group": str(config.get("sweep")),
        "job_type": job_type,
        "name": name,
        "tags": list_tags(run, config.get("overrides") or []),
        "config": {**plain_config(config), "identity": read_environment(run).id, **more},
        "dir": str(run),
    }

    def log(experiment: "wandb.Run") -> bool:
        experiment.summary.update(in_percent(results))
        return True

    try:
        _send(options, log)
    except UsageError as error:
        print(f"not logged: {error}", file=sys.stderr)
        return None
    return sync_command([run])


def find_logger(node: object) -> Json | None:
    """Return the W&B logger in a config, or None."""
    if not isinstance(node, dict):
        return None
    if node.get("_target_") == LOGGER:
        return node
    return next((logger for inner in node.values() if (logger := find_logger(inner)) is not None), None)


def final_rates(sets: Mapping[str, Rates]) -> dict[str, float]:
    """Return rates by set, under the names used in training."""
    return {
        f"final/{name}/{rate}": value
        for name, result in sets.items()
        for rate in RATES
        if (value := getattr(result, rate)) is not None
    }

"""Log comparisons, evaluations and reproductions to Weights & Biases, in the same group as the trained runs."""

import hashlib
import re
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from asr_ablations.components.logger.plain_config import plain_config
from asr_ablations.report.curves import metric_names
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


def log_comparison(comparison: Comparison, project: str, folder: Path) -> str:
    """Log a comparison as a W&B run with job type `comparison`, and return messages to print.

    The W&B run contains the tables of the report, and the page if `folder` has one. For a sweep with planned looks, its
    summary also contains the number of looks so far and the state of each question. A view of the sweep is saved, too
    (see save_view), unless hypotheses are compared, which are no runs at W&B. If W&B's server fails, all data are
    stored in a file, to be sent later, but no view. Raise UsageError for a value that W&B rejects.
    """
    name = f"comparison-{comparison.title}"
    options: Json = {"project": project, "group": comparison.title, "job_type": "comparison", "name": name}
    options["dir"] = str(folder)
    run, received = _send(options, lambda run: _log(run, comparison, folder))
    lines = [f"W&B: {run.url}"] if run.url else []
    if not received:
        lines = ["W&B has not received everything: its server does not answer"]
    elif run.url and not comparison.scored and (view := save_view(comparison, run.entity, run.project)):
        lines.append(f"W&B view: {view}")
    if later := sync_command([folder]):
        lines.append(f"W&B later: {later}")
    return "\n".join(lines)


def save_view(comparison: Comparison, entity: str, project: str) -> str | None:
    """Save a W&B view of the sweep, which replaces an earlier one. Return its address, or None if W&B's server fails.

    Bars show each arm's mean result with the range of its seeds. Lines show validation. The table lists the sweep's
    runs, the keys that differ between them, and their results.
    """
    import wandb
    from wandb_workspaces import expr
    from wandb_workspaces.reports.v2 import BarPlot, Config, LinePlot
    from wandb_workspaces.workspaces import RunsetSettings, Section, Workspace
    from wandb_workspaces.workspaces.internal import View

    by_arm: Json = {"groupby": Config("arm"), "groupby_aggfunc": "mean", "groupby_rangefunc": "minmax"}
    rates = {name: f"final/{name}/{comparison.metric}" for name in comparison.sets}
    bars = [
        BarPlot(title=f"{comparison.design.metric.heading} on {name}", metrics=[rate], **by_arm)
        for name, rate in rates.items()
    ]
    lines = [
        LinePlot(title=name, x="trainer/global_step", y=[name], **by_arm)
        for name in metric_names(comparison, "validation/", comparison.metric)
    ]
    varied = dict.fromkeys(["arm", "seed", *(key.removesuffix("._target_") for key in comparison.design.layout.differ)])
    columns = [f"config:{key}.value" for key in varied] + [f"summary:{rate}" for rate in rates.values()]
    view = Workspace(
        entity=entity,
        project=project,
        name=comparison.title,
        sections=[
            Section(name="Error rates", panels=[*bars], is_open=True),
            Section(name="Validation", panels=[*lines], is_open=True),
        ],
        runset_settings=RunsetSettings(
            filters=[expr.Metric("Group") == comparison.title, expr.Metric("JobType") == "train"],
            pinned_columns=columns,
        ),
    )
    view._internal_name = f"nw-{hashlib.sha256(comparison.title.encode()).hexdigest()[:11]}-v"
    wandb.setup(wandb.Settings(silent=True))
    try:
        with suppress(ValueError):  # there is no such view yet
            view._internal_id = View.from_name(entity, project, view._internal_name).id
        return str(view.save().url)
    except refusals():
        return None


def _send(options: Json, log: Callable[["wandb.Run"], bool]) -> tuple["wandb.Run", bool]:
    """Log to a new W&B run with these options. Return the run, and whether the server has received everything.

    If the server has not, log again into a file. `log` returns whether the server accepted its data.
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
    """Log a comparison, and return whether W&B's server has confirmed the tables."""
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
    """Log results about a run as a separate W&B run in the same group, if the run itself was logged to W&B.

    - run: the run folder
    - more: additional keys of the logged config
    - decoder: replaces the decoder in the logged config

    Return the command that sends the results later if W&B is offline, else None. W&B's errors are only printed,
    because the results are already in files.
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
    """Return the config node of the W&B logger, or None if the config has no such logger."""
    if not isinstance(node, dict):
        return None
    if node.get("_target_") == LOGGER:
        return node
    return next((logger for inner in node.values() if (logger := find_logger(inner)) is not None), None)


def final_rates(sets: Mapping[str, Rates]) -> dict[str, float]:
    """Return the error rates of each set, under the names that training uses."""
    return {
        f"final/{name}/{rate}": value
        for name, result in sets.items()
        for rate in ("wer", "cer", "cer_longer")
        if (value := getattr(result, rate)) is not None
    }

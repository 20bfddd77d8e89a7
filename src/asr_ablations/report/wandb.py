"""A comparison at Weights & Biases: a run with its tables, and a report with verdicts, tables and the runs' curves."""

import re
import sys
import warnings
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Literal

from asr_ablations.config.option_names import plain_config
from asr_ablations.report.curves import metric_names
from asr_ablations.report.training_report import sections
from asr_ablations.runs.reader import read_config, read_environment
from asr_ablations.runs.wandb_run import LOGGER, begin, end, in_percent, list_tags, mode, sync_command
from asr_ablations.tools.errors import installs, refusals
from asr_verdicts.comparison import Comparison
from asr_verdicts.config import OWN, within
from asr_verdicts.errors import UsageError
from asr_verdicts.files import Json, slug
from asr_verdicts.record import Rates
from asr_verdicts.report.formats import body, preamble

if TYPE_CHECKING:
    from wandb_workspaces.reports.v2 import PanelGrid, Report
    from wandb_workspaces.reports.v2.interface import BlockTypes

    import wandb


LONGEST_TITLE = 128
"""Characters of a report's title, by W&B's own rule."""
NO_REPORT = "W&B report: not made, since W&B is offline; the same command makes it once there are a login and a server"


def save_report(comparison: Comparison, entity: str, project: str) -> str:
    """Make the report at W&B; a line that says what became of it. Only W&B's server can save a report."""
    if mode() != "online":
        return NO_REPORT
    try:
        return f"W&B report: {report(comparison, entity, project).save().url}"
    except ImportError:
        return f"W&B report: not made, it needs wandb-workspaces; {installs('report')}"
    except Exception as error:  # whatever a server answers, the comparison is written
        return f"W&B report: not made: {type(error).__name__}: {' '.join(str(error).split())}"


def report(comparison: Comparison, entity: str, project: str) -> "Report":
    """The report, unsaved. Raises ImportError without wandb-workspaces."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Pydantic V1 style")  # wandb-workspaces 0.4 under pydantic 2
        import wandb_workspaces.reports.v2 as reports

    blocks: list[BlockTypes] = [reports.MarkdownBlock(text) for text in preamble(comparison)]
    for section in sections(comparison):
        blocks += [reports.H2(section.heading), *(reports.MarkdownBlock(text) for text in body(section))]
    blocks += [reports.H2("Curves"), _curves(comparison, reports)]
    return reports.Report(
        entity=entity,
        project=project,
        title=f"{comparison.title}: comparison"[:LONGEST_TITLE],
        description=comparison.question or "",
        blocks=blocks,
        width="fluid",
    )


def _curves(comparison: Comparison, reports: ModuleType) -> "PanelGrid":
    """The runs' own validation curves, grouped by arm: mean and span over the seeds."""
    groups = sorted({str(run.config.get("sweep") or comparison.title) for run in comparison.runs})
    runs = reports.Runset(name="arms", filters=f"Metric('Group') in {groups}")
    layout = comparison.design.layout
    key = next((key for key in [OWN, *layout.differ] if within(key, layout.factor)), None)
    plain = None if key is None else key.removesuffix("._target_")  # as the logger writes it: rnn: lstm
    grouped = (
        {"groupby": reports.Config(plain), "groupby_aggfunc": "mean", "groupby_rangefunc": "minmax"} if plain else {}
    )
    panels = [
        reports.LinePlot(title=metric, x="trainer/global_step", y=[metric], **grouped)
        for metric in metric_names(comparison, "validation/")
    ]
    return reports.PanelGrid(runsets=[runs], panels=panels)


def log_comparison(comparison: Comparison, project: str, folder: Path) -> str:
    """Log a run of job type `comparison` in the sweep's group, then make a report; lines on what became of them.

    The run has the tables of the report, and the page in `folder`, if it exists; of a sweep with a plan also, in its
    summary, the latest look and the state of each question. If W&B's server goes away before it has received all that,
    the whole run is left in a file that is sent later. Raises UsageError for a value that W&B refuses.
    """
    name = f"comparison-{comparison.title}"
    options: Json = {"project": project, "group": comparison.title, "job_type": "comparison", "name": name}
    run = begin(**options, dir=str(folder))
    entity, offline = str(run.entity), run.offline
    received = _log(run, comparison, folder)
    if not (end(run) and received):
        lines, offline = ["W&B has not received everything: its server does not answer"], True
        _log(run := begin(**options, dir=str(folder), id=run.id, offline=True), comparison, folder)
        end(run)
    else:
        lines = []
    if later := sync_command([folder]):
        lines.append(f"W&B later: {later}")
    return "\n".join([*lines, NO_REPORT if offline else save_report(comparison, entity, project)])


def _log(run: "wandb.Run", comparison: Comparison, folder: Path) -> bool:
    """Log what a comparison has; whether W&B took it: tables are artifacts, for which its server has to answer."""
    import wandb

    try:
        for section in sections(comparison):
            name = slug(re.split(", | to | of the ", section.heading.lower())[0])
            rows = section.rows or [[line] for line in section.lines]
            head: list[str | int] = [*section.head] if section.rows else ["line"]
            run.log({f"comparison/{name}": wandb.Table(columns=head, data=rows)})
        if (page := folder / "index.html").exists():
            run.log({"comparison/page": wandb.Html(page.read_text(encoding="utf-8"), inject=False)})
    except refusals():
        return False
    if comparison.course.looks:
        run.summary["until/look"] = len(comparison.course.looks)
        run.summary.update({f"until/state/{question.arm}": question.outcome for question in comparison.course.verdicts})
    return True


RATES = ("wer", "cer", "cer_longer")


def log_afterwards(
    run: Path,
    job_type: Literal["evaluation", "reproduction"],
    name: str,
    results: Mapping[str, object],
    more: Json,
    decoder: Json | None = None,
) -> str | None:
    """Log results as a W&B run of their own, in the group of the run that they belong to, where that was logged to W&B.
    W&B's own trouble is printed: the results are written already.

    run: its folder; more: keys of the config beside the run's; decoder: the node that stands there in place of the
    run's. Returns the command that sends it later, where it is offline.
    """
    config = read_config(run)
    logger = wandb_of(config.get("logger"))
    if logger is None:
        return None
    config = config if decoder is None else {**config, "decoder": decoder}
    options: Json = {
        "project": logger.get("project"),
        "entity": logger.get("entity"),
        "group": str(config.get("sweep")),
        "job_type": job_type,
        "name": name,
        "tags": list_tags(run, config.get("overrides") or []),
        "config": {**plain_config(config), "identity": read_environment(run).id, **more},
        "dir": str(run),
    }
    try:
        online = begin(**options)
        if not _log_results(online, results):
            _log_results(begin(**options, id=online.id, offline=True), results)
    except UsageError as error:
        print(f"not logged: {error}", file=sys.stderr)
        return None
    return sync_command([run])


def _log_results(experiment: "wandb.Run", results: Mapping[str, object]) -> bool:
    """Log and end. Return whether W&B has received it, or offline, has it in a file."""
    experiment.summary.update(in_percent(results))
    return end(experiment)


def wandb_of(node: object) -> Json | None:
    """The W&B logger of a config; None for a config without one."""
    if isinstance(node, dict):
        if node.get("_target_") == LOGGER:
            return node
        return next((logger for inner in node.values() if (logger := wandb_of(inner)) is not None), None)
    return None


def final_rates(sets: Mapping[str, Rates]) -> dict[str, float]:
    """Rates by set, under the names that a training logs them by."""
    return {
        f"final/{name}/{rate}": value
        for name, result in sets.items()
        for rate in RATES
        if (value := getattr(result, rate)) is not None
    }

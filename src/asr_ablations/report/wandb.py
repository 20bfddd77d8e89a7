"""A comparison as a report at Weights & Biases: verdicts, tables, and the curves of the runs themselves."""

import warnings
from pathlib import Path
from typing import Any

from asr_ablations.comparison.confounds import within
from asr_ablations.comparison.result import Comparison
from asr_ablations.components.logger.wandb import mode
from asr_ablations.report.curves import metric_names
from asr_ablations.report.markdown import asked, paragraph, table
from asr_ablations.report.sections import sections
from asr_ablations.tools.extras import installs

LONGEST_TITLE = 128
"""Of a report, by W&B's own rule."""


def save_report(comparison: Comparison, entity: str, project: str) -> str:
    """Make the report at W&B; one line on what became of it. Only its server can save one."""
    if mode() != "online":
        return "W&B report: not made, since W&B is offline; the same command makes it once there is a login"
    try:
        return f"W&B report: {report(comparison, entity, project).save().url}"
    except ImportError:
        return f"W&B report: not made, it needs wandb-workspaces; {installs('report')}"
    except Exception as error:  # whatever a server answers, the comparison is written
        return f"W&B report: not made: {type(error).__name__}: {' '.join(str(error).split())}"


def report(comparison: Comparison, entity: str, project: str) -> Any:
    """The report, unsaved. Raises ImportError without wandb-workspaces."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Pydantic V1 style")  # wandb-workspaces 0.4 under pydantic 2
        import wandb_workspaces.reports.v2 as reports

    blocks: list[Any] = [reports.MarkdownBlock(text) for text in asked(comparison)]
    for section in sections(comparison):
        blocks.append(reports.H2(section.heading))
        if section.rows:
            blocks.append(reports.MarkdownBlock(table(section.head, section.rows)))
        if section.lines:
            blocks.append(reports.MarkdownBlock(paragraph(section)))
    blocks += [reports.H2("Curves"), _curves(comparison, reports)]
    title = f"{comparison.title}: comparison"[:LONGEST_TITLE]
    question = comparison.question or ""
    return reports.Report(
        entity=entity, project=project, title=title, description=question, blocks=blocks, width="fluid"
    )


def _curves(comparison: Comparison, reports: Any) -> Any:
    """The runs' own validation curves, those of an arm as their mean and span."""
    groups = sorted({str(run.config.get("sweep") or comparison.title) for arm in comparison.arms for run in arm.runs})
    runs = reports.Runset(name="arms", filters=f"Metric('Group') in {groups}")
    key = next((key for key in comparison.differing if within(key, comparison.factor)), None)
    grouped = {"groupby": reports.Config(key), "groupby_aggfunc": "mean", "groupby_rangefunc": "minmax"} if key else {}
    panels = [
        reports.LinePlot(title=metric, x="trainer/global_step", y=[metric], **grouped)
        for metric in metric_names(comparison, "validation/")
    ]
    return reports.PanelGrid(runsets=[runs], panels=panels)


def log_comparison(comparison: Comparison, project: str, folder: Path) -> str:
    """A run of job type `comparison` in the sweep's group, with the table, the differences, the verdicts, and the page
    in `folder`, where there is one; then a report. One line on what became of the report.
    """
    import wandb

    from asr_ablations.components.logger.wandb import mode

    run = wandb.init(
        project=project, group=comparison.title, job_type="comparison", name=f"comparison-{comparison.title}",
        dir=str(folder), mode=mode(), settings=wandb.Settings(silent=True, console="off"),
    )  # fmt: skip
    differences = [vars(one) for one in comparison.differences]
    for name, rows in (("table", comparison.rows), ("differences", differences)):
        if rows:
            columns: list[Any] = list(rows[0])
            data = [
                [str(row[column]) if isinstance(row[column], tuple) else row[column] for column in columns]
                for row in rows
            ]
            run.log({f"comparison/{name}": wandb.Table(columns=columns, data=data)})
    run.log({"comparison/verdicts": wandb.Table(columns=["verdict"], data=[[text] for text in comparison.verdicts])})
    if (page := folder / "index.html").exists():
        run.log({"comparison/page": wandb.Html(page.read_text(encoding="utf-8"), inject=False)})
    entity = str(run.entity)
    run.finish()
    return save_report(comparison, entity, project)

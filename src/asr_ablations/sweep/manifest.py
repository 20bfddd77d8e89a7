"""Write the manifest of a sweep: its launches, its arms, its declaration, and its plan if it has one."""

import logging
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path

from omegaconf import DictConfig, OmegaConf

from asr_ablations.runs.layout import LEASES, SWEEP, runs_in
from asr_ablations.runs.reader import UnreadableFileError, read_sweep
from asr_ablations.runs.sweep_history import KEY, changes, launches, read_plan
from asr_ablations.sweep.arm import FrozenArm
from asr_ablations.tools.files import free_name
from asr_ablations.tools.machine import one_at_a_time
from asr_verdicts.errors import UsageError
from asr_verdicts.files import Json, write_json
from asr_verdicts.plan import VerdictPlan

ABLATION = "ablation"
"""Key of the declaration (question, factor, baseline and so on) in configs and in the manifest."""

log = logging.getLogger(__name__)


def write_manifest(sweep: Path, arms: Sequence[FrozenArm], metadata: Json) -> None:
    """Write the arms' configs, and record the arms, this launch and the newest declaration in the manifest.

    A sweeper that launches several batches calls this for each batch. Calls with equal `started` and `command` in
    their metadata count as one launch. The entry `search` tells whether earlier results determine the next arms.
    """
    for arm in arms:
        arm.write()
    with _lock(sweep):
        before = _read_manifest(sweep)
        rows = {arm["id"]: arm for arm in before.get("arms", [])} | {arm.id: arm.as_json() for arm in arms}
        earlier, ids = launches(sweep), [arm.id for arm in arms]
        if earlier and all(earlier[-1][key] == metadata[key] for key in ("started", "command")):
            ids = list(dict.fromkeys([*earlier.pop()["arms"], *ids]))
        launch = {**{key: metadata[key] for key in ("started", "command", "search")}, "arms": ids}
        declared = (_declared(arms[0].cfg) if arms else None) or before.get(ABLATION)
        newest = {KEY: before.get(KEY), ABLATION: declared}
        kept = {key: value for key, value in newest.items() if value}
        write_json(sweep / SWEEP, {**metadata, **kept, "launches": [*earlier, launch], "arms": list(rows.values())})


def _declared(cfg: DictConfig) -> object:
    """Return the declaration in a config as plain containers, or None if it has none."""
    declared = cfg.get(ABLATION)
    return OmegaConf.to_container(declared, resolve=True) if OmegaConf.is_config(declared) else declared


def keep_declaration(sweep: Path, cfg: DictConfig) -> None:
    """Record an arm's declaration in the manifest, because a launch whose plan has ended does not write one."""
    if (declared := _declared(cfg)) is not None:
        with _lock(sweep):
            write_json(sweep / SWEEP, {**_read_manifest(sweep), ABLATION: declared})


def freeze_plan(sweep: Path, plan: VerdictPlan) -> VerdictPlan:
    """Write the plan to the manifest and return it. If the same plan is recorded already, return the recorded one.

    The arms' overrides are updated, because `outputs` may have moved. Raise UsageError if runs have begun under another
    plan, because a plan must not change after results are seen.
    """
    with _lock(sweep):
        frozen = read_plan(sweep)
        if frozen is not None and not (different := changes(frozen, plan)):
            overrides = {arm.name: arm.overrides for arm in plan.arms}
            return replace(frozen, arms=[replace(arm, overrides=overrides[arm.name]) for arm in frozen.arms])
        if frozen is not None and runs_in(sweep):
            raise UsageError(
                f"{sweep}: its plan was frozen before the first run ({'; '.join(different)}); force=true begins "
                "another plan in a new folder, with fresh seeds"
            )
        write_json(sweep / SWEEP, {**_read_manifest(sweep), KEY: plan.as_json()})
        return plan


def _read_manifest(sweep: Path) -> Json:
    """Return the manifest, or {} if it is missing. A damaged manifest is renamed, with a warning."""
    try:
        return read_sweep(sweep) if (sweep / SWEEP).exists() else {}
    except UnreadableFileError as error:
        log.warning("%s; renamed to %s", error, error.path.rename(free_name(error.path)))
        return {}


def _lock(sweep: Path) -> AbstractContextManager[None]:
    """Return a context manager that keeps other launches from writing the manifest."""
    (sweep / LEASES).mkdir(parents=True, exist_ok=True)
    return one_at_a_time(sweep / LEASES / f"{SWEEP}.lock", f"{sweep}: waiting for another launch")

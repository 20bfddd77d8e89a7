"""Hydra launcher that runs arms like the launcher of processes, but on a local Ray or a Ray cluster."""

import os
import secrets
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from hydra.core.config_store import ConfigStore
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig

from asr_ablations.tools.errors import require
from hydra_plugins.asr_ablations_launchers.processes import OPTIONS, ProcessesLauncher

if TYPE_CHECKING:  # Hydra imports every plugin at the start of every command, so a launch imports heavy modules
    from asr_ablations.sweep.arm import FrozenArm
    from asr_ablations.sweep.runner import Places

RAY_OPTIONS = {
    **OPTIONS,
    "address": None,  # a cluster's, auto or host:port; by default RAY_ADDRESS, or a local Ray
    "cpus": 1,  # CPUs and threads of each rank of an arm
    "retries": 3,  # restarts of an arm whose worker or machine was lost
}


class RayLauncher(ProcessesLauncher):
    """Freezes the arms as its base does, and lets Ray choose where each runs. RAY_OPTIONS lists the arguments."""

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        require("ray", "hydra/launcher=ray", "ray")
        super().setup(hydra_context=hydra_context, task_function=task_function, config=config)

    def places(self, arms: "Sequence[FrozenArm]") -> "Places":
        address = self.placing["address"] or os.environ.get("RAY_ADDRESS") or None
        _set_environment(is_local=address is None)
        from asr_ablations.sweep.cluster import Cluster

        return Cluster(Path(sys.argv[0]).resolve(), arms, **{**self.placing, "address": address})


def _set_environment(*, is_local: bool) -> None:
    """Set variables that Ray reads at import: no usage reports, and a local Ray only on the loopback address.

    The latter is Ray's default on macOS alone.
    """
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    if is_local:
        os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"
        os.environ.setdefault("RAY_AUTH_MODE", "token")
        os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))  # Ray would keep one in the home folder


ConfigStore.instance().store(
    group="hydra/launcher",
    name="ray",
    node={"_target_": f"{__name__}.{RayLauncher.__name__}", **RAY_OPTIONS},
    provider="asr_ablations",
)

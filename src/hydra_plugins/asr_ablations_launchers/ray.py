"""Hydra launcher: as the launcher of processes, with the arms on a local Ray or on the machines of a Ray cluster."""

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

if TYPE_CHECKING:  # Hydra imports every plugin at the start of every command: what is heavy is imported in a launch
    from asr_ablations.sweep.arm import FrozenArm
    from asr_ablations.sweep.runner import Places

RAY_OPTIONS = {
    **OPTIONS,
    "address": None,  # of a cluster, auto or host:port; by default RAY_ADDRESS, or a Ray of this machine's own
    "cpus": 1,  # that each rank of an arm reserves, and its threads
    "retries": 3,  # how often an arm goes on elsewhere whose worker or machine was lost
}


class RayLauncher(ProcessesLauncher):
    """Freezes the arms as its base does, and lets Ray choose where each runs. The options are those of RAY_OPTIONS."""

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        require("ray", "hydra/launcher=ray", "ray")
        super().setup(hydra_context=hydra_context, task_function=task_function, config=config)

    def places(self, arms: "Sequence[FrozenArm]") -> "Places":
        address = self.of_places["address"] or os.environ.get("RAY_ADDRESS") or None
        _set_environment(is_local=address is None)
        from asr_ablations.sweep.cluster import Cluster

        return Cluster(Path(sys.argv[0]).resolve(), arms, **{**self.of_places, "address": address})


def _set_environment(*, is_local: bool) -> None:
    """Set the variables that Ray reads when it is imported: no usage reports, and a local cluster on the
    loopback address alone, which is Ray's default on macOS only.
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

"""Hydra launcher that runs arms like the launcher of processes, but on a local Ray or a Ray cluster."""

import os
import secrets
from collections.abc import Sequence
from typing import TYPE_CHECKING

from hydra.core.config_store import ConfigStore

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

    def places(self, arms: "Sequence[FrozenArm]") -> "Places":
        require("ray", "hydra/launcher=ray", "ray")
        address = self.placing["address"] or os.environ.get("RAY_ADDRESS") or None
        os.environ["RAY_USAGE_STATS_ENABLED"] = "0"  # Ray reads these variables when it is imported
        if address is None:
            os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"  # a local Ray stays on the loopback address
            os.environ.setdefault("RAY_AUTH_MODE", "token")
            os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))  # Ray would keep one in the home folder
        from asr_ablations.sweep.cluster import Cluster

        return Cluster(self.script, arms, **{**self.placing, "address": address})


ConfigStore.instance().store(
    group="hydra/launcher",
    name="ray",
    node={"_target_": f"{__name__}.{RayLauncher.__name__}", **RAY_OPTIONS},
    provider="asr_ablations",
)

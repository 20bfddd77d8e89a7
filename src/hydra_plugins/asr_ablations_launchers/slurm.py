"""Hydra launcher that runs arms like the launcher of processes, but as Slurm jobs that outlive the command."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from hydra.core.config_store import ConfigStore

from hydra_plugins.asr_ablations_launchers.processes import OPTIONS, ProcessesLauncher

if TYPE_CHECKING:  # Hydra imports every plugin at the start of every command, so a launch imports heavy modules
    from asr_ablations.sweep.arm import FrozenArm
    from asr_ablations.sweep.runner import Places

SLURM_OPTIONS: dict[str, Any] = {
    **{name: value for name, value in OPTIONS.items() if name not in ("per_gpu", "timeout")},  # Slurm has its own
    # options of sbatch under their own names; memory is --mem, such as 32G
    **dict.fromkeys(("partition", "account", "qos", "constraint", "memory")),
    "cpus": 1,  # CPUs and threads of each rank of an arm
    "minutes": None,  # time limit of a job, which is queued again at its end; plan measures it; null: the partition's
    "sbatch": [],  # further options of sbatch, such as [--exclude=node7]
    "detach": False,  # true: queue the arms and end; the same command attaches again
}


class SlurmLauncher(ProcessesLauncher):
    """Freezes the arms as its base does, and queues them as a job array. SLURM_OPTIONS lists the arguments."""

    def places(self, arms: "Sequence[FrozenArm]") -> "Places":
        from asr_ablations.sweep.slurm import Slurm

        return Slurm(self.script, arms, **self.placing)


ConfigStore.instance().store(
    group="hydra/launcher",
    name="slurm",
    node={"_target_": f"{__name__}.{SlurmLauncher.__name__}", **SLURM_OPTIONS},
    provider="asr_ablations",
)

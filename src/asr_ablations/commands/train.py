"""Train one run, or with -m a sweep of runs."""

import os

from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig

from asr_ablations.config.build import build
from asr_ablations.config.entry import entry
from asr_ablations.runs.identity import short_name
from asr_ablations.runs.status import DONE
from asr_ablations.tools.machine import visible_gpus
from asr_verdicts.errors import UsageError
from asr_verdicts.terminal import waiting


@entry("config", continues=True)
def main(cfg: DictConfig) -> object:
    """Train one run. With -m, the launcher calls this for each arm in a separate process, where Hydra is not active."""
    if HydraConfig.initialized():
        from asr_ablations.sweep.preflight import check_declarations, refuse_plan_of_runs

        refuse_plan_of_runs([cfg])  # for the arms of a sweep, the launcher does both checks
        check_declarations([cfg])
    return (print_cost if cfg.plan else train)(cfg)


def train(cfg: DictConfig) -> object:
    """Train a config, unless there is already a finished run of it. Return the run folder."""
    from asr_ablations.experiment.finished import find_finished_runs, print_finished

    if (runs := find_finished_runs([cfg])) is not None and runs[0].status() == DONE:
        print_finished(runs[0])
        return runs[0].folder
    check_machine_and_data(cfg)
    print_start(cfg)
    with waiting("loading PyTorch"):
        from asr_ablations.experiment.run import run  # torch is imported only when there is work to do

    return run(cfg)


def check_machine_and_data(cfg: DictConfig) -> None:
    """Raise UsageError if GPUs or splits of the corpus are missing, before the import of torch, which takes seconds."""
    if cfg.gpus not in ("auto", 0) and cfg.gpus > (available := len(visible_gpus())):
        raise UsageError(f"gpus={cfg.gpus}: nvidia-smi shows {available} GPUs; expected auto, or at most {available}")
    corpus = build(cfg.data)
    if not corpus.generated:
        corpus.prepare()


def print_start(cfg: DictConfig) -> None:
    """Print a run's settings before the import of torch, which takes seconds."""
    if "RANK" in os.environ:  # the process that started the ranks has printed them
        return
    keys = ("seed", "width", "layers", "precision", "max_epochs", "gpus")
    settings = " ".join(f"{key}={cfg[key]}" for key in keys)
    print(f"starts {short_name(cfg.overrides)} in {cfg.outputs}/{cfg.sweep}: {settings}", flush=True)


def print_cost(cfg: DictConfig) -> None:
    from asr_ablations.sweep.launch import freeze
    from asr_ablations.sweep.plan import show_plan
    from asr_ablations.sweep.this_machine import machine_slots

    arms = freeze([cfg])
    show_plan(arms, 1, machine_slots(1, 1, arms).threads(1))

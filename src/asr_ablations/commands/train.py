"""Train one run, or with -m a sweep of runs.

python src/train.py                                   the built-in corpus
python src/train.py -m rnn=lstm,gru precision=16      an ablation
python src/train.py -m rnn=lstm,gru plan=true         what that would cost, nothing trained
python src/train.py -m rnn=lstm,gru until=verdict until.margin=2.0    seeds are added until the answer is known
python src/train.py --help                            groups, keys, values
"""

import os

from hydra.conf import HydraConf
from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf

from asr_ablations.config.entry import entry
from asr_ablations.runs.identity import short_name
from asr_ablations.runs.listed_arms import check_arm
from asr_ablations.runs.status import DONE
from asr_ablations.runs.wandb_run import refuse_mode
from asr_verdicts.errors import UsageError


@entry("config", continues=True)
def main(cfg: DictConfig) -> object:
    if HydraConfig.initialized():
        check_sweeper(cfg, HydraConfig.get())
    if cfg.plan:
        from asr_ablations.sweep.launch import freeze, plan

        plan(freeze([cfg]), jobs=1)
        return None
    from asr_ablations.experiment.finished import finished, print_finished

    if (runs := finished([cfg])) is not None and runs[0].status() == DONE:
        print_finished(runs[0])
        return runs[0].folder
    refuse_mode([cfg])
    announce(cfg)
    from asr_ablations.experiment.run import run  # torch is imported only when there is work to do

    return run(cfg)


def check_sweeper(cfg: DictConfig, hydra: HydraConf | DictConfig) -> None:
    """Raises UsageError for a plan of runs, or a list of arms, that nobody would follow."""
    check_arm(cfg)
    check_question(cfg)
    if cfg.until is None:
        return
    if hydra.mode == RunMode.RUN:
        raise UsageError("until=verdict adds runs to the arms of a sweep: expected -m and several arms")
    if not str(hydra.sweeper._target_).endswith(".VerdictSweeper"):
        raise UsageError("until=verdict has a sweeper of its own: expected no hydra/sweeper beside it")


def check_question(cfg: DictConfig) -> None:
    """Raises UsageError for a question of a sweep file that `compare` would not understand."""
    if cfg.ablation is not None:
        from asr_verdicts.declaration import parse

        parse(OmegaConf.to_container(cfg.ablation, resolve=True) if OmegaConf.is_config(cfg.ablation) else cfg.ablation)


def announce(cfg: DictConfig) -> None:
    """Print what is about to run, before torch is imported, which takes seconds. The folder's full name comes later:
    it depends on the data.
    """
    if "RANK" in os.environ:  # the process that started the ranks has said it
        return
    keys = ("seed", "width", "layers", "precision", "max_epochs", "gpus")
    settings = " ".join(f"{key}={cfg[key]}" for key in keys)
    print(f"starts {short_name(cfg.overrides)} in {cfg.outputs}/{cfg.sweep}: {settings}", flush=True)

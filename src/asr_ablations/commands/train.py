"""Train one run, or with -m a sweep of runs.

python src/train.py                                   the built-in corpus
python src/train.py -m rnn=lstm,gru precision=16      an ablation
python src/train.py -m rnn=lstm,gru plan=true         what that would cost, nothing trained
python src/train.py --help                            groups, keys, values
"""

import os

from omegaconf import DictConfig

from asr_ablations.config.entry import entry
from asr_ablations.runs.identity import short_name
from asr_ablations.runs.status import DONE


@entry("config")
def main(cfg: DictConfig) -> object:
    if cfg.plan:
        from asr_ablations.sweep.launch import freeze, plan

        plan(freeze([cfg]))
        return None
    from asr_ablations.experiment.finished import finished, print_finished

    if (runs := finished([cfg])) is not None and runs[0].status() == DONE:
        print_finished(runs[0])
        return runs[0].folder
    announce(cfg)
    from asr_ablations.experiment.run import run_fresh  # torch is imported only when there is work to do

    return run_fresh(cfg)


def announce(cfg: DictConfig) -> None:
    """Print what is about to run, before torch is imported, which takes seconds. The folder's full name comes later:
    it depends on the data.
    """
    if "RANK" in os.environ:  # the process that started the ranks has said it
        return
    keys = ("seed", "width", "layers", "precision", "max_epochs", "gpus")
    settings = " ".join(f"{key}={cfg[key]}" for key in keys)
    print(f"starts {short_name(cfg.overrides)} in {cfg.outputs}/{cfg.sweep}: {settings}", flush=True)

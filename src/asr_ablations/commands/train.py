"""Train one run, or with -m a sweep of runs.

python src/train.py                                   the built-in corpus
python src/train.py -m rnn=lstm,gru precision=16      an ablation
python src/train.py -m rnn=lstm,gru plan=true         what that would cost, nothing trained
python src/train.py --help                            groups, keys, values
"""

from omegaconf import DictConfig

from asr_ablations.config.entry import entry


@entry("config")
def main(cfg: DictConfig) -> object:
    if cfg.plan:
        from asr_ablations.sweep.launch import freeze, plan

        plan(freeze([cfg]))
        return None
    from asr_ablations.experiment.run import run_fresh  # torch is imported only when there is work to do

    return run_fresh(cfg)

"""Decode trained runs, with any decoder and language model, from log-probabilities that are computed once.

python src/evaluate.py run=<folder>                                             greedy
python src/evaluate.py -m run=<folder> decoder=beam decoder.beam_width=16,64    a table of beam widths
python src/evaluate.py run=<folder> decoder=beam_lm decoder.lm=<folder> tune.trials=50
python src/evaluate.py --help                                                   groups, keys, values
"""

from omegaconf import DictConfig

from asr_ablations.config.entry import entry
from asr_ablations.evaluation.request import check_requests


@entry("evaluation", check_requests)
def main(cfg: DictConfig | list[DictConfig]) -> object:
    from asr_ablations.evaluation.evaluate import evaluate  # torch is imported only when there is work to do

    return evaluate(cfg if isinstance(cfg, list) else [cfg])

"""Decode trained runs, with any decoder and language model, from log-probabilities that are computed once.

python src/evaluate.py run=<folder>                                             greedy
python src/evaluate.py -m run=<folder> decoder=beam decoder.beam_width=16,64    a table of beam widths
python src/evaluate.py run=<folder> decoder=beam_lm decoder.lm=<folder> tune.trials=50
python src/evaluate.py --help                                                   groups, keys, values
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from omegaconf import DictConfig

from asr_ablations.config.entry import entry
from asr_ablations.evaluation.request import check_requests

if TYPE_CHECKING:
    from asr_ablations.evaluation.record import Evaluation


@entry("evaluation", check_requests)
def main(cfg: DictConfig | list[DictConfig]) -> object:
    from asr_ablations.evaluation.evaluate import evaluate  # torch is imported only when there is work to do

    results = evaluate(cfg if isinstance(cfg, list) else [cfg])
    log([evaluation for of_request in results for evaluation in of_request])
    return results


def log(evaluations: "Sequence[Evaluation]") -> None:
    """Log evaluations of runs that were logged to W&B beside them."""
    from asr_ablations.report.wandb_afterwards import final_rates, log_afterwards

    later = {
        log_afterwards(
            evaluation.folder,
            "evaluation",
            f"{evaluation.folder.name}: {evaluation.name}",
            final_rates(evaluation.content["sets"]),
            {"evaluation": evaluation.name, "checkpoint": evaluation.content["checkpoint"]},
        )
        for evaluation in evaluations
    }
    for command in sorted(filter(None, later)):
        print(f"W&B later: {command}")

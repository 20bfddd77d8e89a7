"""All commands with Hydra configs, except `train`. They import torch only if there is work to do."""

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from omegaconf import DictConfig

from asr_ablations.config.entry import entry
from asr_ablations.evaluation.request import check_requests
from asr_serving.requests import check_export, check_transcription

if TYPE_CHECKING:
    from asr_ablations.evaluation.evaluate import Evaluation


@entry("benchmarks")
def benchmark(cfg: DictConfig) -> object:
    from asr_benchmarks.record import measure

    return measure(cfg)


@entry("evaluation", check_requests, continues=True)
def evaluate_runs(cfg: DictConfig | list[DictConfig]) -> object:
    from asr_ablations.evaluation.evaluate import evaluate

    results = evaluate(cfg if isinstance(cfg, list) else [cfg])
    log([evaluation for of_request in results for evaluation in of_request])
    return results


def log(evaluations: "Sequence[Evaluation]") -> None:
    """Log evaluations to W&B, in the same group as their run, if the run was logged to W&B."""
    from asr_ablations.report.wandb import final_rates, log_afterwards

    later = {
        log_afterwards(
            evaluation.folder,
            "evaluation",
            f"{evaluation.folder.name}: {evaluation.name}",
            final_rates(evaluation.content["sets"]),
            {"evaluation": evaluation.name, "checkpoint": evaluation.content["checkpoint"]},
            evaluation.content["decoder"],
        )
        for evaluation in evaluations
    }
    for command in sorted(filter(None, later)):
        print(f"W&B later: {command}")


CHECK = """check.py: checks options against the contracts of their groups

python src/check.py rnn=mine                 an option: shapes, gradients, padding, alone = in a batch, devices, state
python src/check.py -cd conf rnn=mine        with your own folder of options
Every option on the command line is checked, in a model that the other options make."""


@entry("config", header=CHECK)
def check(cfg: DictConfig) -> None:
    from asr_ablations.commands.check_variant import check

    check(cfg, [str(word) for word in cfg.overrides])


@entry("export", check_export)
def export(cfg: DictConfig) -> object:
    from asr_serving.export import export

    return export(cfg)


@entry("language_model")
def make_language_model(cfg: DictConfig) -> object:
    from asr_ablations.commands.make_lm import make

    return make(cfg)


@entry("prepare", continues=True)
def prepare(cfg: DictConfig) -> None:
    if cfg.weights is not None:
        from asr_ablations.commands.import_weights import import_weights

        import_weights(cfg)
        return
    from asr_ablations.commands.prepare_corpus import prepare

    prepare(cfg)


@entry("transcribe", check_transcription)
def transcribe(cfg: DictConfig) -> None:
    if cfg.serve:
        from asr_serving.server.application import serve

        serve(cfg)
        return
    from asr_serving.transcribe import transcribe

    if transcribe(cfg):
        sys.exit(1)

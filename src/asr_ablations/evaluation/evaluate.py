"""evaluate(requests): load runs, fork one pool, store log-probabilities, decode sets, write records."""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import torch
from omegaconf import DictConfig, OmegaConf
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from asr_ablations.components.decoder.greedy import Greedy
from asr_ablations.config.build import build
from asr_ablations.evaluation.activations import check_layers, stored_activations
from asr_ablations.evaluation.log_probs import LogProbs, Precision, stored_log_probs
from asr_ablations.evaluation.pool import Decoded, Pool, process_count
from asr_ablations.evaluation.record import (
    DecodedSet,
    DecodingTimes,
    Evaluation,
    EvaluationContent,
    EvaluationIdentity,
    decoding_times,
    evaluation_name,
    set_content,
    set_rows,
)
from asr_ablations.evaluation.request import decoder_name, files, finished_runs, searches
from asr_ablations.evaluation.tuning import Tuning, tune, tuning_set
from asr_ablations.language_models.model import RECORD
from asr_ablations.runs.layout import EVALUATIONS
from asr_ablations.tools.files import sha256
from asr_ablations.training.assembly import device_count, trainer
from asr_ablations.training.contracts import Decoder
from asr_ablations.training.lightning_warnings import silence_lightning
from asr_ablations.training.trained_model import Trained, load_run
from asr_verdicts.config import SHA256
from asr_verdicts.errors import choices
from asr_verdicts.record import UtteranceRow, rates
from asr_verdicts.terminal import console

HEAD = ("set", "WER %", "CER %", "CER (longer) %", "S", "D", "I", "time s", "utterances/s", "real-time factor")


def print_evaluations(evaluations: Sequence[Evaluation], overrides: Sequence[Sequence[str]]) -> None:
    """Print one row per set of every evaluation, under the overrides that distinguish it (Baunsgaard2020 table 3).

    overrides: the command line of each evaluation.
    """
    terminal = console()
    table = Table(title="evaluations", title_justify="left")
    for column in ("decoder", *HEAD):
        table.add_column(column, justify="left" if column in ("decoder", "set") else "right", overflow="fold")
    for evaluation, label in zip(evaluations, _labels(evaluations, overrides), strict=True):
        for number, name in enumerate(evaluation.content["sets"]):
            table.add_row("" if number else label, *_cells(evaluation, name))
    if evaluations:
        terminal.print(table)
    for evaluation in evaluations:
        _print_tuning(terminal, evaluation)
        terminal.print(f"{evaluation.folder / EVALUATIONS / evaluation.name}.json", soft_wrap=True, markup=False)


def _labels(evaluations: Sequence[Evaluation], overrides: Sequence[Sequence[str]]) -> list[str]:
    """The decoder, the overrides that differ among the command lines, and the run if there are several."""
    several = len({evaluation.folder for evaluation in evaluations}) > 1
    shared = set.intersection(*map(set, overrides)) if overrides else set()
    labels = []
    for evaluation, own in zip(evaluations, overrides, strict=True):
        varied = [o.removeprefix("decoder.") for o in own if o not in shared and not o.startswith(("run=", "decoder="))]
        run = [evaluation.content["run"]] if several else []
        labels.append(" ".join([evaluation.content["name"], *varied, *run]))
    return labels


def _cells(evaluation: Evaluation, name: str) -> list[str]:
    result, times = evaluation.content["sets"][name], evaluation.times[name]
    return [
        name,
        *(f"{100 * getattr(result, key):.2f}" for key in ("wer", "cer", "cer_longer")),
        *(str(getattr(result, key)) for key in ("substitutions", "deletions", "insertions")),
        f"{times.decode_seconds:.2f}",
        f"{times.utterances_per_second:.1f}",
        f"{times.real_time_factor:.4f}",
    ]


def _print_tuning(terminal: Console, evaluation: Evaluation) -> None:
    tuning = evaluation.content["tuning"]
    if tuning:
        chosen = ", ".join(f"{key}={value:.3f}" for key, value in tuning["chosen"].items())
        terminal.print(
            f"tuned on {tuning['set']} in {tuning['trials']} trials: {chosen}; its WER went from "
            f"{100 * tuning['wer_untuned']:.2f} to {100 * tuning['wer']:.2f} % ({tuning['file']})",
            soft_wrap=True,
            markup=False,
        )


UNTRAINED = 0.9
"""The greedy WER above which a model counts as untrained: a beam search would take about thirty times as long on it,
for nothing.
"""


class DecodingArm(NamedTuple):
    """One request on one run. request: its number; sets: names of those to decode."""

    request: int
    cfg: DictConfig
    trained: Trained
    sets: list[str]
    decoder: Decoder


def evaluate(requests: Sequence[DictConfig]) -> list[list[Evaluation]]:
    """The evaluations of every request, one per run; runs whose model is untrained may be missing.

    Raises UsageError for what cannot be loaded or is out of range.
    """
    silence_lightning()
    arms = _arms(requests)
    for trained in {(arm.trained.folder, arm.trained.checkpoint): arm.trained for arm in arms}.values():
        trained.data.corpus.prepare()
    with Pool([arm.decoder for arm in arms], process_count(requests[0].processes)) as pool, _bar() as bar:
        results = [(arm, _evaluate(number, arm, pool, bar)) for number, arm in enumerate(arms)]
    _store_activations(arms)
    done = [(arm, evaluation) for arm, evaluation in results if evaluation is not None]
    print_evaluations([evaluation for _, evaluation in done], [arm.cfg.overrides for arm, _ in done])
    return [[evaluation for arm, evaluation in done if arm.request == number] for number in range(len(requests))]


def _arms(requests: Sequence[DictConfig]) -> list[DecodingArm]:
    """Load every run once, and build a decoder for each request on it."""
    runs: dict[tuple[Path, str], Trained] = {}
    arms = []
    for number, cfg in enumerate(requests):
        for path in finished_runs(Path(str(cfg.run))):
            if (path, cfg.checkpoint) not in runs:
                runs[path, cfg.checkpoint] = _load(path, cfg)
            trained = runs[path, cfg.checkpoint]
            sets = _sets(cfg, trained)
            check_layers(trained, _listed(cfg.activations.layers))
            _activation_sets(cfg, trained, sets)
            arms.append(DecodingArm(number, cfg, trained, sets, build(cfg.decoder)(trained.task.alphabet)))
    return arms


def _bar() -> Progress:
    columns = TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    return Progress(*columns, transient=True, disable=not sys.stdout.isatty())


def _load(path: Path, cfg: DictConfig) -> Trained:
    trained = load_run(path, cfg.checkpoint, root=cfg.root)
    OmegaConf.update(trained.cfg, "gpus", cfg.gpus)
    return trained


def _sets(cfg: DictConfig, trained: Trained) -> list[str]:
    """The requested sets, by default all. Raises UsageError for one that is no validation or test set of the run."""
    available = _held_out(trained)
    return _among("sets", _listed(cfg.sets) or available, available)


def _activation_sets(cfg: DictConfig, trained: Trained, sets: list[str]) -> list[str]:
    """The sets whose activations are stored. Raises UsageError for one that the run has not."""
    return _among("activations.sets", _listed(cfg.activations.sets) or sets, ["train", *_held_out(trained)])


def _held_out(trained: Trained) -> list[str]:
    return list(dict.fromkeys([*trained.data.corpus.validation, *trained.data.corpus.test]))


def _listed(value: str | Sequence[str] | None) -> list[str]:
    return [value] if isinstance(value, str) else list(value or [])


def _among(key: str, requested: list[str], available: list[str]) -> list[str]:
    for name in requested:
        if name not in available:
            raise choices(key, name, available)
    return requested


def _store_activations(arms: Sequence[DecodingArm]) -> None:
    """Store what the requests ask for, each file once, and print where it is."""
    files = {
        stored_activations(arm.trained, name, layers, *_forward_pass(arm.trained)): None
        for arm in arms
        if (layers := _listed(arm.cfg.activations.layers))
        for name in _activation_sets(arm.cfg, arm.trained, arm.sets)
    }
    for file in files:
        print(f"activations  {file}")


def _evaluate(number: int, arm: DecodingArm, pool: Pool, bar: Progress) -> Evaluation | None:
    """Decode the sets of an arm and write the record; None where the model is not worth the search.

    number: of the arm's decoder in the pool.
    """
    tuned_on = tuning_set(arm.cfg, arm.decoder, arm.trained.data) if arm.cfg.tune.trials else None
    names = list(dict.fromkeys([*arm.sets, *([tuned_on] if tuned_on else [])]))
    log_probs = {name: log_probs_of(arm.trained, name) for name in names}
    if searches(arm.decoder) and arm.cfg.untrained == "skip" and _is_untrained(arm, list(log_probs.values())):
        return None
    tuning = None
    if tuned_on is not None:
        tuning = tune(arm.cfg, number, arm.decoder, pool, log_probs[tuned_on], arm.trained.folder, bar)
    rows: list[UtteranceRow] = []
    sets: dict[str, DecodedSet] = {}
    times: dict[str, DecodingTimes] = {}
    for name in arm.sets:
        decoded = _decode(number, arm, log_probs[name], pool, bar, tuning.chosen if tuning else {})
        own = set_rows(log_probs[name], decoded.texts)
        rows += own
        sets[name] = set_content(log_probs[name], own)
        times[name] = decoding_times(log_probs[name], decoded, pool.processes)
    identity = _identity(arm, tuning, [log_probs[name] for name in arm.sets])
    name = evaluation_name(decoder_name(arm.cfg), identity)
    ablation = OmegaConf.select(arm.cfg, "ablation")
    declared = OmegaConf.to_container(ablation) if ablation else None
    content: EvaluationContent = {**identity, "sets": sets, "ablation": declared}
    evaluation = Evaluation(arm.trained.folder, name, content, rows, times)
    evaluation.write()
    return evaluation


def log_probs_of(trained: Trained, name: str) -> LogProbs:
    """The log-probabilities of a set from the run's folder, computed on the run's own device if they are missing."""
    return stored_log_probs(trained, name, *_forward_pass(trained))


def _forward_pass(trained: Trained) -> tuple[torch.device, Precision]:
    """The run's own device, and a context of its precision."""
    devices = device_count(trained.cfg)
    precision = trainer(trained.cfg, devices, [], []).precision_plugin.forward_context
    return torch.device("cuda" if devices else "cpu"), precision


def _decode(
    number: int, arm: DecodingArm, log_probs: LogProbs, pool: Pool, bar: Progress, values: Mapping[str, float]
) -> Decoded:
    task = bar.add_task(f"{decoder_name(arm.cfg)} on {log_probs.name}", total=len(log_probs.utterances))
    decoded = pool.decode(number, log_probs, values, lambda: bar.advance(task))
    bar.remove_task(task)
    return decoded


def _is_untrained(arm: DecodingArm, sets: Sequence[LogProbs]) -> bool:
    """True if the greedy WER over all sets is above UNTRAINED; then a message is printed."""
    greedy = Greedy(arm.trained.task.alphabet)
    rows: list[UtteranceRow] = []
    for log_probs in sets:
        outputs = [torch.from_numpy(row.astype("float32")) for row in log_probs.read()]
        rows += set_rows(log_probs, [greedy(row[None], torch.tensor([len(row)]))[0] for row in outputs])
    if (wer := rates(rows).wer) <= UNTRAINED:
        return False
    print(
        f"{arm.trained.folder.name}: greedy WER is {100 * wer:.0f} %, the model has learnt too little for "
        f"decoder={decoder_name(arm.cfg)}: skipped (untrained=decode decodes it all the same)"
    )
    return True


def _identity(arm: DecodingArm, tuning: Tuning | None, sets: Sequence[LogProbs]) -> EvaluationIdentity:
    """Everything that can change the texts of an evaluation, files by their content."""
    decoder = OmegaConf.to_container(arm.cfg.decoder, resolve=True)
    assert isinstance(decoder, dict)
    described = {key: {"path": decoder.pop(key), **_described(file)} for key, file in files(arm.decoder).items()}
    decoder = {key: value for key, value in decoder.items() if not str(key).endswith(SHA256)}  # in files
    corpus = arm.trained.data.corpus
    return {
        "name": decoder_name(arm.cfg),
        "run": arm.trained.folder.name,
        "checkpoint": arm.trained.checkpoint.name,
        "decoder": {str(key): value for key, value in decoder.items()} | (tuning.chosen if tuning else {}),
        "files": described,
        "tuning": tuning.summary if tuning else None,
        "log_probs": [log_probs.file.name for log_probs in sets],
        "test_sets": [log_probs.name for log_probs in sets if log_probs.name in corpus.test],
    }


def _described(file: Path) -> dict[str, str]:
    """The name and the hash of a file. A file in a model folder of src/lm.py has the name of the folder."""
    name = file.parent.name if (file.parent / RECORD).exists() else file.name
    return {"name": name, "sha256": sha256(file)}

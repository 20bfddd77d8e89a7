"""Evaluate trained runs: decode sets from stored log-probabilities, and write error rates and transcripts."""

import hashlib
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

import torch
from omegaconf import DictConfig, OmegaConf
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from asr_ablations.components.decoder.greedy import Greedy
from asr_ablations.config.build import build
from asr_ablations.data.datamodule import SpeechData
from asr_ablations.evaluation.outputs import LogProbs, Precision, check_layers, stored_activations, stored_log_probs
from asr_ablations.evaluation.pool import Decoded, Pool, count_processes
from asr_ablations.evaluation.request import as_list, decoder_name, finished_runs
from asr_ablations.evaluation.sets import (
    HeardSet,
    build_conditions,
    describe_sets,
    hear_sets,
    list_sets,
    prepare_sets,
    separate,
)
from asr_ablations.evaluation.tuning import find_tuning_set, tune
from asr_ablations.language_models.model import RECORD
from asr_ablations.runs.layout import EVALUATIONS, TIMING
from asr_ablations.tools.files import sha256
from asr_ablations.tools.typed_json import as_json
from asr_ablations.training.assembly import device_count, trainer
from asr_ablations.training.contracts import Decoder, RescoringDecoder
from asr_ablations.training.lightning_warnings import silence_lightning
from asr_ablations.training.trained_model import Trained, load_run
from asr_verdicts.config import SHA256
from asr_verdicts.errors import choices
from asr_verdicts.files import Json, write_csv, write_json
from asr_verdicts.record import Rates, UtteranceRow, rates
from asr_verdicts.terminal import console

HEAD = ("set", "WER %", "CER %", "CER (longer) %", "S", "D", "I", "time s", "utterances/s", "real-time factor")
UNTRAINED = 0.9  # if the greedy WER is higher, a beam search is useless and takes thirty times as long


class DecodingArm(NamedTuple):
    """An evaluation request applied to one run.

    - request: position of the request in the list of requests
    - sets: sets to decode, by name
    - activation_sets: names of the sets whose activations are stored
    """

    request: int
    cfg: DictConfig
    trained: Trained
    sets: dict[str, HeardSet]
    activation_sets: list[str]
    decoder: Decoder


@dataclass(frozen=True, kw_only=True)
class DecodedSet(Rates):
    """Error rates and counts of a decoded set."""

    audio_seconds: float
    sha256_of_transcripts: str


@dataclass(frozen=True)
class Evaluation:
    """The results of one decoder on one run's sets.

    - folder: the run folder
    - name: name of the result files in evaluations/, without extension
    - content: error rates by set, and all settings that affect the transcripts, as in <name>.json
    - times: decoding times by set
    """

    folder: Path
    name: str
    content: Json
    times: dict[str, Json]


def evaluate(requests: Sequence[DictConfig]) -> list[list[Evaluation]]:
    """Evaluate each request on all of its runs, and return a list of evaluations for each request.

    Runs with an untrained model are skipped. Raise UsageError if a run cannot be loaded or a value is out of range.
    """
    silence_lightning()
    arms = _load_arms(requests)
    for arm in arms:
        prepare_sets(arm.trained, arm.sets, arm.cfg)
    columns = TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    with (
        Pool([arm.decoder for arm in arms], count_processes(requests[0].processes)) as pool,
        Progress(*columns, transient=True, disable=not sys.stdout.isatty()) as bar,
    ):
        results = [(arm, _evaluate(number, arm, pool, bar)) for number, arm in enumerate(arms)]
    stored = {
        stored_activations(arm.trained, name, layers, *_forward_pass(arm.trained)): None
        for arm in arms
        if (layers := as_list(arm.cfg.activations.layers))
        for name in arm.activation_sets
    }
    for file in stored:
        print(f"activations  {file}")
    done = [(arm, evaluation) for arm, evaluation in results if evaluation is not None]
    print_evaluations([evaluation for _, evaluation in done], [arm.cfg.overrides for arm, _ in done])
    return [[evaluation for arm, evaluation in done if arm.request == number] for number in range(len(requests))]


def _load_arms(requests: Sequence[DictConfig]) -> list[DecodingArm]:
    """Load each run once, and build a decoder for each request and run."""
    runs: dict[tuple[Path, str], Trained] = {}
    others: dict[tuple[Path, str], dict[str, SpeechData]] = {}
    arms = []
    for number, cfg in enumerate(requests):
        for path in finished_runs(Path(str(cfg.run))):
            key = path, cfg.checkpoint
            if key not in runs:
                runs[key] = load_run(path, cfg.checkpoint, root=cfg.root)
                runs[key].cfg.gpus = cfg.gpus
            trained = runs[key]
            recorded = list_sets(trained, as_list(cfg.corpora), others.setdefault(key, {}))
            chosen = _choose("sets", cfg.sets, list(recorded)) or list(recorded)
            sets = hear_sets([recorded[name] for name in chosen], build_conditions(cfg))
            check_layers(trained, as_list(cfg.activations.layers))
            own = [*trained.data.corpus.validation, *trained.data.corpus.test]
            available = list(dict.fromkeys(["train", *own, *sets]))
            activated = _choose("activations.sets", cfg.activations.sets, available) or list(sets)
            apart = separate(trained) if cfg.corpora or cfg.conditions else trained
            decoder = build(cfg.decoder)(trained.task.alphabet)
            if isinstance(decoder, RescoringDecoder):
                decoder.attach(trained.task.model)
            arms.append(DecodingArm(number, cfg, apart, sets, activated, decoder))
    return arms


def _choose(key: str, value: str | Sequence[str] | None, available: list[str]) -> list[str]:
    """Return the requested names as a list. Raise UsageError if one of the names is not available."""
    for name in as_list(value):
        if name not in available:
            raise choices(key, name, available)
    return as_list(value)


def _evaluate(number: int, arm: DecodingArm, pool: Pool, bar: Progress) -> Evaluation | None:
    """Decode the sets of an arm and write the results. Return None if the model is untrained.

    number: position of the arm's decoder in the pool.
    """
    tuned_on = find_tuning_set(arm.cfg, arm.decoder, arm.trained.data, arm.sets) if arm.cfg.tune.trials else None
    names = list(dict.fromkeys([*arm.sets, *([tuned_on] if tuned_on else [])]))
    rescores = isinstance(arm.decoder, RescoringDecoder)
    log_probs = {name: log_probs_of(arm.trained, name, rescores) for name in names}
    # a beam search is slow if the model is unsure
    searches = getattr(arm.decoder, "searches", False)
    if searches and arm.cfg.untrained == "skip" and _is_untrained(arm, list(log_probs.values())):
        return None
    tuning = None
    if tuned_on is not None:
        tuning = tune(arm.cfg, number, arm.decoder, pool, log_probs[tuned_on], arm.trained.folder, bar)
    rows: list[UtteranceRow] = []
    sets: dict[str, DecodedSet] = {}
    times: dict[str, Json] = {}
    for name in arm.sets:
        task = bar.add_task(f"{decoder_name(arm.cfg)} on {name}", total=len(log_probs[name].utterances))
        chosen = tuning["chosen"] if tuning else {}
        decoded = pool.decode(number, log_probs[name], chosen, partial(bar.advance, task))
        bar.remove_task(task)
        texts = log_probs[name].rows_with(decoded.texts)
        rows += texts
        sets[name] = DecodedSet(
            **vars(rates(texts)),
            audio_seconds=log_probs[name].audio_seconds,
            sha256_of_transcripts=hashlib.sha256("\n".join(decoded.texts).encode()).hexdigest(),
        )
        times[name] = _list_times(log_probs[name], decoded, pool.processes)
    identity = _describe_identity(arm, tuning, [log_probs[name] for name in arm.sets])
    name = evaluation_name(decoder_name(arm.cfg), identity)
    ablation = OmegaConf.select(arm.cfg, "ablation")
    content: Json = {**identity, "sets": sets, "ablation": OmegaConf.to_container(ablation) if ablation else None}
    folder = arm.trained.folder / EVALUATIONS
    (folder / TIMING).mkdir(parents=True, exist_ok=True)
    write_json(folder / TIMING / f"{name}.json", times)
    write_csv(folder / f"{name}.utterances.csv", rows)
    # written last, because readers of this file expect the other files to exist
    write_json(folder / f"{name}.json", {**content, "sets": {key: as_json(result) for key, result in sets.items()}})
    return Evaluation(arm.trained.folder, name, content, times)


def log_probs_of(trained: Trained, name: str, with_activations: bool = False) -> LogProbs:
    """Return a set's log-probabilities from the run folder. If they are missing, compute them on the run's device.

    with_activations: whether the outputs of the auxiliary loss's layer are also needed.
    """
    return stored_log_probs(trained, name, *_forward_pass(trained), with_activations)


def _forward_pass(trained: Trained) -> tuple[torch.device, Precision]:
    """Return the run's device, and a function that creates the context for the run's precision."""
    devices = device_count(trained.cfg)
    precision = trainer(trained.cfg, devices, [], []).precision_plugin.forward_context
    return torch.device("cuda" if devices else "cpu"), precision


def _is_untrained(arm: DecodingArm, sets: Sequence[LogProbs]) -> bool:
    """Return whether the greedy WER over all sets exceeds UNTRAINED, and print a message if so."""
    greedy = Greedy(arm.trained.task.alphabet)
    rows: list[UtteranceRow] = []
    for log_probs in sets:
        outputs = [torch.from_numpy(row.astype("float32")) for row in log_probs.read()]
        rows += log_probs.rows_with([greedy(row[None], torch.tensor([len(row)]))[0] for row in outputs])
    if (wer := rates(rows).wer) <= UNTRAINED:
        return False
    print(
        f"{arm.trained.folder.name}: skipped, because with a greedy WER of {100 * wer:.0f} % the model has learnt too "
        f"little for decoder={decoder_name(arm.cfg)} (untrained=decode decodes it anyway)"
    )
    return True


def _list_times(log_probs: LogProbs, decoded: Decoded, processes: int) -> Json:
    """Return the decoding times of one set. The real-time factor is (forward + decoding time) / audio duration."""
    utterances = max(1, len(decoded.texts))
    return {
        "forward_seconds": log_probs.seconds,
        "forward_device": log_probs.device,
        "decode_seconds": decoded.seconds,
        "decode_core_seconds": decoded.core_seconds,
        "processes": processes,
        "utterances_per_second": utterances / max(decoded.seconds, 1e-9),
        "utterances_per_core_second": utterances / max(decoded.core_seconds, 1e-9),
        "real_time_factor": (log_probs.seconds + decoded.seconds) / max(log_probs.audio_seconds, 1e-9),
    }


def _describe_identity(arm: DecodingArm, tuning: Json | None, sets: Sequence[LogProbs]) -> Json:
    """Return all settings that affect the transcripts of an evaluation. Files are described by name and SHA-256."""
    decoder = OmegaConf.to_container(arm.cfg.decoder, resolve=True)
    assert isinstance(decoder, dict)
    described = {}
    for key, file in getattr(arm.decoder, "files", {}).items():
        # a file written by src/lm.py is named after its model's folder
        name = file.parent.name if (file.parent / RECORD).exists() else file.name
        described[key] = {"path": decoder.pop(key), "name": name, "sha256": sha256(file)}
    decoder = {key: value for key, value in decoder.items() if not str(key).endswith(SHA256)}  # `files` has the hashes
    return {
        "name": decoder_name(arm.cfg),
        "run": arm.trained.folder.name,
        "checkpoint": arm.trained.checkpoint.name,
        "decoder": {str(key): value for key, value in decoder.items()} | (tuning["chosen"] if tuning else {}),
        "files": described,
        "tuning": tuning,
        "log_probs": [log_probs.file.name for log_probs in sets],
        "test_sets": [name for name, heard in arm.sets.items() if heard.is_test],
        **describe_sets(arm.trained, arm.sets),
    }


def evaluation_name(decoder: str, content: Json) -> str:
    """Return the name <decoder>-<hash>, where the hash covers all settings that affect the result."""
    return f"{decoder}-{hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:8]}"


def print_evaluations(evaluations: Sequence[Evaluation], overrides: Sequence[Sequence[str]]) -> None:
    """Print a table of all evaluations, with a row for each set (Baunsgaard2020 table 3).

    overrides: command-line overrides of each evaluation. Rows are labelled with those that differ between evaluations.
    """
    terminal = console()
    table = Table(title="evaluations", title_justify="left")
    for column in ("decoder", *HEAD):
        table.add_column(column, justify="left" if column in ("decoder", "set") else "right", overflow="fold")
    for evaluation, label in zip(evaluations, _make_labels(evaluations, overrides), strict=True):
        for number, (name, result) in enumerate(evaluation.content["sets"].items()):
            times = evaluation.times[name]
            table.add_row(
                "" if number else label,
                name,
                *(f"{100 * getattr(result, key):.2f}" for key in ("wer", "cer", "cer_longer")),
                *(str(getattr(result, key)) for key in ("substitutions", "deletions", "insertions")),
                f"{times['decode_seconds']:.2f}",
                f"{times['utterances_per_second']:.1f}",
                f"{times['real_time_factor']:.4f}",
            )
    if evaluations:
        terminal.print(table)
    for evaluation in evaluations:
        if tuning := evaluation.content["tuning"]:
            chosen = ", ".join(f"{key}={value:.3f}" for key, value in tuning["chosen"].items())
            terminal.print(
                f"tuned on {tuning['set']} in {tuning['trials']} trials: {chosen}; the WER went from "
                f"{100 * tuning['wer_untuned']:.2f} to {100 * tuning['wer']:.2f} % ({tuning['file']})",
                soft_wrap=True,
                markup=False,
            )
        terminal.print(f"{evaluation.folder / EVALUATIONS / evaluation.name}.json", soft_wrap=True, markup=False)


def _make_labels(evaluations: Sequence[Evaluation], overrides: Sequence[Sequence[str]]) -> list[str]:
    """Return a label for each evaluation: decoder, overrides that differ, and the run if there are several runs."""
    several = len({evaluation.folder for evaluation in evaluations}) > 1
    shared = set.intersection(*map(set, overrides)) if overrides else set()
    labels = []
    for evaluation, words in zip(evaluations, overrides, strict=True):
        varied = [word for word in words if word not in shared and not word.startswith(("run=", "decoder="))]
        run = [evaluation.content["run"]] if several else []
        name = evaluation.content["name"]
        labels.append(" ".join([name, *(word.removeprefix("decoder.") for word in varied), *run]))
    return labels

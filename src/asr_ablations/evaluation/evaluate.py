"""evaluate(requests): runs loaded, one pool forked, log-probabilities stored, sets decoded, records written."""

import hashlib
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from omegaconf import DictConfig, OmegaConf
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from asr_ablations.components.decoder.greedy import Greedy
from asr_ablations.config.build import build
from asr_ablations.evaluation.log_probs import Stored, stored
from asr_ablations.evaluation.pool import Decoded, Pool, process_count
from asr_ablations.evaluation.record import Evaluation, name_of, set_content, set_rows
from asr_ablations.evaluation.request import runs_of
from asr_ablations.evaluation.terminal import print_evaluations
from asr_ablations.evaluation.tuning import Tuning, tune, tuning_set
from asr_ablations.experiment.utterances import rates
from asr_ablations.tools.errors import choices
from asr_ablations.training.assembly import device_count, trainer
from asr_ablations.training.load import Trained, load_run
from asr_ablations.training.quiet import quiet

UNTRAINED = 0.9
"""Greedy WER over which a model counts as untrained: a beam search would take some thirty times as long on it, for
nothing.
"""


class Arm(NamedTuple):
    """One request on one run, with the number of its decoder in the pool."""

    cfg: DictConfig
    trained: Trained
    sets: list[str]
    decoder: int


def evaluate(requests: Sequence[DictConfig]) -> list[list[Evaluation]]:
    """The evaluations of every request, one a run. Raises UsageError for what cannot be loaded or is out of range."""
    quiet()
    runs: dict[tuple[Path, str], Trained] = {}
    arms: list[Arm] = []
    decoders: list[Any] = []
    counts: list[int] = []
    for cfg in requests:
        paths = runs_of(Path(str(cfg.run)))
        counts.append(len(paths))
        for path in paths:
            if (path, cfg.checkpoint) not in runs:
                runs[path, cfg.checkpoint] = _load(path, cfg)
            trained = runs[path, cfg.checkpoint]
            arms.append(Arm(cfg, trained, _sets(cfg, trained), len(decoders)))
            decoders.append(build(cfg.decoder)(trained.task.alphabet))
    for trained in runs.values():
        trained.data.corpus.prepare()
    with Pool(decoders, process_count(requests[0].processes)) as pool, _bar() as bar:
        done = [_evaluate(arm, decoders[arm.decoder], pool, bar) for arm in arms]
    print_evaluations([one for one in done if one is not None], [arm.cfg.overrides for arm in arms])
    found = iter(done)
    return [[one for one in (next(found) for _ in range(count)) if one is not None] for count in counts]


def _bar() -> Progress:
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    return Progress(*columns, transient=True, disable=not sys.stdout.isatty())


def _load(path: Path, cfg: DictConfig) -> Trained:
    trained = load_run(path, cfg.checkpoint, root=cfg.root)
    OmegaConf.update(trained.cfg, "gpus", cfg.gpus)
    return trained


def _sets(cfg: DictConfig, trained: Trained) -> list[str]:
    corpus = trained.data.corpus
    there = list(dict.fromkeys([*corpus.validation, *corpus.test]))
    asked = [cfg.sets] if isinstance(cfg.sets, str) else list(cfg.sets or there)
    for name in asked:
        if name not in there:
            raise choices("sets", name, there)
    return asked


def _evaluate(arm: Arm, decoder: Any, pool: Pool, bar: Progress) -> Evaluation | None:
    """None where the model is not worth the search."""
    tuned_on = tuning_set(arm.cfg, decoder, arm.trained.data) if arm.cfg.tune.trials else None
    names = list(dict.fromkeys([*arm.sets, *([tuned_on] if tuned_on else [])]))
    found = {name: log_probs_of(arm.trained, name) for name in names}
    if getattr(decoder, "searches", False) and arm.cfg.untrained == "skip" and _untrained(arm, found):
        return None
    tuning = None
    if tuned_on is not None:
        tuning = tune(arm.cfg, arm.decoder, decoder, pool, found[tuned_on], arm.trained.folder, bar)
    values = tuning.chosen if tuning else {}
    rows, sets = [], {}
    for name in arm.sets:
        decoded = _decode(arm, found[name], pool, bar, values)
        own = set_rows(found[name], decoded.texts)
        rows += own
        sets[name] = set_content(found[name], decoded, own, pool.processes)
    told = _identity(arm, decoder, tuning, [found[name] for name in arm.sets])
    evaluation = Evaluation(arm.trained.folder, name_of(told["name"], told), {**told, "sets": sets}, rows)
    evaluation.write()
    return evaluation


def log_probs_of(trained: Trained, name: str) -> Stored:
    """The log-probabilities of a set from the run's folder, computed on the run's own device if they are missing."""
    devices = device_count(trained.cfg)
    device = torch.device("cuda" if devices else "cpu")
    return stored(trained, name, device, trainer(trained.cfg, devices, [], []).precision_plugin.forward_context)


def _decode(arm: Arm, found: Stored, pool: Pool, bar: Progress, values: dict[str, float]) -> Decoded:
    task = bar.add_task(f"{_name(arm.cfg)} on {found.name}", total=len(found.utterances))
    decoded = pool.decode(arm.decoder, found, values, lambda: bar.advance(task))
    bar.remove_task(task)
    return decoded


def _untrained(arm: Arm, found: dict[str, Stored]) -> bool:
    """Whether the greedy WER over all sets is beyond UNTRAINED, which is told."""
    greedy = Greedy(arm.trained.task.alphabet)
    rows = []
    for one in found.values():
        outputs = [torch.from_numpy(row.astype("float32")) for row in one.open()]
        rows += set_rows(one, [greedy(row[None], torch.tensor([len(row)]))[0] for row in outputs])
    if (wer := rates(rows)["wer"]) <= UNTRAINED:
        return False
    print(f"{arm.trained.folder.name}: greedy WER is {100 * wer:.0f} %, too little was learnt for decoder="
          f"{_name(arm.cfg)}: skipped (untrained=decode overrules)")  # fmt: skip
    return True


def _name(cfg: DictConfig) -> str:
    """The decoder as its file is called."""
    return str(cfg.decoder._target_).split(".")[-2]


def _identity(arm: Arm, decoder: Any, tuning: Tuning | None, sets: list[Stored]) -> dict[str, Any]:
    """What the evaluation is of: everything that can change its texts, files by their content."""
    node: Any = OmegaConf.to_container(arm.cfg.decoder, resolve=True)
    files = {key: {"path": node.pop(key), **_described(file)} for key, file in getattr(decoder, "files", {}).items()}
    corpus = arm.trained.data.corpus
    return {
        "name": _name(arm.cfg),
        "run": arm.trained.folder.name,
        "checkpoint": arm.trained.checkpoint.name,
        "decoder": {**node, **(tuning.chosen if tuning else {})},
        "files": files,
        "tuning": tuning.told if tuning else None,
        "log_probs": [one.file.name for one in sets],
        "test_sets": [one.name for one in sets if one.name in corpus.test],
    }


def _described(file: Path) -> dict[str, str]:
    """A file's name, of a model in a folder of src/lm.py the folder's; and a hash of its content."""
    digest = hashlib.sha256()
    with file.open("rb") as opened:
        while block := opened.read(1 << 20):
            digest.update(block)
    named = file.parent.name if (file.parent / "lm.json").exists() else file.name
    return {"name": named, "sha256": digest.hexdigest()}

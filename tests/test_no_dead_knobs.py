"""Every key of the config does something, or is declared to steer the machine and does nothing to the numbers."""

import copy
import functools
import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
import pytorch_lightning as pl
import torch
from hydra.utils import get_object
from omegaconf import DictConfig, OmegaConf

from asr_ablations.config.build import build
from asr_ablations.config.plain_keys import check
from asr_ablations.experiment.utterances import transcribe_set
from asr_ablations.runs.identity import content, refuse_changed_files, weights_file
from asr_ablations.tools import content_keys
from asr_ablations.training import assembly
from asr_ablations.training.assembly import assemble, device_count, trainer, use_native
from asr_ablations.training.checkpoints import best_checkpoint
from asr_ablations.training.trained_model import start_from
from asr_verdicts.config import MACHINE_KEYS
from asr_verdicts.errors import UsageError
from tests.helpers.every_key import Knob, chosen, every_hint, every_knob, stale_hints
from tests.helpers.ranks import run_ranks
from tests.helpers.run_results import results, same, train
from tests.helpers.support import CONF, REPOSITORY, compose, group_options

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*lr_scheduler.step.*before.*optimizer.step"),  # a skipped outlier
    pytest.mark.filterwarnings("ignore:Total length of `DataLoader` across ranks is zero"),  # nobody is held out
]
Seen = dict[str, Any]  # aspects by name, each comparable with ==
MACHINE = [knob for knob in every_knob() if knob.root in MACHINE_KEYS and knob.root != "weights"]
KNOBS = [pytest.param(knob, id=str(knob)) for knob in every_knob() if knob not in MACHINE]
TWO_RANKS = """
import json, sys, warnings
warnings.simplefilter("ignore")
sys.path[:0] = [{source!r}, {tests!r}]
from omegaconf import OmegaConf
from asr_ablations.tools.machine import rank
from tests.test_no_dead_knobs import fitted
seen = {{text: fitted(OmegaConf.create(json.loads(text))) for text in json.load(open({configs!r}))}}
if not rank():
    open({result!r}, "w").write(json.dumps(seen))
"""


@pytest.fixture(autouse=True)
def as_many_threads() -> Iterator[None]:
    """The key `threads` sets them for the process."""
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)


@pytest.fixture(autouse=True, scope="module")
def what_is_the_same_is_made_once() -> Iterator[None]:
    """Build equal configs once, unless they draw random numbers; no test here changes the source of keys."""
    built: dict[tuple[Any, str], Any] = {}

    def build_once(node: DictConfig, *positional: Any, **keywords: Any) -> Any:
        key = (node._key(), json.dumps(OmegaConf.to_container(node, resolve=True)))
        if positional or keywords or key not in built:
            before = torch.get_rng_state()
            made = build(node, *positional, **keywords)
            if positional or keywords or not torch.equal(torch.get_rng_state(), before):
                return made
            built[key] = made
        return built[key] if node.get("_partial_") else copy.deepcopy(built[key])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(assembly, "build", build_once)
        patch.setattr(content_keys, "hash_source", functools.cache(content_keys.hash_source))
        yield


@functools.cache
def written(words: tuple[str, ...]) -> tuple[str, str]:
    """A config's resolved text, and that of what is part of a run's identity."""
    return texts_of(compose(*words))


def resolved(cfg: DictConfig) -> DictConfig:
    OmegaConf.resolve(cfg)
    return cfg


def texts_of(cfg: DictConfig) -> tuple[str, str]:
    return json.dumps(OmegaConf.to_container(cfg, resolve=True)), json.dumps(content(cfg))


@functools.cache
def begun(words: tuple[str, ...]) -> Seen:
    return dict(first_parts(resolved(compose(*words))))


@functools.cache
def ended(words: tuple[str, ...]) -> Seen:
    return fitted(resolved(compose(*words)))


@pytest.mark.slow
@pytest.mark.parametrize("knob", KNOBS)
def test_a_key_acts_or_is_declared_to_steer_the_machine(knob: Knob, places: Path) -> None:
    """What is in a run's identity changes set-up, steps or fit, or is refused; nothing else changes a bit."""
    words, after = tuple(knob.words(places)), resolved(knob.after(places))
    (text, own), (other_text, other) = written(words), texts_of(after)
    assert text != other_text, f"{knob}: not turned"
    try:
        changed = changes(knob, words, after, places)
    except UsageError as error:
        if not knob.case.refused or knob.case.refused not in str(error):
            raise
        changed = [f"refused: {error}"]
    if own == other:
        assert not changed, f"{knob} is no part of a run's identity, and changes {', '.join(changed)}"
    else:
        assert changed, f"{knob} is dead: nothing in set-up, batches, steps, validation or decoding is another"


def changes(knob: Knob, words: tuple[str, ...], after: DictConfig, places: Path) -> list[str]:
    """The first aspect that differs; of a fit to the end, where nothing does up to the second step, all of them."""
    if after.ranks == 2:
        one, other = (in_two_ranks(places).get(text) for text in (written(words)[0], texts_of(after)[0]))
        return differing(one or ended(words), other)
    if not knob.key or knob.case.refused or not knob.option:
        check(after)
    if changed := next((aspect for aspect, value in first_parts(after) if value != begun(words)[aspect]), None):
        return [changed]
    return differing(ended(words), fitted(after))


def first_parts(cfg: DictConfig) -> Iterator[tuple[str, Any]]:
    """What a training does up to its second step, without a trainer. Raises UsageError as that would."""
    refuse_changed_files(OmegaConf.to_container(cfg))
    yield "devices", device_count(cfg)
    use_native(cfg, 0)
    task, data = assemble(*for_training(cfg))
    if cfg.weights is not None:
        start_from(task, weights_file(cfg.weights), cfg.weights_sha256, cfg.weights_parts)
    yield "first weights", weights_of(task.model)
    yield "decoding", decoded(cfg, task)
    data.corpus.prepare()
    data.setup()
    yield "data", data.describe()
    order: Any = data.train_dataloader().batch_sampler
    yield "batches", [(order.set_epoch(epoch), [list(map(int, batch)) for batch in order])[1] for epoch in range(2)]
    order.set_epoch(0)
    task.loss.prepare(data.sets, torch.device("cpu"))
    task.train().log = lambda *_, **__: None  # type: ignore[method-assign,assignment]
    optimizer, losses = task.make_optimizer(task.model.named_parameters()), []
    for number, batch in enumerate([*data.train_dataloader()][:2]):
        optimizer.zero_grad()
        losses.append(task.training_step(batch, number))
        losses[-1].backward()
        task.configure_gradient_clipping(optimizer)
        optimizer.step()
    yield "steps", ([float(loss.detach()) for loss in losses], weights_of(task.model))


def for_training(cfg: DictConfig) -> tuple[DictConfig, Any]:
    """A config whose decoder a training can have, and its corpus."""
    greedy = OmegaConf.load(CONF / "decoder" / "greedy.yaml")
    merged = OmegaConf.merge(cfg, {"decoder": None}, {"decoder": greedy}) if rescores(cfg) else cfg
    return merged, corpus_of(json.dumps(OmegaConf.to_container(cfg.data, resolve=True)))  # type: ignore[return-value]


@functools.cache
def corpus_of(data: str) -> Any:
    """It keeps what it has read."""
    return build(OmegaConf.create({"data": json.loads(data)}).data)


def rescores(cfg: DictConfig) -> bool:
    return hasattr(get_object(cfg.decoder._target_), "rescore")


def decoded(cfg: DictConfig, task: Any) -> list[str]:
    """The decoder's texts for a model that is not sure, so that each choice of a search shows."""
    generator, lengths = torch.Generator().manual_seed(0), torch.tensor([60, 40, 1, 0])
    log_probs = (2 * torch.randn(4, 60, task.alphabet.outputs, generator=generator)).log_softmax(dim=-1)
    if not rescores(cfg):
        return list(task.decoder(log_probs, lengths))
    decoder = build(cfg.decoder)(task.alphabet)
    decoder.attach(task.model)
    noise = torch.randn(4, 60, task.model.get_submodule("auxiliary").size, generator=generator.manual_seed(0))
    rows = zip(log_probs, noise, lengths.tolist(), strict=True)
    return [decoder.rescore(row[:length], layer[:length]) for row, layer, length in rows]


def fitted(cfg: DictConfig) -> Seen:
    """Build, fit and evaluate as experiment.run does, without a folder. Raises UsageError as that would."""
    check(cfg)
    refuse_changed_files(OmegaConf.to_container(cfg))
    devices = device_count(cfg)
    task, data = assemble(*for_training(cfg))
    corpus = data.corpus
    if cfg.weights is not None:
        start_from(task, weights_file(cfg.weights), cfg.weights_sha256, cfg.weights_parts)
    corpus.prepare()
    data.setup()
    steps: Seen = {"batches": [], "learning rates": [], "losses": [], "weights": [], "validation": []}

    class Steps(pl.Callback):
        def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
            steps["batches"].append(batch.ids)
            steps["learning rates"].append(trainer.optimizers[0].param_groups[0]["lr"])
            steps["losses"].append(float(outputs["loss"]))
            steps["weights"].append(weights_of(pl_module.model))

        def on_validation_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
            figures = {k: float(v) for k, v in trainer.callback_metrics.items() if k.startswith("validation")}
            steps["validation"].append(dict(sorted(figures.items())))

    with TemporaryDirectory() as folder:
        best = best_checkpoint(Path(folder), corpus.validation[0], cfg.best)
        fitter = trainer(cfg, devices, [], [Steps(), best])
        fitter.fit(task, data)
    sets = dict.fromkeys([*corpus.validation, *corpus.test])
    precision = fitter.precision_plugin.forward_context
    rows = [row for name in sets for row in transcribe_set(task, data, name, precision, advance=lambda done: None).rows]
    return {
        **steps,
        "rounding": [torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32],
        "modules": [type(part).__qualname__ for part in (*task.modules(), *fitter.callbacks, data.cache)],  # type: ignore[attr-defined]
        "best checkpoint": None if best.best_model_score is None else float(best.best_model_score),
        "figures": {k: float(v) for k, v in sorted(fitter.callback_metrics.items())},
        "transcripts": [[row["set"], row["id"], row["reference"], row["hypothesis"]] for row in rows],
    }


def weights_of(model: Any) -> str:
    digest = hashlib.sha256()
    for value in (value for value in model.state_dict().values() if isinstance(value, torch.Tensor)):
        digest.update(repr((value.dtype, value.shape)).encode())
        digest.update(np.ascontiguousarray(value.detach().float().numpy()).tobytes())
    return digest.hexdigest()


def differing(one: Seen, other: Seen) -> list[str]:
    """The aspects of `other` that are not the same."""
    return [aspect for aspect in other if one[aspect] != other[aspect]]


@functools.cache
def in_two_ranks(places: Path) -> dict[str, Seen]:
    """The fits of all configs that want two ranks, by their text: in one pair of processes."""
    knobs = [knob for knob in every_knob() if knob.key == "ranks" or "ranks=2" in knob.case.beside]
    both = [text for knob in knobs for text in (written(tuple(knob.words(places)))[0], texts_of(knob.after(places))[0])]
    texts = [text for text in dict.fromkeys(both) if json.loads(text)["ranks"] == 2]
    with TemporaryDirectory() as folder:
        configs, result, script = (Path(folder) / name for name in ("configs.json", "seen.json", "worker.py"))
        configs.write_text(json.dumps(texts), encoding="utf-8")
        paths = {"source": str(REPOSITORY / "src"), "tests": str(REPOSITORY)}
        script.write_text(TWO_RANKS.format(configs=str(configs), result=str(result), **paths), encoding="utf-8")
        done = run_ranks(script)
        assert result.exists(), done.stderr
        return json.loads(result.read_text())  # type: ignore[no-any-return]


@pytest.mark.slow
def test_keys_of_the_machine_change_no_bit_of_a_run(places: Path, tmp_path: Path) -> None:
    """All of them at once; but `threads`, with which sums are taken in another order."""
    plain = compose(*Knob("", "progress").words(places), f"outputs={tmp_path / 'plain'}")
    options = {knob.option for knob in MACHINE if not knob.key}
    chosen = [option for option in options if not option.startswith("logger=")]
    turned = compose(*Knob("", "progress").words(places), *chosen, "logger=several")
    OmegaConf.set_struct(turned, False)
    for name in (option.partition("=")[2] for option in options if option.startswith("logger=")):
        turned.logger.loggers[name] = compose(f"logger={name}").logger
    for knob in MACHINE:
        if knob.key and knob.key not in ("threads", "outputs"):
            assert texts_of(knob.after(places))[1] == written(tuple(knob.words(places)))[1], knob
            value = OmegaConf.select(knob.after(places), knob.key)
            key = knob.key
            if knob.option.startswith("logger="):
                key = key.replace("logger.", f"logger.loggers.{knob.option.partition('=')[2]}.")
            OmegaConf.update(turned, key, value, merge=False, force_add=True)
    turned.outputs = str(tmp_path / "turned")
    assert content(turned) == content(plain)
    one, other = train(plain), train(turned)
    assert same(results(one), results(other))
    plain.threads, plain.outputs = 2, str(tmp_path / "threads")
    rounded, losses = (np.loadtxt(folder / "losses.csv", delimiter=",", skiprows=1, usecols=1)
                       for folder in (train(plain), one))  # fmt: skip
    np.testing.assert_allclose(rounded, losses, rtol=1e-3, atol=0)
    assert losses.size


def test_every_leaf_of_the_default_config_is_walked() -> None:
    """Also those that options set for all, as a model sets width."""
    walked = {knob.key for knob in every_knob()}
    leaves = OmegaConf.to_container(compose("data.train=[train]"), resolve=False)
    assert len(walked) > 100
    assert not {key for key in leaves if not any(k == key or k.startswith(f"{key}.") for k in {*walked, *chosen()})}


def test_hints_name_options_and_keys_of_their_files() -> None:
    options = ["", *(f"{group}={name}" for group in chosen() for name in group_options(group))]
    assert not {*every_hint()} - {*options, "config"}
    assert {option: names for option in options if (names := stale_hints(option))} == {}

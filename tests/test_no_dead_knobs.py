"""Every key of the config does something, or is declared to steer the machine and does nothing to the numbers."""

import functools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from omegaconf import DictConfig, OmegaConf

from asr_ablations.runs.identity import content
from asr_verdicts.config import MACHINE_KEYS
from asr_verdicts.errors import UsageError
from tests.helpers.every_key import Knob, chosen, every_hint, every_knob, stale_hints
from tests.helpers.layouts import write_layouts
from tests.helpers.observation import Seen, differing, kept, observe
from tests.helpers.ranks import run_ranks
from tests.helpers.run_results import train
from tests.helpers.support import REPOSITORY, compose, group_options

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*lr_scheduler.step.*before.*optimizer.step"),  # a skipped outlier
    pytest.mark.filterwarnings("ignore:Total length of `DataLoader` across ranks is zero"),  # nobody is held out
]
TWO_RANKS = """
import json, sys, warnings
warnings.simplefilter("ignore")
sys.path[:0] = [{source!r}, {tests!r}]
from omegaconf import OmegaConf
from asr_ablations.tools.machine import rank
from tests.helpers.observation import observe
seen = observe(OmegaConf.create(json.load(open({config!r}))))
if not rank():
    open({result!r}, "w").write(json.dumps(seen))
"""


KNOBS = [pytest.param(knob, id=str(knob)) for knob in every_knob()]


@pytest.fixture(scope="module")
def places(tiny_corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that <name> lies in."""
    folder = tmp_path_factory.mktemp("places")
    write_layouts(tiny_corpus, folder)
    return folder


@functools.cache
def seen(text: str) -> Seen:
    """Configs are observed once each, in as many processes as they ask for."""
    cfg = thawed(text)
    return _in_processes(text) if cfg.ranks == 2 else observe(cfg)


def _in_processes(text: str) -> Seen:
    from tempfile import TemporaryDirectory

    with TemporaryDirectory() as folder:
        config, result, script = (Path(folder) / name for name in ("config.json", "seen.json", "worker.py"))
        config.write_text(text, encoding="utf-8")
        paths = {"source": str(REPOSITORY / "src"), "tests": str(REPOSITORY)}
        script.write_text(TWO_RANKS.format(config=str(config), result=str(result), **paths), encoding="utf-8")
        done = run_ranks(script)
        assert result.exists(), done.stderr
        found: Seen = json.loads(result.read_text())
    return found


def frozen(cfg: DictConfig) -> str:
    """All values, in text: YAML would take longer than many a fit."""
    return json.dumps(OmegaConf.to_container(cfg, resolve=True))


def thawed(text: str) -> Any:
    return OmegaConf.create(json.loads(text))


@pytest.mark.slow
@pytest.mark.parametrize("knob", KNOBS)
def test_a_key_acts_or_is_declared_to_steer_the_machine(
    knob: Knob, places: Path, finished: Seen, tmp_path: Path, record_property: Any
) -> None:
    """What is part of a run's identity changes the set-up, the steps, validation or decoding of a real fit, or is
    refused for a reason; what is not changes no bit of it.
    """
    before, after = knob.before(places), knob.after(places)
    texts = frozen(before), frozen(after)
    assert texts[0] != texts[1], f"{knob}: not turned"
    same_run = content(before) == content(after)
    if same_run and knob.root in MACHINE_KEYS:
        changed = differing(finished, kept(train(_kept_apart(after, knob, tmp_path))), 1e-3 * knob.case.rounds)
    else:
        changed = _changes(knob, *texts)
    record_property("changes", ", ".join(changed))
    if same_run:
        assert not changed, f"{knob} is no part of a run's identity, and changes {', '.join(changed)}"
    else:
        assert changed, f"{knob} is dead: nothing in set-up, batches, steps, validation or decoding is another"


def _changes(knob: Knob, before: str, after: str) -> list[str]:
    """An option is fitted to the end; of a key the first change is enough."""
    try:
        one, cfg = seen(before), thawed(after)
        return differing(one, seen(after) if cfg.ranks == 2 or not knob.key else observe(cfg, unlike=one))
    except UsageError as error:
        if knob.case.refused and knob.case.refused in str(error):
            return [f"refused: {error}"]
        raise


def _kept_apart(cfg: DictConfig, knob: Knob, folder: Path) -> DictConfig:
    if knob.key != "outputs":
        cfg.outputs = str(folder)
    return cfg


@pytest.fixture(autouse=True)
def as_many_threads() -> Iterator[None]:
    """The key `threads` sets them for the process."""
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def finished(places: Path, tmp_path_factory: pytest.TempPathFactory) -> Seen:
    """Of the run that keys of the machine are turned in."""
    cfg = Knob("", "progress").before(places)
    cfg.outputs = str(tmp_path_factory.mktemp("outputs"))
    return kept(train(cfg))


def test_a_key_that_nothing_reads_is_found_out(places: Path) -> None:
    before = Knob("", "seed").before(places)
    after = Knob("", "seed").before(places)
    OmegaConf.update(after, "sead", 1, force_add=True)
    assert content(before) != content(after)
    assert not differing(seen(frozen(before)), seen(frozen(after)))


def test_a_fit_ends_at_its_first_difference_from_another(places: Path) -> None:
    before = Knob("", "seed").before(places)
    after = Knob("", "seed").before(places)
    after.optimizer.lr /= 2
    one = seen(frozen(before))
    assert observe(before, unlike=one) == one
    ended = observe(after, unlike=one)
    assert ended.keys() == {"learning rates", "weights"}
    assert len(ended["weights"]) == 1 < len(one["weights"])


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

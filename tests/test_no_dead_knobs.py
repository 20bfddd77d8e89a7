"""Every key of the config does something, or is declared to steer the machine and does nothing to the numbers."""

import functools
from pathlib import Path
from typing import Any

import pytest
from omegaconf import DictConfig, OmegaConf

from asr_ablations.errors import UsageError
from asr_ablations.run import content
from every_key import Knob, every_knob
from observation import Seen, differing, observe
from support import LIGHTNING_WARNINGS

pytestmark = [pytest.mark.filterwarnings(line) for line in LIGHTNING_WARNINGS]
KNOBS = every_knob()


@functools.cache
def seen(text: str) -> Seen:
    """Configs are observed once each."""
    cfg: Any = OmegaConf.create(text)
    return observe(cfg)


def frozen(cfg: DictConfig) -> str:
    return OmegaConf.to_yaml(cfg, resolve=True)


@pytest.mark.parametrize("knob", KNOBS, ids=str)
def test_it_changes_something(knob: Knob, tiny_corpus: Path) -> None:
    before, after = knob.before(tiny_corpus), knob.after(tiny_corpus)
    if content(before) == content(after):
        pytest.skip("inert")
    try:
        found = differing(seen(frozen(before)), seen(frozen(after)))
    except UsageError as error:
        assert knob.case.refused and knob.case.refused in str(error), f"{knob}: {error}"
    else:
        print(knob, found)
        assert found, f"{knob} is dead: turned, nothing in set-up, batches, steps, validation or decoding is another"

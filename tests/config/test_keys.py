"""A key that nothing reads is refused, with the nearest one that exists."""

from collections.abc import Callable
from typing import Any

import pytest
from omegaconf import DictConfig

from asr_ablations.config.checks import check
from asr_ablations.config.compose import compose as compose_file
from asr_ablations.config.keys import known
from asr_ablations.evaluation.request import check_requests
from asr_ablations.onnx_export.request import check_request as check_export
from asr_ablations.tools.errors import UsageError
from asr_ablations.tools.paths import CONF
from asr_ablations.transcription.request import check_request as check_transcription
from tests.helpers.support import compose


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("+debug=x", "^debug: there is no such key; docs/options.md lists them all$"),
        ("+lr=1e-3", "^lr: there is no such key; nearest: optimizer.lr$"),
        ("+max_epoch=3", "^max_epoch: there is no such key; nearest: max_epochs"),
        ("+batch.sizes=3", "^batch.sizes: there is no such key; nearest: batch.size"),
        ("+seeds.init_=3", "^seeds.init_: there is no such key; nearest: seeds.init"),
    ],
)
def test_an_added_key_is_refused(override: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        check(added(override))


def added(override: str) -> DictConfig:
    cfg = compose(override)
    cfg.overrides = [override]
    return cfg


@pytest.mark.parametrize("override", ["+optimizer.amsgrad=true", "+ablation.factor=rnn", "++seed=3"])
def test_what_something_reads_may_be_added(override: str) -> None:
    assert check(added(override)) is None


def test_a_strangers_overrides_may_be_anything() -> None:
    cfg = compose()
    cfg.overrides = {"a": "b"}
    assert check(cfg) is None


@pytest.mark.parametrize(
    ("primary", "check_request"),
    [("evaluation", check_requests), ("export", check_export), ("transcribe", check_transcription)],
)
def test_other_commands_refuse_them_too(primary: str, check_request: Callable[[Any], None]) -> None:
    cfg = compose_file(CONF, ["+decoders=beam", "overrides=[]"], name=primary, folder=None)
    cfg.overrides = ["+decoders=beam"]
    with pytest.raises(UsageError, match=r"^decoders: there is no such key"):
        check_request(cfg)


def test_every_primary_file_knows_its_own_keys() -> None:
    for path in CONF.glob("*.yaml"):
        plain, groups = known(path.stem)
        assert not {*plain} & {*groups}
        assert "data" in groups or path.stem in ("evaluation", "export", "transcribe"), path.stem

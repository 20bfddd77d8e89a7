"""A training that starts from given weights: which they are, what does not fit, and whose run it is."""

import os
from pathlib import Path
from typing import Any

import pytest
import torch

from asr_ablations.config.build import build
from asr_ablations.config.plain_keys import check
from asr_ablations.config.resolvers import weights_file
from asr_ablations.experiment.run import set_up
from asr_ablations.runs.identity import identity
from asr_ablations.tools.errors import UsageError
from asr_ablations.tools.files import sha256
from asr_ablations.training.assembly import assemble
from tests.helpers.support import compose, tiny_overrides
from tests.helpers.trained_runs import write_trained

SMALL = ("width=8", "layers=1", "gpus=0", "logger=csv")


@pytest.fixture(scope="module")
def trained(tiny_corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_trained(tmp_path_factory.mktemp("runs"), tiny_corpus, "seed=7")


def started(corpus: Path, *overrides: str) -> dict[str, torch.Tensor]:
    """The weights before the first step of a run."""
    cfg = compose(*tiny_overrides(corpus), *SMALL, *overrides)
    check(cfg)
    model: Any = set_up(cfg).task.model
    return {key: value for key, value in model.state_dict().items() if isinstance(value, torch.Tensor)}


def drawn(corpus: Path, *overrides: str) -> dict[str, torch.Tensor]:
    """The weights that a run without others draws."""
    cfg = compose(*tiny_overrides(corpus), *SMALL, *overrides)
    model: Any = assemble(cfg, build(cfg.data))[0].model
    return dict(model.state_dict())


def test_a_run_starts_from_all_weights_of_a_folder_or_file(trained: Path, tiny_corpus: Path) -> None:
    expected = drawn(tiny_corpus, "seed=7")
    for path in (trained, trained / "checkpoints" / "best.ckpt"):
        weights = started(tiny_corpus, f"weights={path}")
        assert all(torch.equal(weights[key], expected[key]) for key in expected)


def test_a_run_starts_from_a_part(trained: Path, tiny_corpus: Path) -> None:
    weights = started(tiny_corpus, f"weights={trained}", "weights_parts=[recurrent.0]")
    own, given = drawn(tiny_corpus), drawn(tiny_corpus, "seed=7")
    taken = [key for key in own if key.startswith("recurrent.0.")]
    assert all(torch.equal(weights[key], (given if key in taken else own)[key]) for key in own)
    assert any(not torch.equal(own[key], given[key]) for key in taken)


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["width=6"], r"recurrent\.0\.\S+ is \[\d+(, \d+)?\] there and \[\d+(, \d+)?\] here.*weights_parts"),
        (["layers=2"], r"recurrent\.1\.\S+ is not in it"),
        (["norm=none"], r"is only there"),
        (["weights_parts=[recurent]"], r"weights_parts=recurent: expected .*recurrent"),
        (["alphabet.characters='abcdefghijklmnopqrstuvwxyz -'"], r"its output is of the alphabet"),
        (["weights_sha256='00'"], "weights_sha256=00: expected 64 hexadecimal digits"),
        ([f"weights_sha256='{64 * '0'}'"], r"weights_sha256=0{64}: of \S+, the SHA-256 is [0-9a-f]{64}"),
    ],
)
def test_what_does_not_fit_is_named(overrides: list[str], message: str, trained: Path, tiny_corpus: Path) -> None:
    with pytest.raises(UsageError, match=message):
        started(tiny_corpus, f"weights={trained}", *overrides)


def test_another_alphabet_is_no_obstacle_to_parts_below_the_output(trained: Path, tiny_corpus: Path) -> None:
    other = "alphabet.characters='abcdefghijklmnopqrstuvwxyz -'"
    assert started(tiny_corpus, f"weights={trained}", "weights_parts=[convolutions,recurrent]", other)


def test_a_run_is_known_by_the_content_of_its_weights(trained: Path, tmp_path: Path) -> None:
    """Not by the name of the file."""
    last, moved = weights_file(str(trained)), tmp_path / "moved.ckpt"
    moved.write_bytes(last.read_bytes())
    ids = {identity(compose(f"weights={path}")) for path in (trained, last, moved)}
    assert len(ids) == 1
    assert identity(compose()) not in ids
    best = trained / "checkpoints" / "best.ckpt"
    assert sha256(best) != sha256(last)
    assert identity(compose(f"weights={best}")) not in ids


def test_a_file_that_would_run_code_is_refused(tiny_corpus: Path, tmp_path: Path) -> None:
    class Harm:
        def __reduce__(self) -> Any:
            return os.mkdir, (str(tmp_path / "harm"),)

    torch.save({"state_dict": {}, "harm": Harm()}, tmp_path / "harm.ckpt")
    with pytest.raises(UsageError, match="refused"):
        started(tiny_corpus, f"weights={tmp_path / 'harm.ckpt'}")
    assert not (tmp_path / "harm").exists()


def test_no_such_file_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"weights=.*nowhere: expected a run's folder or a \.ckpt, and there is no"):
        check(compose(f"weights={tmp_path / 'nowhere'}"))
    with pytest.raises(UsageError, match=r"weights_parts=.*a run's folder"):
        check(compose("weights_parts=[output]"))

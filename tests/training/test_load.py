"""Checkpoints that are loaded, and weights that a run begins with."""

import pickle
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from omegaconf import OmegaConf

from asr_ablations.config.plain_keys import check
from asr_ablations.experiment.run import set_up
from asr_ablations.runs.identity import identity, weights_file
from asr_ablations.tools.files import sha256
from asr_ablations.training.trained_model import load_run
from asr_verdicts.errors import UsageError
from tests.helpers.support import CONF, compose, tiny_overrides
from tests.helpers.trained_runs import write_trained


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run's folder with checkpoints, of a corpus that is not there."""
    folder = tmp_path_factory.mktemp("finished")
    return write_trained(folder, folder / "no-corpus")


@pytest.fixture
def run_folder(finished: Path, tmp_path: Path) -> Path:
    return shutil.copytree(finished, tmp_path / finished.name)


def test_the_weights_come_back_without_a_corpus(finished: Path) -> None:
    for path in (finished, finished / "checkpoints/best.ckpt"):
        trained = load_run(path, "best")
        expected = torch.load(finished / "checkpoints" / "best.ckpt", weights_only=True)["state_dict"]
        assert expected
        assert all(torch.equal(value, expected[key]) for key, value in trained.task.state_dict().items())
        assert not trained.task.training
        assert trained.cfg.width == 8


def test_a_planted_pickle_or_target_is_refused_and_nothing_executed(run_folder: Path, tmp_path: Path) -> None:
    file, mark = run_folder / "checkpoints" / "last.ckpt", tmp_path / "executed"

    class Payload:
        """Unpickled, it would leave a file."""

        def __reduce__(self) -> tuple[Any, tuple[str]]:
            return eval, (f"open({str(mark)!r}, 'w')",)

    content = {**torch.load(file, weights_only=True), "callbacks": Payload()}
    for plant in (lambda: torch.save(content, file), lambda: file.write_bytes(pickle.dumps(content))):
        plant()
        with pytest.raises(UsageError, match=r"last\.ckpt: refused; .* more than weights") as message:
            load_run(run_folder)
        assert "\n" not in str(message.value)
    cfg = OmegaConf.load(run_folder / "config.yaml")
    cfg.decoder = {"_target_": "os.system", "command": f"touch {mark}"}
    OmegaConf.save(cfg, run_folder / "config.yaml")
    with pytest.raises(UsageError, match=r"os\.system: refused"):
        load_run(run_folder)
    assert not mark.exists()


def test_keys_that_came_later_are_at_their_defaults(run_folder: Path) -> None:
    cfg = OmegaConf.load(run_folder / "config.yaml")
    del cfg["checkpoint_minutes"]
    OmegaConf.save(cfg, run_folder / "config.yaml")
    assert load_run(run_folder).cfg.checkpoint_minutes == OmegaConf.load(CONF / "config.yaml").checkpoint_minutes


def test_what_is_wrong_is_told_in_one_line(finished: Path, tmp_path: Path) -> None:
    def weights(change: Any) -> Any:
        def spoil(folder: Path) -> None:
            content = torch.load(folder / "checkpoints" / "last.ckpt", weights_only=True)
            change(content)
            torch.save(content, folder / "checkpoints" / "last.ckpt")

        return spoil

    def bias(change: Any) -> Any:
        key = "model.output.bias"
        return weights(lambda content: content["state_dict"].update({key: change(content["state_dict"][key])}))

    def text(name: str, written: str) -> Any:
        return lambda folder: (folder / name).write_text(written, encoding="utf-8")

    def config(change: Any) -> Any:
        def spoil(folder: Path) -> None:
            cfg = OmegaConf.load(folder / "config.yaml")
            change(cfg)
            OmegaConf.save(cfg, folder / "config.yaml")

        return spoil

    unfit = r"last\.ckpt: does not fit .*config\.yaml: model\.output\.bias "
    failed = '{"status": "failed", "reason": "no memory"}'
    for number, (spoil, message) in enumerate((
        (bias(lambda bias: bias.index_fill(0, torch.tensor(1), torch.nan)), unfit + "holds values that are"),
        (bias(lambda bias: bias.to(torch.complex64)), unfit + r"is torch\.complex64 in the file"),
        (bias(lambda bias: "text"), unfit + "is not in the file"),
        (bias(lambda bias: bias[:-1]), unfit + r"is \[\d+\] in the file and \[\d+\] in the model"),
        (weights(lambda content: content["alphabet"].update(characters="zyx ")), "does not fit .*zyx"),
        (weights(lambda content: content.update(state_dict=[])), r"last\.ckpt: not a run's checkpoint"),
        # a config as an earlier version wrote it
        (config(lambda cfg: cfg.pop("init")), r"config\.yaml: from another version, or incomplete: .*init"),
        (text("checkpoints/last.ckpt", "hello"), r"last\.ckpt: (damaged|refused)"),
        (lambda folder: (folder / "checkpoints" / "last.ckpt").unlink(), "no checkpoints/last"),
        (lambda folder: (folder / "config.yaml").unlink(), "not a run folder"),
        (text("config.yaml", "a: [b"), r"config\.yaml: cannot be read"),
        (text("config.yaml", "a: 1"), r"config\.yaml: cannot be read: it has no seed"),
        (lambda folder: (folder / "status.json").unlink(), "not finished: did not start"),
        (text("status.json", failed), "not finished: failed: no memory"),
    )):  # fmt: skip
        folder = shutil.copytree(finished, tmp_path / str(number))
        spoil(folder)
        with pytest.raises(UsageError, match=message) as error:
            load_run(folder)
        assert "\n" not in str(error.value)


def test_a_path_that_leads_nowhere(finished: Path, tmp_path: Path) -> None:
    (tmp_path / "stray.ckpt").touch()
    for path, message in (
        ("nowhere", "not a run folder"), ("nowhere.ckpt", "no such checkpoint"), ("stray.ckpt", r"no config\.yaml"),
    ):  # fmt: skip
        with pytest.raises(UsageError, match=message):
            load_run(tmp_path / path)
    with pytest.raises(UsageError, match="checkpoint=first: expected last, best"):
        load_run(finished, "first")


@pytest.fixture(scope="module")
def trained(tiny_corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_trained(tmp_path_factory.mktemp("runs"), tiny_corpus, "seed=7")


def started(corpus: Path, *overrides: str) -> dict[str, torch.Tensor]:
    """The weights before the first step of a run."""
    cfg = compose(*tiny_overrides(corpus), "width=8", "layers=1", "gpus=0", "logger=csv", *overrides)
    check(cfg)
    model: Any = set_up(cfg).task.model
    return {key: value for key, value in model.state_dict().items() if isinstance(value, torch.Tensor)}


def test_a_run_starts_from_all_weights_or_from_a_part(trained: Path, tiny_corpus: Path) -> None:
    expected = started(tiny_corpus, "seed=7")
    for path in (trained, trained / "checkpoints" / "best.ckpt"):
        weights = started(tiny_corpus, f"weights={path}")
        assert all(torch.equal(weights[key], expected[key]) for key in expected)
    weights = started(tiny_corpus, f"weights={trained}", "weights_parts=[recurrent.0]")
    own, given = started(tiny_corpus), started(tiny_corpus, "seed=7")
    taken = [key for key in own if key.startswith("recurrent.0.")]
    assert all(torch.equal(weights[key], (given if key in taken else own)[key]) for key in own)
    assert any(not torch.equal(own[key], given[key]) for key in taken)
    other = "alphabet.characters='abcdefghijklmnopqrstuvwxyz -'"
    assert started(tiny_corpus, f"weights={trained}", "weights_parts=[convolutions,recurrent]", other)


def test_what_does_not_fit_is_named(trained: Path, tiny_corpus: Path, tmp_path: Path) -> None:
    for override, message in (
        ("width=6", r"recurrent\.0\.\S+ is \[[\d, ]+\] in the file and \[[\d, ]+\] in the model.*weights_parts"),
        ("layers=2", r"recurrent\.1\.\S+ is not in the file"),
        ("norm=none", r"is only in the file"),
        ("weights_parts=[recurent]", r"weights_parts=recurent: expected .*recurrent"),
        ("alphabet.characters='abcdefghijklmnopqrstuvwxyz -'", "the checkpoint was trained with the alphabet"),
        (f"weights_sha256='{64 * '0'}'", r"weights_sha256=0{64}: the SHA-256 of \S+ is [0-9a-f]{64}"),
    ):
        with pytest.raises(UsageError, match=message):
            started(tiny_corpus, f"weights={trained}", override)
    with pytest.raises(UsageError, match=r"weights=.*nowhere: expected a run's folder or a \.ckpt, but there is no"):
        check(compose(f"weights={tmp_path / 'nowhere'}"))
    with pytest.raises(UsageError, match=r"weights_parts=.*weights=<run folder or \.ckpt>"):
        check(compose("weights_parts=[output]"))


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

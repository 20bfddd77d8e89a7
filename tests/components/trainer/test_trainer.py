"""Trainers, averaged weights, and debug modes."""

import json
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import pytorch_lightning as pl
import torch

from asr_ablations.components.averaging.base import weights_of
from asr_ablations.config.build import build
from asr_ablations.data.batch import BatchOrder, batch_size
from asr_ablations.data.datamodule import collate
from asr_ablations.training.assembly import assemble, device_count, trainer
from asr_verdicts.errors import UsageError
from tests.helpers.fits import fit, model_of
from tests.helpers.ranks import run_ranks
from tests.helpers.run_results import same, train
from tests.helpers.support import REPOSITORY, component, compose, tiny_overrides

PLAIN = ("width=8", "layers=1", "dropout=0", "gpus=0", "max_epochs=2", "batch.size=2", "schedule=constant")

WORKER = """
import sys, warnings
warnings.simplefilter("ignore")
sys.path[:0] = [{source!r}, {tests!r}]
from pathlib import Path
from asr_ablations.training import checkpoints
from tests.helpers.fits import fit
checkpoints.SECONDS_BETWEEN_AGREEMENTS = 0.0  # a checkpoint of every step
fit(Path({corpus!r}), Path({folder!r}), *{overrides!r}, resume={resume!r} and Path({resume!r}))
"""


def ranks(corpus: Path, folder: Path, *overrides: str, resume: str = "") -> subprocess.CompletedProcess[str]:
    """`fit` in two processes, anew or from a checkpoint."""
    folder.mkdir(exist_ok=True)
    script = folder / "worker.py"
    paths = {"source": str(REPOSITORY / "src"), "tests": str(REPOSITORY)}
    script.write_text(
        WORKER.format(corpus=str(corpus), folder=str(folder), overrides=overrides, resume=resume, **paths)
    )
    return run_ranks(script)


def test_a_job_of_slurm_is_no_launcher_of_ranks_and_started_machines_are_those_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Within sbatch --ntasks=4, where nothing was started by srun."""
    for name, value in {"JOB_ID": "1", "NTASKS": "4", "PROCID": "0", "LOCALID": "0", "JOB_NAME": "train"}.items():
        monkeypatch.setenv(f"SLURM_{name}", value)
    fitter = trainer(compose(*PLAIN, "precision=16"), 0, [], [])
    assert (fitter.world_size, fitter.global_rank) == (1, 0)
    assert fitter.precision == "bf16-mixed"
    with pytest.raises(UsageError, match="nodes=2: this run was started on 1"):
        device_count(compose("gpus=0", "nodes=2"))
    monkeypatch.setenv("WORLD_SIZE", "4")
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
    assert device_count(compose("gpus=0", "nodes=2")) == 0
    with pytest.raises(UsageError, match="nodes=1: this run was started on 2"):
        device_count(compose("gpus=0"))


@pytest.mark.slow
def test_two_ranks_are_two_workers_averaged_by_hand_and_go_on_as_they_were(tiny_corpus: Path, tmp_path: Path) -> None:
    """Weights and running statistics, after every epoch of three steps: after every second step and at the end; resumed
    within an epoch, where weights differ between the ranks too, each with its own optimizer.
    """

    def by_hand(corpus: Path, every: int, *overrides: str) -> list[dict[str, torch.Tensor]]:
        """The model's state after each epoch: two tasks that step on their own and are averaged now and then."""
        cfg = compose(*tiny_overrides(corpus), *overrides)
        workers = [assemble(cfg, build(cfg.data))[0] for _ in range(2)]
        _, data = assemble(cfg, build(cfg.data))
        data.setup()
        train = data.sets["train"]
        optimizers = [task.make_optimizer(task.model.named_parameters()) for task in workers]
        after, step = [], 0
        for epoch in range(cfg.max_epochs):
            size = batch_size(cfg.batch.size, None, ranks=2)
            orders = [BatchOrder(train.durations, size, data.order, cfg.seed, rank, 2) for rank in range(2)]
            for order in orders:
                order.set_epoch(epoch)
            batches = [[collate(train.__getitems__(indices)) for indices in order] for order in orders]
            for number in range(len(batches[0])):
                for task, optimizer, mine in zip(workers, optimizers, batches, strict=True):
                    task.train()
                    task.log = lambda *_, **__: None  # type: ignore[method-assign]
                    optimizer.zero_grad()
                    task.training_step(mine[number], 0).backward()
                    task.configure_gradient_clipping(optimizer)
                    optimizer.step()
                step += 1
                if number == len(batches[0]) - 1 or step % every == 0:
                    for one, other in zip(*(task.model.state_dict().values() for task in workers), strict=True):
                        if one.is_floating_point():
                            other.copy_(one.add_(other).div_(2))
            after.append({f"model.{key}": value.clone() for key, value in workers[0].model.state_dict().items()})
        return after

    options = [*PLAIN, "optimizer=momentum", "layers=2"]
    local = [*options, "trainer=local_sgd", "trainer.every=2", "averaging=last"]
    done = ranks(tiny_corpus, tmp_path / "whole", *local)
    assert done.returncode == 0, done.stderr[-2000:]
    ends = by_hand(tiny_corpus, 2, *options)
    for epoch in range(2):
        result = model_of(tmp_path / "whole", epoch)
        assert result.keys() == ends[epoch].keys()
        for key, value in result.items():
            if value.is_floating_point():
                average = torch.stack([end[key] for end in ends[: epoch + 1]]).mean(dim=0)
                torch.testing.assert_close(value, average, rtol=1e-5, atol=1e-6, msg=key)
    assert not same(by_hand(tiny_corpus, 1, *options)[-1], ends[-1]), "how often they are averaged makes a difference"
    within = tmp_path / "whole" / "step=5.ckpt"
    workers = torch.load(within, weights_only=True)["workers"]
    assert not torch.equal(*(torch.cat([t.flatten() for t in worker["trained_weights"]]) for worker in workers))
    resumed = ranks(tiny_corpus, tmp_path / "again", *local, resume=str(within))
    assert resumed.returncode == 0, resumed.stderr[-2000:]
    assert same(model_of(tmp_path / "again", 1), model_of(tmp_path / "whole", 1))


def test_a_common_average_of_independent_workers_is_refused() -> None:
    fitter: Any = SimpleNamespace(strategy=component("trainer", "local_sgd").strategy(False))
    with pytest.raises(UsageError, match=r"averaging=ema: ranks have different weights after a step of trainer=local"):
        component("averaging", "ema").setup(fitter, None, "fit")


class Watch(pl.Callback):
    """The weights after every step, and those that validation saw."""

    def __init__(self) -> None:
        self.trained: list[torch.Tensor] = []
        self.ends: list[int] = []
        self.validated: list[torch.Tensor] = []

    def on_train_batch_end(self, trainer: Any, pl_module: Any, *_: Any) -> None:
        self.trained.append(flat(pl_module.model))
        if trainer.is_last_batch:
            self.ends.append(len(self.trained) - 1)

    def on_validation_batch_start(self, trainer: Any, pl_module: Any, *_: Any) -> None:
        self.validated.append(flat(pl_module.model))


def flat(model: torch.nn.Module) -> torch.Tensor:
    """Parameters and running statistics, one behind another."""
    return torch.cat([t.flatten().double() for t in weights_of(model)])


def watched(corpus: Path, folder: Path, *overrides: str) -> tuple[Watch, torch.Tensor]:
    watch = Watch()
    task = fit(corpus, folder, *overrides, callbacks=(watch,))
    return watch, flat(task.model)


@pytest.fixture(scope="module")
def plain(tiny_corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Watch:
    return watched(tiny_corpus, tmp_path_factory.mktemp("plain"))[0]


@pytest.mark.parametrize("name", ["ema", "last"])
def test_validation_checkpoints_and_the_end_have_the_average_and_training_does_not(
    name: str, plain: Watch, tiny_corpus: Path, tmp_path: Path
) -> None:
    if name == "ema":
        option, running = "averaging.decay=0.7", [plain.trained[0]]
        for weights in plain.trained[1:]:
            running.append(0.7 * running[-1] + 0.3 * weights)
        averages = [running[i] for i in plain.ends]
    else:
        option, ends = "averaging.count=2", [plain.trained[i] for i in plain.ends]
        averages = [torch.stack(ends[max(0, i - 1) : i + 1]).mean(dim=0) for i in range(len(ends))]
    watch, final = watched(tiny_corpus, tmp_path, f"averaging={name}", option)
    assert all(torch.equal(a, b) for a, b in zip(watch.trained, plain.trained, strict=True)), "training is untouched"
    batches = len(watch.validated) // len(averages)
    for epoch, average in enumerate(averages):
        torch.testing.assert_close(watch.validated[epoch * batches], average, rtol=1e-5, atol=1e-6)
        names = [key for key, value in model_of(tmp_path, epoch).items() if value.is_floating_point()]
        kept = model_of(tmp_path, epoch)
        total = sum(float(kept[key].double().sum()) for key in names)
        assert total == pytest.approx(float(average.sum()), rel=1e-5)
    torch.testing.assert_close(final, averages[-1], rtol=1e-5, atol=1e-6)
    assert not torch.equal(averages[-1], plain.trained[-1])


SMALL = ("width=8", "layers=1", "gpus=0", "logger=csv", "sweep=s")


def ran(corpus: Path, outputs: Path, *more: str) -> tuple[Path, Any]:
    folder = train(compose(*tiny_overrides(corpus), *SMALL, f"outputs={outputs}", *more))
    return folder, json.loads((folder / "summary.json").read_text())


def test_fast_takes_some_batches_of_every_set(tiny_corpus: Path) -> None:
    """As many utterances as two batches hold; of seconds, as much audio as that at the most."""
    for overrides, utterances in ((["batch.size=2"], 4), (["batch.size=null", "batch.seconds=2"], 0)):
        cfg = compose(*tiny_overrides(tiny_corpus), *SMALL, "debug=fast", "debug.batches=2", *overrides)
        _, data = assemble(cfg, build(cfg.data))
        data.setup()
        assert cfg.max_epochs == 1
        for name in ("train", "dev"):
            speech = data.sets[name]
            assert len(speech) == utterances if utterances else 0 < speech.durations.sum() <= 4
            assert len(speech) < len(data.screened[name].kept)


def test_overfit_ends_when_the_batch_is_learnt_and_says_so(
    tiny_corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A CER of less than 10 is reached at once."""
    _, summary = ran(tiny_corpus, tmp_path, "debug=overfit", "debug.cer=10", "max_epochs=4")
    assert (summary["epochs"], summary["steps"], summary["train_utterances"]) == (1, 1, 4)
    assert "learnt: CER" in capsys.readouterr().out


def test_profile_leaves_a_table_and_a_trace_of_its_steps(tiny_corpus: Path, tmp_path: Path) -> None:
    folder, summary = ran(tiny_corpus, tmp_path, "debug=profile", "debug.wait=1", "debug.steps=1", "batch.size=2")
    assert summary["train_utterances"] == 4
    assert "aten::convolution" in (folder / "profile.txt").read_text()
    trace = json.loads((folder / "profile.json").read_text())
    steps = [event for event in trace["traceEvents"] if event.get("name", "").startswith("Optimizer.step#")]
    assert len(steps) == 1

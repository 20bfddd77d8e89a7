"""The task, and the error rates that it logs."""

import csv
import itertools
import math
import random
from pathlib import Path
from typing import Any

import jiwer
import pytest
import pytorch_lightning as pl
import torch
from pytorch_lightning.loggers import CSVLogger
from torchmetrics.text import CharErrorRate, WordErrorRate

from asr_ablations.config.build import build
from asr_ablations.data.batch import Batch
from asr_ablations.training.assembly import assemble, trainer
from asr_ablations.training.task import CTCTask, ErrorRate
from asr_verdicts.error_counts import character_errors, word_errors
from tests.helpers.support import compose, standing_corpus, tiny_overrides

SMALL = ("width=8", "layers=1", "gpus=0", "logger=csv")


def task(*overrides: str, characters: str = "ab ") -> CTCTask:
    module, _ = assemble(compose(*SMALL, *overrides, f"alphabet.characters='{characters}'"), standing_corpus())
    module.log = lambda *_, **__: None  # type: ignore[method-assign,assignment]
    return module


def batch(texts: list[str], samples: list[int] | None = None, characters: str = "ab ") -> Batch:
    """Utterances of noise with these texts."""
    samples = samples or [8000 + 500 * i for i in range(len(texts))]
    labels = [[characters.index(c) + 1 for c in text] for text in texts]
    generator = torch.Generator().manual_seed(3)
    return Batch(
        audio=torch.randint(-3000, 3000, (sum(samples),), generator=generator, dtype=torch.int16),
        lengths=torch.tensor(samples),
        targets=torch.tensor(list(itertools.chain(*labels)), dtype=torch.long),
        target_lengths=torch.tensor([len(x) for x in labels]),
        ids=[f"u-{i}" for i in range(len(texts))],
        texts=texts,
    )


def test_the_loss_is_the_sum_over_all_alignments() -> None:
    """Of every path (T,) that collapses to the labels (Graves et al. 2006, eq. 3), in nats a label, an empty transcript
    counting as one; infinite, and not hidden as 0, where nothing fits.
    """
    for text, frames in itertools.product(("a", "ab", "aa", "aba", ""), (1, 5)):
        log_probs = torch.randn(1, frames, 3, generator=torch.Generator().manual_seed(frames)).log_softmax(dim=-1)
        given, total = batch([text]), 0.0
        for path in itertools.product(range(3), repeat=frames):
            if [symbol for symbol, _ in itertools.groupby(path) if symbol] == given.targets.tolist():
                total += math.exp(sum(log_probs[0, t, symbol].item() for t, symbol in enumerate(path)))
        expected = -math.log(total) / max(1, len(text)) if total else math.inf
        assert task().loss(log_probs, torch.tensor([frames]), given).item() == pytest.approx(expected, rel=1e-5)


def test_alone_as_in_a_batch() -> None:
    module, given = task().eval(), batch(["ab", "a", ""], [16000, 4000, 9000])
    together, lengths = module(given)
    offsets = [0, 16000, 20000]
    for i, (offset, size) in enumerate(zip(offsets, given.lengths.tolist(), strict=True)):
        alone = batch(["a"], [size])
        alone.audio = given.audio[offset : offset + size]
        log_probs, count = module(alone)
        assert count.tolist() == [lengths[i]] == module.output_frames(torch.tensor([size])).tolist()
        torch.testing.assert_close(together[i, : count[0]], log_probs[0], atol=1e-4, rtol=0)


def test_training_augments_with_seed_and_epoch_and_validation_does_not() -> None:
    module, given, seen = task("seed=7"), batch(["ab", "a"]), []

    def augment(features: torch.Tensor, lengths: torch.Tensor, ids: list[str], seed: int, epoch: int) -> torch.Tensor:
        seen.append((ids, seed, epoch))
        return features

    module.augment = augment
    module.eval().validation_step(given, 0)
    module(given)
    assert seen == []
    module.train().training_step(given, 0)
    assert seen == [(["u-0", "u-1"], 7, 0)]


def test_a_step_minimises_loss_and_penalty_and_logs_both() -> None:
    """0.0005 times the squared norm of all matrices and kernels (Ambroszczyk2019 §2.3.3), beside the loss as it is."""
    module, plain, given = task("penalty=l2", "dropout=0"), task("dropout=0"), batch(["ab", "a"])
    logged: dict[str, float] = {}
    norms = [weights.norm().item() for weights in module.model.parameters() if weights.dim() > 1]
    for each in (module, plain):
        each.augment = lambda features, *_: features
    module.log = lambda key, value, **_: logged.update({key: torch.as_tensor(value).item()})
    total, loss = (each.training_step(given, 0).item() for each in (module, plain))
    assert logged["train/loss"] == loss
    logged["train/penalty"] = module.sums["train/penalty"][0].item()
    assert logged["train/penalty"] == pytest.approx(0.0005 * sum(norm**2 for norm in norms), rel=1e-5)
    assert total == pytest.approx(loss + logged["train/penalty"], rel=1e-6)


def test_validation_error_rates_are_jiwers_and_start_anew_each_epoch(tiny_corpus: Path, tmp_path: Path) -> None:
    """Over all words of all utterances, not the mean over batches; the second epoch knows nothing of the first. The
    logged padding is that of the batches.
    """
    cfg = compose(*SMALL, *tiny_overrides(tiny_corpus), "max_epochs=2", "optimizer=sgd")
    module, data = assemble(cfg, build(cfg.data))
    data.setup()
    texts, generator = [u.text for u in data.sets["dev"].utterances], random.Random(0)
    batches = [[texts[i] for i in batch] for batch in data.evaluation_dataloader("dev").batch_sampler]
    coming, said = iter(2 * batches), ([], [])

    def garble(log_probs: torch.Tensor, lengths: torch.Tensor) -> list[str]:
        references = next(coming)
        garbled = [" ".join(generator.choices(["a", "cab", "dad"], k=generator.randint(0, 3))) for _ in references]
        said[module.current_epoch].extend(zip(references, garbled, strict=True))
        return garbled

    module.decoder = garble
    trainer(cfg, 0, [CSVLogger(str(tmp_path), name="", version="")], []).fit(module, data)
    with (tmp_path / "metrics.csv").open() as file:
        rows = list(csv.DictReader(file))
    logged = {name: [float(row[name]) for row in rows if row[name]] for name in rows[0]}
    epochs = [tuple(zip(*pairs, strict=True)) for pairs in said]
    assert [sorted(references) for references, _ in epochs] == [sorted(texts)] * 2
    for name, rate in (("wer", jiwer.wer), ("cer", jiwer.cer)):
        expected = [rate(list(references), list(hypotheses)) for references, hypotheses in epochs]
        assert logged[f"validation/dev/{name}"] == pytest.approx(expected, abs=1e-6)
        assert expected[0] != expected[1]
    order = data.train_dataloader().batch_sampler
    for epoch, padding in enumerate(logged["train/padding_percent"]):
        order.set_epoch(epoch)
        durations = [data.sets["train"].durations[b] for b in order]
        assert padding == pytest.approx(100 * sum(1 - d.mean() / d.max() for d in durations) / len(durations), rel=1e-3)


def drawn(overrides: tuple[str, ...], tiny_corpus: Path) -> dict[str, Any]:
    """What each stream of a config draws: weights, the order of an epoch, the seed of augmentation, dropout."""
    cfg = compose(*SMALL, *tiny_overrides(tiny_corpus), *overrides)
    module, data = assemble(cfg, build(cfg.data))
    dropout = torch.rand(4).tolist()
    data.setup()
    order = data.train_dataloader().batch_sampler
    seen: list[int] = []
    module.augment = lambda features, lengths, ids, seed, epoch: (seen.append(seed), features)[1]
    module.log = lambda *_, **__: None  # type: ignore[method-assign,assignment]
    module.training_step(next(iter(data.train_dataloader())), 0)
    return {
        "init": [p.tolist() for p in module.model.parameters()],
        "order": list(order),
        "augment": seen,
        "dropout": dropout,
    }


def test_a_stream_has_the_common_seed_or_its_own(tiny_corpus: Path) -> None:
    """seeds.<name>=5 gives that stream what seed=5 would, and no other stream anything new; 0 is a seed as any."""
    common, other = drawn((), tiny_corpus), drawn(("seed=5",), tiny_corpus)
    assert all(common[key] != other[key] for key in common)
    for name in common:
        assert drawn((f"seeds.{name}=5",), tiny_corpus) == {**common, name: other[name]}
        assert drawn(("seed=5", f"seeds.{name}=0"), tiny_corpus) == {**other, name: common[name]}


def test_an_overflow_stays_out_of_the_mean_gradient_norm(tiny_corpus: Path, tmp_path: Path) -> None:
    """As where a scaled loss overflows, whose step is not taken; here gradient=outliers takes none."""
    norms: list[float] = []

    class Overflow(pl.Callback):
        def on_after_backward(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
            gradients = [p.grad for p in pl_module.parameters() if p.grad is not None]
            if trainer.global_step == 1:
                gradients[0].fill_(math.inf)
            norms.append(float(torch.stack([g.square().sum() for g in gradients]).sum().sqrt()))

    cfg = compose(*SMALL, *tiny_overrides(tiny_corpus), "gradient=outliers", "gradient.limit=1e-6", "max_epochs=1")
    module, data = assemble(cfg, build(cfg.data))
    logger = CSVLogger(str(tmp_path), name="", version="")
    trainer(cfg, 0, [logger], [Overflow()]).fit(module, data)
    with (tmp_path / "metrics.csv").open() as file:
        (row,) = (row for row in csv.DictReader(file) if row.get("train/gradient_norm"))
    finite = [norm for norm in norms if math.isfinite(norm)]
    assert len(finite) == len(norms) - 1 > 0
    assert float(row["train/gradient_norm"]) == pytest.approx(sum(finite) / len(finite), rel=1e-4)
    assert float(row["train/clipped_share"]) == 1, "of the steps that have a norm"
    assert float(row["train/skipped_share"]) == pytest.approx(1 / len(norms))


@pytest.mark.parametrize(("ours", "theirs"), [(word_errors, WordErrorRate), (character_errors, CharErrorRate)])
def test_the_rates_are_torchmetrics_own(ours: Any, theirs: type[WordErrorRate]) -> None:
    generator = random.Random(0)
    first, second = ErrorRate(ours), theirs()

    def texts(count: int) -> list[str]:
        """Sentences of 0 to 8 words over few letters, so that many words agree by chance."""
        words = ["".join(generator.choices("ab é", k=generator.randint(1, 3))) for _ in range(12)]
        return [" ".join(generator.choices(words, k=generator.randint(0, 8))) for _ in range(count)]

    for epoch in range(3):
        for _ in range(20):
            size = generator.randint(1, 6)
            hypotheses, references = texts(size), texts(size)
            first.update(hypotheses, references)
            second.update(hypotheses, references)
            assert torch.equal(first.errors, second.errors)
            assert torch.equal(first.total, second.total)
        assert first.compute() == second.compute() > 0, f"epoch {epoch}"
        first.reset()
        second.reset()

"""Auxiliary losses: their numbers by other code, padding, and what they leave alone."""

import itertools
import math
from typing import Any

import pytest
import torch
from torch.nn.functional import ctc_loss

from asr_ablations.config.build import build
from asr_ablations.data.batch import Batch
from asr_ablations.training.assembly import assemble
from asr_ablations.training.auxiliary import auxiliary_of, count_parameters, without_auxiliary
from asr_ablations.training.task import CTCTask
from tests.helpers.support import component, compose, group_options, standing_corpus

SMALL = ("width=8", "layers=2", "gpus=0", "logger=csv", "alphabet.characters='ab '", "dropout=0")
NAMES = [name for name in group_options("auxiliary") if name != "none"]


def task(*overrides: str) -> CTCTask:
    return assemble(compose(*SMALL, *overrides), standing_corpus())[0]


def utterances(*labels: list[int], samples: int = 9000) -> Batch:
    """Noise with these labels."""
    generator = torch.Generator().manual_seed(3)
    audio = torch.randint(-3000, 3000, (samples * len(labels),), generator=generator, dtype=torch.int16)
    return Batch(
        audio=audio,
        lengths=torch.tensor([samples] * len(labels)),
        targets=torch.tensor(list(itertools.chain(*labels)), dtype=torch.long),
        target_lengths=torch.tensor([*map(len, labels)]),
        ids=[f"u-{i}" for i in range(len(labels))],
        texts=[""] * len(labels),
    )


def head(name: str, **changes: Any) -> Any:
    """The auxiliary with this name of a small model, and with weights that matter."""
    torch.manual_seed(1)
    cfg = compose(*SMALL, f"auxiliary={name}")
    for key, value in changes.items():
        cfg.auxiliary[key] = value
    module = build(cfg.auxiliary)(task().model, 40, 4).eval()
    with torch.no_grad():
        for weights in module.parameters():
            weights.add_(0.3 * torch.randn_like(weights))
    return module


def activations(frames: int, rows: int = 1) -> torch.Tensor:
    return torch.randn(rows, frames, 8, generator=torch.Generator().manual_seed(2))


def test_intermediate_ctc_is_torchs_ctc_of_the_layer() -> None:
    module, batch, lengths = head("inter_ctc"), utterances([1, 2], [3]), torch.tensor([5, 3])
    x = activations(5, 2)
    log_probs = (x @ module.output.weight.T + module.output.bias).log_softmax(2)
    nats = ctc_loss(log_probs.transpose(0, 1), batch.targets, lengths, batch.target_lengths, reduction="none")
    assert module(x, lengths, batch).item() == pytest.approx((nats / torch.tensor([2, 1])).mean().item(), rel=1e-5)


@pytest.mark.parametrize("labels", [[], [1], [2, 2], [1, 3, 2]])
def test_a_transducer_sums_over_all_paths(labels: list[int]) -> None:
    """Every order of T blanks and the labels whose last step is a blank (Graves 2012, equation 11)."""
    module, frames = head("transducer"), 3
    x = activations(frames)
    joint = torch.stack(
        [
            torch.stack([module.output(torch.tanh(module.frame(x[0, t]) + module.predict.weight[last]))
                         for last in [0, *labels]])
            for t in range(frames)
        ]
    ).log_softmax(2)  # fmt: skip
    total = 0.0
    for places in itertools.combinations(range(frames - 1 + len(labels)), len(labels)):
        t = written = 0
        nats = 0.0
        for step in range(frames + len(labels)):
            label = labels[written] if step in places else 0
            nats += joint[t, written, label].item()
            t, written = (t, written + 1) if step in places else (t + 1, written)
        total += math.exp(nats)
    expected = -math.log(total) / max(1, len(labels))
    assert module(x, torch.tensor([frames]), utterances(labels)).item() == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_attention_is_the_cross_entropy_of_every_label_and_the_end(smoothing: float) -> None:
    """Label by label: each prefix is decoded alone, so no mask is needed."""
    module, labels, x = head("attention", smoothing=smoothing), [2, 1, 3], activations(4)
    memory, nats = module.norm(x), 0.0
    for count, label in enumerate([*labels, 0]):
        prefix = module.embed.weight[[0, *labels[:count]]].clone()
        for position, place in itertools.product(range(count + 1), range(8)):
            angle = position / 10_000 ** (place // 2 * 2 / 8)
            prefix[position, place] += math.cos(angle) if place % 2 else math.sin(angle)
        log_probs = module.output(module.layers[0](prefix[None], memory))[0, -1].log_softmax(0)
        nats -= (1 - smoothing) * log_probs[label].item() + smoothing * log_probs.mean().item()
    assert module(x, torch.tensor([4]), utterances(labels)).item() == pytest.approx(nats / 3, rel=1e-5)


@pytest.mark.parametrize("name", NAMES)
def test_padding_changes_nothing(name: str) -> None:
    """The mean of utterances alone, whatever lies past a length."""
    module, x, lengths, labels = head(name), activations(6, 3), [6, 4, 3], [[1, 2], [3, 1, 2], []]
    with torch.no_grad():
        together = module(x, torch.tensor(lengths), utterances(*labels))
        alone = [
            module(x[i : i + 1, :n], torch.tensor([n]), utterances(labels[i])).item() for i, n in enumerate(lengths)
        ]
    assert together.item() == pytest.approx(sum(alone) / 3, rel=1e-5)


@pytest.mark.parametrize("name", NAMES)
def test_no_frames_and_no_labels_give_finite_numbers(name: str) -> None:
    module, x = head(name), activations(3, 3).requires_grad_()
    loss = module(x, torch.tensor([3, 0, 1]), utterances([1], [], []))
    loss.backward()
    assert loss.isfinite()
    assert x.grad is not None
    assert all(grad is not None and grad.isfinite().all() for grad in [x.grad, *(p.grad for p in module.parameters())])


@pytest.mark.parametrize("name", NAMES)
def test_a_step_adds_the_weighted_loss_and_validation_does_not(name: str) -> None:
    module, plain, batch = task(f"auxiliary={name}"), task(), utterances([1, 2], [3])
    scored, other = module.scored(batch), plain.scored(batch)
    auxiliary = auxiliary_of(module.model)
    assert auxiliary is not None
    assert scored.auxiliary is not None
    assert scored.loss.item() == other.loss.item(), "the weights of the model are those without an auxiliary"
    assert scored.total.item() == pytest.approx((scored.loss + auxiliary.weight * scored.auxiliary).item(), rel=1e-6)
    logged: dict[str, float] = {}
    module.log = lambda key, value, **_: logged.update({key: torch.as_tensor(value).item()})  # type: ignore
    assert module.training_step(batch, 0).item() == pytest.approx(scored.total.item(), rel=1e-5)
    assert logged["train/loss"] == pytest.approx(scored.loss.item(), rel=1e-5)
    assert module.sums[f"train/{name}"][0].item() == pytest.approx(scored.auxiliary.item(), rel=1e-5)
    logged.clear()
    module.log = lambda key, *_, **__: logged.update({key: 0.0})  # type: ignore
    module.eval().validation_step(batch, 0)
    assert not [key for key in logged if name in key]
    assert not any(part._forward_hooks for part in module.model.modules())  # type: ignore[attr-defined]


def test_a_layer_that_pretraining_leaves_out_adds_nothing_yet() -> None:
    module = task("auxiliary=transducer")
    module.model.active_layers = 1  # type: ignore[attr-defined]
    scored = module.scored(utterances([1]))
    assert scored.auxiliary is None
    assert scored.total is scored.loss


@pytest.mark.parametrize("network", [[], ["model=conformer", "model.heads=2", "auxiliary.layer=layers.0"]])
def test_later_layers_see_the_probabilities_that_condition_them(network: list[str]) -> None:
    """Nozaki & Komatsu 2021, equations 12 and 13: the same model, with a layer whose output was changed by hand."""
    model: Any = task("auxiliary=inter_ctc", "auxiliary.self_conditioned=true", *network).model.eval()
    plain = task(*(word for word in network if "auxiliary" not in word)).model.eval()
    head, features, lengths = model.conditioning, torch.randn(2, 60, 40), torch.tensor([60, 33])
    features[1, 33:] = 0.0  # as padding is
    plain.load_state_dict({key: value for key, value in model.state_dict().items() if "conditioning" not in key})

    def change(_layer: Any, inputs: Any, output: torch.Tensor) -> torch.Tensor:
        for row, length in enumerate(inputs[1].tolist()):
            for frame in range(length):
                seen = (head.output.weight @ output[row, frame] + head.output.bias).exp()
                output[row, frame] += head.back.weight @ (seen / seen.sum()) + head.back.bias
        return output

    with torch.no_grad():
        before = plain(features, lengths)[0]
        plain.get_submodule(head.layer).register_forward_hook(change)
        expected, ours, copied = (each(features, lengths)[0] for each in (plain, model, without_auxiliary(model)))
        alone = model(features[1:, :33], lengths[1:])[0]
    frames = int(model.output_lengths(torch.tensor(33)))
    torch.testing.assert_close(ours, expected)
    torch.testing.assert_close(ours[1:, :frames], alone[:, :frames])
    assert torch.equal(ours, copied), "recognition keeps it"
    assert not torch.allclose(ours, before)
    assert count_parameters(model) == sum(weights.numel() for weights in model.parameters())


def test_consistency_and_smoothing_are_their_formulas() -> None:
    """Yao et al. 2025, equations 4 to 6, frame by frame; targets have no gradient."""
    generator = torch.Generator().manual_seed(4)
    logits = torch.randn(4, 5, 3, generator=generator, requires_grad=True)
    log_probs, lengths = logits.log_softmax(2), torch.tensor([5, 3, 5, 3])
    batch = utterances([1, 2], [1]).repeat(2)
    loss = component("loss", "cr_ctc", reduction="utterance", scale=0.5)(log_probs, lengths, batch)
    plain = ctc_loss(log_probs.transpose(0, 1), batch.targets, lengths, batch.target_lengths, reduction="none")
    expected = plain.sum() / 4
    for row, t in [(i, t) for i in range(2) for t in range(lengths[i])]:
        a, b = log_probs[row, t], log_probs[row + 2, t]
        for target, view in ((a, b), (b, a)):
            divergence = (target.detach().exp() * (target.detach() - view)).sum()
            expected = expected + 0.5 * 0.5 * divergence / 2
    torch.testing.assert_close(loss, expected)
    ours, theirs = (torch.autograd.grad(x, logits, retain_graph=True)[0] for x in (loss, expected))
    torch.testing.assert_close(ours, theirs, atol=1e-6, rtol=1e-4)
    single = component("loss", "cr_ctc", reduction="utterance")(log_probs[:2], lengths[:2], utterances([1, 2], [1]))
    assert single.item() == pytest.approx(plain[:2].mean().item(), rel=1e-5)
    logits = torch.randn(2, 4, 3, generator=torch.Generator().manual_seed(4), requires_grad=True)
    log_probs, lengths, batch = logits.log_softmax(2), torch.tensor([4, 2]), utterances([1], [2])
    loss = component("loss", "ctc_smoothed", reduction="sum", smoothing=0.1)
    plain = ctc_loss(log_probs.transpose(0, 1), batch.targets, lengths, batch.target_lengths, reduction="sum")
    uniform = torch.full((3,), 1 / 3)
    divergence = sum((uniform * (uniform.log() - log_probs[i, t])).sum() for i in range(2) for t in range(lengths[i]))
    torch.testing.assert_close(loss(log_probs, lengths, batch), 0.9 * plain + 0.1 * divergence)
    torch.testing.assert_close(loss(log_probs.detach(), lengths, batch), plain.detach())


def test_views_are_drawn_apart_in_one_batch() -> None:
    module, seen = task("loss=cr_ctc", "augment=specaugment", "seed=7"), []
    augment = module.augment

    def noting(features: torch.Tensor, *arguments: Any) -> torch.Tensor:
        seen.append(arguments[2])
        return augment(features, *arguments)

    module.augment = noting  # type: ignore[assignment]
    scored = module.scored(utterances([1, 2], [3]))
    first, second = seen
    assert first == 7 != second
    assert scored.batch.ids == ["u-0", "u-1"] * 2
    assert scored.batch.targets.tolist() == [1, 2, 3] * 2
    assert not torch.equal(*scored.log_probs.chunk(2))

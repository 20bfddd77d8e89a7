"""Check an option against its group's contract: its signatures, and the behaviour of a model with this option."""

import inspect
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from hydra.utils import get_object
from omegaconf import DictConfig
from torch import nn

from asr_ablations.components import CONTRACTS
from asr_ablations.config.build import build
from asr_ablations.data.batch import Batch, unlabelled_batch
from asr_ablations.data.corpus import Corpus
from asr_ablations.data.utterances import Utterances
from asr_ablations.training.assembly import assemble
from asr_ablations.training.contracts import Norm, Recurrent
from asr_ablations.training.task import CTCTask
from asr_verdicts.errors import UsageError

PRODUCTS = {"norm": (Norm, ([4],)), "rnn": (Recurrent, (3, 4))}
"""Groups whose options are factories, with the contract of the objects that they make, and example arguments."""
SAMPLES = (16_000, 0, 1, 9_600)
"""Lengths of four test utterances in samples: long, empty, shorter than a frame, and in need of padding."""
TOLERANCE = 1e-4


def check(cfg: DictConfig, words: list[str]) -> None:
    """Check the options in the overrides `words`, print each result, and raise UsageError if any check fails."""
    chosen = {word.lstrip("+").partition("=")[0].partition("@")[0]: word for word in words}
    options = {group: word for group, word in chosen.items() if group in CONTRACTS.keys() & cfg.keys()}
    if not options:
        raise UsageError("name the option to check, such as rnn=mine")
    broken = 0
    for group in options:
        differences = _compare_signatures(cfg, group)
        broken += len(differences)
        kept = [] if differences else [f"kept    {group}: signatures match {CONTRACTS[group].rpartition('.')[2]}"]
        print(*kept, *(f"broken  {group}: {difference}" for difference in differences), sep="\n")
    if not broken:  # with wrong signatures, the checks below would fail
        corpus: Corpus = build(cfg.data)
        if "data" in options:
            corpus.fetch()
            for name in corpus.sets():
                print(f"kept    data: {_describe_set(name, corpus.read_set(name))}")
        task, _ = assemble(cfg, corpus)
        for promise, find_fault in PROMISES:
            try:
                fault = find_fault(task)
            except Exception as error:  # any exception from the user's class counts as a broken promise
                fault = f"{type(error).__name__}: {error}"
            broken += fault is not None
            print(f"kept    {promise}" if fault is None else f"broken  {promise}: {fault}")
    if broken:
        raise UsageError(f"{', '.join(options.values())}: {broken} checks failed")


def _describe_set(name: str, utterances: Utterances) -> str:
    faults = sum(bool(u.fault) for u in utterances)
    first = next((f"{u.id!r} of {u.speaker!r}: {u.text!r}" for u in utterances if not u.fault), "none")
    return f"{name}: {len(utterances):,} utterances, {faults:,} of them unusable; the first: {first}"


def _compare_signatures(cfg: DictConfig, group: str) -> list[str]:
    if group == "callbacks":
        return [line for node in cfg.callbacks.values() for line in _compare_signature(node, group)]
    return _compare_signature(cfg[group], group)


def _compare_signature(node: DictConfig | None, group: str) -> list[str]:
    if node is None or group == "model":  # `check` runs the model together with its parts
        return []
    subject, expected = build(node), get_object(CONTRACTS[group])
    if not getattr(expected, "_is_protocol", False):
        kind = get_object(node._target_) if isinstance(subject, partial) else type(subject)
        return [] if issubclass(kind, expected) else [f"{kind.__name__} is not a subclass of {expected.__name__}"]
    lines = faults(subject, expected)
    if not lines and group in PRODUCTS:
        protocol, arguments = PRODUCTS[group]
        module = subject(*arguments)
        lines += faults(module, protocol)
        lines += [] if isinstance(module, nn.Module) else ["the object that it makes is not an nn.Module"]
    if not lines and group == "rnn":
        lines += _check_causality(subject(3, 4))
    return lines


def _check_causality(layer: nn.Module) -> list[str]:
    x, lengths = torch.randn(2, 6, 3), torch.tensor([6, 4])
    with torch.no_grad():
        before = layer(x, lengths)
        x[:, 4:] += 1
        after = layer(x, lengths)
    if before.shape != (2, 6, 4):
        return [f"an input of shape (2, 6, 3) gives an output of shape {tuple(before.shape)}, expected (2, 6, 4)"]
    seen = not torch.allclose(before[:, :4], after[:, :4], atol=TOLERANCE)
    return ["a frame depends on later frames, but a layer must run forwards in time"] if seen else []


def _make_noise() -> Batch:
    generator = torch.Generator().manual_seed(0)
    return unlabelled_batch([torch.randint(-9000, 9000, (n,), generator=generator).short().numpy() for n in SAMPLES])


def _compare_alone(task: CTCTask) -> str | None:
    batch = _make_noise()
    task.eval()
    with torch.no_grad():
        together, lengths = task(batch)
        if lengths.tolist() != (expected := task.output_frames(batch.lengths).tolist()):
            return f"output_lengths returns {expected}, but calling the model returns lengths {lengths.tolist()}"
        for row, samples in enumerate(batch.audio.split(batch.lengths.tolist())):
            alone, _ = task(unlabelled_batch([samples.numpy()]))
            frames = int(lengths[row])
            difference = (together[row, :frames] - alone[0, :frames]).abs().max().item() if frames else 0.0
            if not difference <= TOLERANCE:
                return f"results for {len(samples)} samples, alone and in a batch, differ by {difference:.2g} nats"
    return None


def _check_gradients(task: CTCTask) -> str | None:
    targets, lengths = torch.tensor([1, 2, 1, 2]), torch.tensor([2, 0, 0, 2])
    task.train()
    task.zero_grad()
    task.loss.prepare({}, torch.device("cpu"))
    loss = task.scored(replace(_make_noise(), targets=targets, target_lengths=lengths, ids=["a", "b", "c", "d"])).total
    if not loss.isfinite():
        return f"the loss is {loss.item()}"
    loss.backward()
    for name, parameter in task.model.named_parameters():
        if parameter.grad is None:
            return f"{name} gets no gradient"
        if not parameter.grad.isfinite().all():
            return f"the gradient of {name} is not finite"
    return None


def _check_step(task: CTCTask) -> str | None:
    parameters = list(task.model.parameters())
    optimizer = task.make_optimizer(task.model.named_parameters())
    schedule = task.make_schedule(optimizer, total_steps=4)
    before = [parameter.detach().clone() for parameter in parameters]
    task.gradient.before_step(list(task.parameters()), step=0, seed=0, log=lambda name, value: None)
    optimizer.step()
    task.gradient.after_step(list(task.parameters()), lambda name, value: None)
    schedule.load_state_dict(schedule.state_dict())
    if not all(parameter.isfinite().all() for parameter in parameters):
        return "a weight is not finite after the step"
    changed = any(not torch.equal(old, now) for old, now in zip(before, parameters, strict=True))
    return None if changed else "no weight has changed"


def _check_texts(task: CTCTask) -> str | None:
    frames = torch.randn(2, 5, task.alphabet.outputs).log_softmax(-1)
    texts = task.decoder(frames, torch.tensor([5, 0]))
    if len(texts) != 2 or not all(isinstance(text, str) for text in texts):
        return f"the decoder returned {texts!r} for two utterances"
    return None if texts[1] == "" else f"the decoder returned {texts[1]!r} for an utterance of length 0"


PROMISES: tuple[tuple[str, Callable[[CTCTask], str | None]], ...] = (
    ("an utterance has the same result alone and in a batch, even with length 0 or 1", _compare_alone),
    ("loss and gradients are finite, even with length 0 and an empty transcript", _check_gradients),
    ("a step of optimizer and schedule changes the weights", _check_step),
    ("the decoder returns strings, and an empty string for length 0", _check_texts),
)


def find_function(subject: Any, name: str) -> Any:
    """Return a method of an object or class, or None if it lacks the method. For an nn.Module, __call__ is forward."""
    if name != "__call__":
        return getattr(subject, name, None)
    kind = subject if isinstance(subject, type) else type(subject)
    if issubclass(kind, nn.Module):
        return subject.forward
    if not any("__call__" in vars(base) for base in kind.__mro__):
        return None
    return subject.__call__ if kind is subject else subject  # calling a class would build an object


def parameters(function: Any) -> list[inspect.Parameter]:
    return [p for p in inspect.signature(function).parameters.values() if p.name != "self"]


def mismatch(function: Any, expected: Callable[..., Any]) -> str | None:
    """Return why a function cannot be called as its contract requires, or None if it can."""
    actual, wanted = parameters(function), parameters(expected)
    in_place = [p for p in wanted if p.kind is p.POSITIONAL_ONLY]
    by_name = [p.name for p in wanted if p.kind is not p.POSITIONAL_ONLY]
    try:
        inspect.Signature(actual).bind(*in_place, **dict.fromkeys(by_name))
    except TypeError as error:
        return str(error)
    for position, (own, ours) in enumerate(zip(actual, wanted, strict=False)):
        if own.kind is ours.kind is own.POSITIONAL_OR_KEYWORD and own.name != ours.name:
            return f"argument {position + 1} is {own.name!r}, expected {ours.name!r}"
    return None


def faults(subject: Any, protocol: type) -> list[str]:
    """List the members of a contract that an object or class lacks, or that it defines with a wrong signature."""
    lines = []
    for name in sorted(vars(protocol).keys() | vars(protocol).get("__annotations__", {}).keys()):
        if name.startswith("_") and name != "__call__":
            continue
        expected = vars(protocol).get(name)
        if not inspect.isfunction(expected):  # an attribute, which may exist only in instances of a class
            lines += [] if hasattr(subject, name) or isinstance(subject, type) else [f"has no {name}"]
        elif (function := find_function(subject, name)) is None:
            lines.append(f"has no {name}{inspect.signature(expected)}")
        elif (reason := mismatch(function, expected)) is not None:
            signature = inspect.signature(function)
            lines.append(f"{name}{signature}: {reason}; the contract is {inspect.signature(expected)}")
    return lines

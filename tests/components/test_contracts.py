"""Every group of conf/ has a contract, and each of its options has the methods and arguments that it asks for.

A new option is tested without an edit here. What a contract promises beyond signatures is tested beside its group.
"""

import inspect
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
from hydra.utils import get_object
from torch import nn

from asr_ablations.components import CONTRACTS
from asr_ablations.config.build import build
from asr_ablations.config.targets import null_option
from asr_ablations.tools.errors import UsageError
from asr_ablations.training.contracts import Decoder, Norm, Recurrent
from tests.helpers.every_key import refused
from tests.helpers.support import CONF, compose, composed_by_hydra, group_options

OTHERS = ("benchmark", "recipe")
"""Groups without components."""
GROUPS = sorted(folder.name for folder in CONF.iterdir() if folder.is_dir() and folder.name not in OTHERS)
OPTIONS = [(group, name) for group in GROUPS for name in group_options(group) if null_option(group) != name]
PRODUCTS = {"norm": (Norm, ([4],)), "rnn": (Recurrent, (3, 4))}
"""The contract of what a factory returns, and arguments to call it with."""


def contract(group: str) -> type:
    """The class that `components.CONTRACTS` names for a group."""
    assert group in CONTRACTS, f"components/__init__.py: CONTRACTS has no entry for {group}"
    return get_object(CONTRACTS[group])


def node(group: str, name: str) -> Any:
    """The config of an option within conf/config.yaml; a language model has a config of its own."""
    if group == "lm":
        return composed_by_hydra((f"lm={name}",), "language_model").lm
    return compose(f"{group}={name}")[group]


def option(group: str, name: str) -> Any:
    """What an option builds; its class where it needs files to be built."""
    cfg = node(group, name)
    sizes = {"features": 40, "outputs": 29, "rnn": build(compose().rnn), "norm": build(compose().norm)}
    try:
        return build(cfg, **sizes) if group == "model" else build(cfg)
    except UsageError:
        return get_object(cfg._target_)


def members(protocol: type) -> Iterator[tuple[str, Callable[..., Any] | None]]:
    """Names and functions of what a contract asks for; None for data."""
    for name in sorted(vars(protocol).keys() | vars(protocol).get("__annotations__", {}).keys()):
        value = vars(protocol).get(name)
        if name == "__call__" or not name.startswith("_"):
            yield name, value if inspect.isfunction(value) else None


def called(subject: Any, name: str) -> Any:
    """The function behind a member: what `forward` takes is what a call of a module takes."""
    if name != "__call__":
        return getattr(subject, name, None)
    kind = subject if isinstance(subject, type) else type(subject)
    if issubclass(kind, nn.Module):
        return getattr(subject, "forward", None)
    if isinstance(subject, type):  # whose own call would build an object
        return next((vars(base)["__call__"] for base in kind.__mro__ if "__call__" in vars(base)), None)
    return subject if callable(subject) else None


def parameters(function: Any) -> list[inspect.Parameter]:
    return [p for p in inspect.signature(function).parameters.values() if p.name != "self"]


def mismatch(function: Any, expected: Callable[..., Any]) -> str | None:
    """Why the function cannot be called as a contract says; None where it can."""
    own, contract_parameters = parameters(function), parameters(expected)
    takes_all = any(p.kind is p.VAR_KEYWORD for p in own)
    positional = [p for p in own if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    for position, wanted in enumerate(contract_parameters):
        if wanted.kind is wanted.POSITIONAL_ONLY:
            if position >= len(positional):
                return f"takes {len(positional)} positional arguments, expected {position + 1}"
        elif wanted.name not in {p.name for p in own} and not takes_all:
            return f"has no argument {wanted.name!r}"
        elif wanted.kind is wanted.POSITIONAL_OR_KEYWORD and positional[position].name != wanted.name:
            return f"argument {position + 1} is {positional[position].name!r}, expected {wanted.name!r}"
    known = {p.name for p in contract_parameters} | {p.name for p in positional[: len(contract_parameters)]}
    needed = [p.name for p in own if p.default is p.empty and p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)]
    unknown = [name for name in needed if name not in known]
    return f"needs {', '.join(unknown)}, which is no argument of the contract" if unknown else None


def faults(subject: Any, protocol: type) -> list[str]:
    """Where a subject, an object or its class, does not fulfil a contract."""
    lines = []
    for name, expected in members(protocol):
        if expected is None:
            has = hasattr(subject, name) or isinstance(subject, type)
            lines += [] if has else [f"has no {name}"]
            continue
        function = called(subject, name)
        if function is None:
            lines.append(f"has no {name}{inspect.signature(expected)}")
        elif (reason := mismatch(function, expected)) is not None:
            lines.append(f"{name}{inspect.signature(function)} {reason}; the contract is {inspect.signature(expected)}")
    return lines


@pytest.mark.parametrize("group", GROUPS)
def test_every_group_has_a_contract(group: str) -> None:
    """A class with a docstring that says what must hold."""
    assert CONTRACTS.keys() == {*GROUPS}
    assert (contract(group).__doc__ or "").strip(), f"{group}: its contract has no docstring"


@pytest.mark.parametrize(("group", "name"), [pair for pair in OPTIONS if not refused("=".join(pair))])
def test_every_option_is_what_its_contract_says(group: str, name: str) -> None:
    subject, expected = option(group, name), contract(group)
    if isinstance(subject, partial) and not getattr(expected, "_is_protocol", False):
        subject = get_object(node(group, name)._target_)  # of a class that a later moment completes
    kind = subject if isinstance(subject, type) else type(subject)
    if not getattr(expected, "_is_protocol", False):
        assert issubclass(kind, expected), f"{group}={name}: {kind.__name__} is no {expected.__name__}"
    assert not faults(subject, expected), f"{group}={name} is no {expected.__name__}: {faults(subject, expected)}"


@pytest.mark.parametrize(("group", "name"), [pair for pair in OPTIONS if pair[0] in PRODUCTS])
def test_what_a_factory_returns_is_a_module_of_its_contract(group: str, name: str) -> None:
    expected, arguments = PRODUCTS[group]
    module = option(group, name)(*arguments)
    assert isinstance(module, nn.Module)
    assert not faults(module, expected), f"{group}={name} makes no {expected.__name__}: {faults(module, expected)}"


@pytest.mark.parametrize("name", group_options("decoder"))
def test_every_decoder_is_one(name: str) -> None:
    kind = get_object(node("decoder", name)._target_)
    assert not faults(kind, Decoder), f"decoder={name}: {faults(kind, Decoder)}"


class WithoutLengths(nn.Module):
    def __init__(self, frame: list[int]) -> None:
        super().__init__()

    def forward(self, x: Any) -> Any:
        return x


class Turned(WithoutLengths):
    def forward(self, lengths: Any, x: Any) -> Any:
        return x


class Demanding(WithoutLengths):
    def forward(self, x: Any, lengths: Any, mask: Any) -> Any:
        return x


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (WithoutLengths, "has no argument 'lengths'"),
        (Turned, "argument 1 is 'lengths', expected 'x'"),
        (Demanding, "needs mask, which is no argument of the contract"),
    ],
)
def test_a_wrong_signature_is_reported(kind: type[WithoutLengths], message: str) -> None:
    (fault,) = faults(kind([4]), Norm)
    assert message in fault
    assert "(self, x: torch.Tensor, lengths: torch.Tensor)" in fault


def test_a_factory_with_another_argument_is_refused() -> None:
    assert faults(partial(WithoutLengths, [4]), contract("norm"))
    assert faults(lambda: None, contract("norm")) == [
        "__call__() takes 0 positional arguments, expected 1; the contract is "
        f"{inspect.signature(vars(contract('norm'))['__call__'])}"
    ]


def test_a_missing_method_and_a_missing_attribute_are_named() -> None:
    class NoRates:
        def prepare(self, sets: Any, device: Any) -> None: ...

        def __call__(self, log_probs: Any, lengths: Any, batch: Any) -> None: ...

        def weight(self, batch: Any) -> int: ...

    assert [fault.split("(")[0] for fault in faults(NoRates(), contract("loss"))] == ["has no frame_rates"]
    assert "has no holds_features" in faults(NoRates(), contract("cache"))

"""Every group of conf/ has a contract, and each of its options has the methods and arguments that it asks for.

A new option is tested without an edit here. What a contract promises beyond signatures is tested beside its group.
"""

from functools import partial
from typing import Any

import pytest
from hydra.utils import get_object
from torch import nn

from asr_ablations.commands.check_variant import PRODUCTS, faults
from asr_ablations.components import CONTRACTS
from asr_ablations.config.build import build
from asr_ablations.config.targets import null_option
from asr_ablations.training.contracts import Norm
from asr_verdicts.errors import UsageError
from tests.helpers.every_key import refused
from tests.helpers.support import CONF, compose, composed_by_hydra, group_options

OTHERS = ("benchmark", "recipe")
"""Groups without components."""
GROUPS = sorted(folder.name for folder in CONF.iterdir() if folder.is_dir() and folder.name not in OTHERS)
OPTIONS = [(group, name) for group in GROUPS for name in group_options(group) if null_option(group) != name]


def contract(group: str) -> type:
    """The class that `components.CONTRACTS` names for a group."""
    assert group in CONTRACTS, f"components/__init__.py: CONTRACTS has no entry for {group}"
    return get_object(CONTRACTS[group])


def node(group: str, name: str) -> Any:
    """The config of an option within conf/config.yaml; language models and conditions have configs of their own."""
    if group == "lm":
        return composed_by_hydra((f"lm={name}",), "language_model").lm
    if group == "condition":
        return composed_by_hydra((f"conditions={name}",), "evaluation").condition[name]
    cfg = compose(f"{group}={name}")[group]
    return cfg[name] if group == "callbacks" else cfg


def option(group: str, name: str) -> Any:
    """What an option builds; its class where it needs files to be built."""
    cfg = node(group, name)
    sizes = {"features": 40, "outputs": 29, "rnn": build(compose().rnn), "norm": build(compose().norm)}
    try:
        return build(cfg, **sizes) if group == "model" else build(cfg)
    except UsageError:
        return get_object(cfg._target_)


def test_every_group_has_a_contract() -> None:
    """A class with a docstring that says what must hold."""
    assert CONTRACTS.keys() == {*GROUPS}
    assert [group for group in GROUPS if not (contract(group).__doc__ or "").strip()] == []


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


def test_a_wrong_signature_is_reported() -> None:
    class WithoutLengths(nn.Module):
        def __init__(self, frame: list[int]) -> None:
            super().__init__()

        def forward(self, x: Any) -> Any: ...

    class Demanding(WithoutLengths):
        def forward(self, x: Any, lengths: Any, mask: Any) -> Any: ...

    (without,), (demanding,) = (faults(kind([4]), Norm) for kind in (WithoutLengths, Demanding))
    assert "got an unexpected keyword argument 'lengths'" in without
    assert "missing a required argument: 'mask'" in demanding
    assert "(self, x: torch.Tensor, lengths: torch.Tensor)" in demanding
    assert faults(partial(WithoutLengths, [4]), contract("norm"))

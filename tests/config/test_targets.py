"""What a config may build is exactly what conf/ names, in the group that names it: nothing else of ours or torch's."""

import ast
import itertools
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf

from asr_ablations.config.build import build, check_targets
from asr_ablations.config.targets import check_trusted, groups, read_allowed
from asr_ablations.tools.files import SOURCE
from asr_verdicts.errors import UsageError
from tests.helpers.support import CONF, compose, group_options, loader

GADGETS = [
    "asr_benchmarks.project.launch._run_quietly",
    "torch.nn.attention._fa3._fa3_import_module",
    "asr_ablations.synthesis.corpus.write",
    "asr_ablations.data.download._verify",
    "asr_ablations.data.download.download",
    "asr_ablations.components.data.kaldi.Kaldi._audio",
    "asr_ablations.components.lm.ngram.lmplz",
    "asr_ablations.components.decoder.beam_lm.load_model",
]
"""Functions that start a process, import a module, or write or delete a file."""


@pytest.mark.slow
def test_a_group_builds_what_its_files_name_and_nothing_else() -> None:
    def definitions(node: ast.AST, name: str) -> Iterator[str]:
        """The dotted name of every class, function and method in a module, private ones too."""
        for child in ast.iter_child_nodes(node):
            if isinstance(child, (ast.FunctionDef, ast.ClassDef, ast.AsyncFunctionDef)):
                yield f"{name}.{child.name}"
                yield from definitions(child, f"{name}.{child.name}")

    def accepts(group: str, target: str) -> bool:
        try:
            check_trusted(group, {"_target_": target, "_partial_": True})
        except UsageError:
            return False
        return True

    everything = {*GADGETS}
    for path in SOURCE.rglob("*.py"):
        name = ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__")
        everything.update(definitions(ast.parse(path.read_text(encoding="utf-8")), name))
    for module in (torch.nn, torch.nn.functional, torch.nn.utils, torch.optim, torch, torch.hub):
        everything.update(f"{module.__name__}.{name}" for name in dir(module) if callable(getattr(module, name)))
    assert len(everything) > 4000
    for group in groups():
        contents = [OmegaConf.load(CONF / group / f"{name}.yaml") for name in group_options(group)]
        nodes: list[Any] = [content if "_target_" in content else content.get(group) or {} for content in contents]
        named_by_a_file = {str(node["_target_"]) for node in nodes if "_target_" in node}
        assert {target for target in everything if accepts(group, target)} == named_by_a_file, group


def recorded() -> DictConfig:
    """A config as a run's folder has it."""
    cfg = compose()
    OmegaConf.resolve(cfg)
    return cfg


def test_gadgets_are_refused_wherever_they_stand() -> None:
    plain = recorded()
    for group, target in itertools.product(("data", "decoder"), GADGETS[:3]):
        for key, node in {
            group: {"_target_": target, "words": ["touch", "x"]},
            f"{group}.planted": {"deep": [{"_target_": target}]},
        }.items():
            cfg = plain.copy()
            OmegaConf.update(cfg, key, node, merge=False, force_add=True)
            with pytest.raises(UsageError, match="refused"):
                check_targets(cfg)
            with pytest.raises(UsageError, match="refused"):
                build(cfg[group])


def test_what_no_group_or_another_one_names_is_not_built_and_other_keys_of_hydra_are_refused() -> None:
    lstm = {"_target_": "asr_ablations.components.rnn.lstm.LSTM"}
    for key, node, message in (
        ("data", {"_target_": "asr_benchmarks.toolkit.measure.toolkit_speed"}, r"conf/data"),
        ("dropout", lstm, "refused"), ("new", lstm, "refused"),
        *((f"rnn.{key}", ["x"], f"{key}=.*refused") for key in ("_args_", "_recursive_", "_convert_", "_call_")),
    ):  # fmt: skip
        cfg = recorded()
        OmegaConf.update(cfg, key, node, merge=False, force_add=True)
        with pytest.raises(UsageError, match=message):
            check_targets(cfg)
        if key == "data":
            with pytest.raises(UsageError, match=message):
                build(cfg.data)


def test_options_may_be_parts_of_a_chain_and_of_a_cache() -> None:
    assert check_targets(compose("augment=speed_specaugment", "cache=features")) is None
    noise = "asr_ablations.components.augment.noise.Noise"
    assert [group for group in groups() if noise in read_allowed(group)[1]] == ["augment"]


@pytest.mark.slow
def test_a_benchmark_may_put_options_of_other_groups_below_its_keys_and_opens_nothing_in_them() -> None:
    for name in group_options("benchmark"):
        words = [f"benchmark={name}", "overrides=[]"]
        cfg = loader(CONF).load_configuration("benchmarks", words, RunMode.RUN, from_shell=False)
        OmegaConf.set_struct(cfg, False)
        del cfg["hydra"]
        OmegaConf.resolve(cfg)
        assert check_targets(cfg) is None
    assert "asr_ablations.components.rnn.lstm.LSTM" in read_allowed("benchmark")[1]
    assert not [target for part in read_allowed("rnn") for target in part if target.startswith("asr_benchmarks")]

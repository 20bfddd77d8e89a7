"""What a config may build is exactly what conf/ names, in the group that names it: nothing else of ours or torch's."""

import ast
from collections.abc import Iterator
from pathlib import Path
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


@pytest.mark.parametrize("group", ["data", "decoder"])
def test_gadgets_are_refused_wherever_they_stand(group: str) -> None:
    plain = recorded()
    for target in GADGETS[:3]:
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


def test_what_one_group_names_another_does_not_build() -> None:
    cfg = recorded()
    OmegaConf.update(cfg, "data", {"_target_": "asr_benchmarks.toolkit.measure.toolkit_speed"}, merge=False)
    with pytest.raises(UsageError, match=r"conf/data"):
        check_targets(cfg)
    with pytest.raises(UsageError, match=r"conf/data"):
        build(cfg.data)


@pytest.mark.parametrize("key", ["dropout", "new"])
def test_a_key_that_is_no_group_builds_nothing(key: str) -> None:
    cfg = recorded()
    OmegaConf.update(cfg, key, {"_target_": "asr_ablations.components.rnn.lstm.LSTM"}, merge=False, force_add=True)
    with pytest.raises(UsageError, match="refused"):
        check_targets(cfg)


@pytest.mark.parametrize("key", ["_args_", "_recursive_", "_convert_", "_call_"])
def test_other_keys_of_hydra_are_refused(key: str) -> None:
    cfg = recorded()
    OmegaConf.update(cfg, f"rnn.{key}", ["x"], force_add=True)
    with pytest.raises(UsageError, match=f"{key}=.*refused"):
        check_targets(cfg)


def test_options_may_be_parts_of_a_chain_and_of_a_cache() -> None:
    assert check_targets(compose("augment=speed_specaugment", "cache=features")) is None
    noise = "asr_ablations.components.augment.noise.Noise"
    assert [group for group in groups() if noise in read_allowed(group)[1]] == ["augment"]


@pytest.mark.slow
@pytest.mark.parametrize("name", group_options("benchmark"))
def test_a_benchmark_may_put_options_of_other_groups_below_its_keys(name: str) -> None:
    words = [f"benchmark={name}", "overrides=[]"]
    cfg = loader(CONF).load_configuration("benchmarks", words, RunMode.RUN, from_shell=False)
    OmegaConf.set_struct(cfg, False)
    del cfg["hydra"]
    OmegaConf.resolve(cfg)
    assert check_targets(cfg) is None


def test_what_a_benchmark_borrows_opens_nothing_in_the_group_that_it_is_from() -> None:
    layer = "asr_ablations.components.rnn.lstm.LSTM"
    assert layer in read_allowed("benchmark")[1]
    assert not [target for part in read_allowed("rnn") for target in part if target.startswith("asr_benchmarks")]


def test_a_new_yaml_adds_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from asr_ablations.config import targets

    (tmp_path / "rnn").mkdir()
    (tmp_path / "rnn" / "mine.yaml").write_text("_target_: asr_ablations.components.rnn.mine.Mine\n_partial_: true\n")
    monkeypatch.setattr(targets, "CONF", tmp_path)
    caches = (read_allowed, groups, targets.options_by_name, targets.contents_by_name)
    for cached in caches:
        cached.cache_clear()
    try:
        assert read_allowed("rnn")[0] == {"asr_ablations.components.rnn.mine.Mine"}
    finally:
        for cached in caches:
            cached.cache_clear()

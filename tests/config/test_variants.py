"""What a config may build: what conf/ names, in the group that names it, and variants outside the package."""

import ast
import itertools
import sys
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest
import torch
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf

from asr_ablations.config import targets
from asr_ablations.config.build import build, check_targets
from asr_ablations.config.targets import (
    FOLDERS,
    check_trusted,
    groups,
    list_user_folders,
    read_allowed,
    source_hash,
    use_folder,
)
from asr_ablations.tools.files import SOURCE
from asr_verdicts.errors import UsageError
from tests.helpers.support import CONF, compose, group_options, loader


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user's folder: conf/rnn/mine.yaml, and modules beside it."""
    for name, text in {
        "conf/rnn/mine.yaml": "_target_: speech_variants.rnn.mine.Mine\n_partial_: true\n",
        "speech_variants/rnn/mine.py": "import torch\nfrom speech_variants import helpers\n\n\nclass Mine:\n    pass\n",
        "speech_variants/helpers.py": "from . import deeper\n",
        "speech_variants/deeper.py": "VALUE = 1\n",
        "speech_variants/unused.py": "VALUE = 1\n",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setenv(FOLDERS, "")
    return tmp_path


def test_a_folder_of_options_counts_and_one_without_does_not(own: Path) -> None:
    (own / "empty").mkdir()
    use_folder(own / "empty")
    assert list_user_folders() == ()
    use_folder(own / "conf")
    use_folder(own / "conf")
    assert list_user_folders() == (own / "conf",)


@pytest.mark.parametrize("file", ["rnn/mine.py", "deeper.py"])
def test_an_edit_of_what_the_class_needs_changes_the_hash(own: Path, file: str) -> None:
    use_folder(own / "conf")
    list_user_folders()
    before = source_hash("speech_variants.rnn.mine.Mine")
    edited = own / "speech_variants" / file
    edited.write_text(edited.read_text() + "\n# changed\n")
    after = source_hash("speech_variants.rnn.mine.Mine")
    assert before is not None
    assert after not in (None, before)
    (own / "speech_variants" / "unused.py").write_text("VALUE = 2\n")
    assert source_hash("speech_variants.rnn.mine.Mine") == after, "the class does not need it"


def test_the_hash_does_not_execute_the_module(own: Path) -> None:
    use_folder(own / "conf")
    list_user_folders()
    (own / "speech_variants" / "rnn" / "mine.py").write_text("raise SystemExit\n")
    assert source_hash("speech_variants.rnn.mine.Mine") is not None
    (own / "speech_variants" / "rnn" / "mine.py").write_text("class\n")
    with pytest.raises(UsageError, match=r"mine\.py: invalid syntax"):
        source_hash("speech_variants.rnn.mine.Mine")


def test_what_the_environment_records_has_no_hash_and_a_target_without_a_module_of_ones_own_is_refused() -> None:
    for target in ("torch.optim.SGD", "asr_ablations.components.rnn.gru.GRU"):
        assert source_hash(target) is None
    for target in ("os.system", "speech_nowhere.Mine"):
        with pytest.raises(UsageError, match=f"_target_={target}: there is no module"):
            source_hash(target)


def test_an_option_that_this_package_has_is_not_hidden(own: Path) -> None:
    (own / "conf" / "rnn" / "gru.yaml").write_text("_target_: speech_variants.rnn.mine.Mine\n")
    use_folder(own / "conf")
    with pytest.raises(UsageError, match=r"gru\.yaml: rnn=gru is already an option; give yours another name"):
        list_user_folders()


def test_an_entry_point_brings_a_folder(
    own: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    package = own / "speech_package"
    (own / "conf").rename(own / "kept")
    package.mkdir()
    (package / "__init__.py").write_text("raise SystemExit  # nothing is imported to find the folder\n")
    (own / "kept").rename(package / "conf")
    monkeypatch.syspath_prepend(str(own))
    point = EntryPoint("mine", "speech_package.conf", targets.ENTRY_POINTS)
    monkeypatch.setattr(targets, "entry_points", lambda group: [point])
    targets._list_user_folders.cache_clear()
    request.addfinalizer(targets._list_user_folders.cache_clear)
    assert list_user_folders() == (package / "conf",)
    monkeypatch.setattr(targets, "entry_points", lambda group: [EntryPoint("mine", "speech_package.none", "x")])
    targets._list_user_folders.cache_clear()
    with pytest.raises(UsageError, match=r"entry point mine = speech_package\.none .*expected a folder of configs"):
        list_user_folders()


@pytest.mark.parametrize(
    ("content", "name", "reason"),
    [
        ("raise OSError('libc10_cuda.so: no such file')", "Mine", "OSError: libc10_cuda.so: no such file"),
        ("import nothing_of_this_name", "Mine", "ModuleNotFoundError: No module named 'nothing_of_this_name'"),
        ("class Mine: pass", "Yours", "there is no such class"),
    ],
)
def test_why_a_class_is_not_found(
    content: str, name: str, reason: str, own: Path, request: pytest.FixtureRequest
) -> None:
    """As torchaudio beside a torch of another build."""
    (own / "speech_found").mkdir()
    (own / "speech_found" / "mine.py").write_text(f"{content}\n")
    for module in [known for known in sys.modules if known.startswith("speech_found")]:
        del sys.modules[module]
    (own / "conf" / "rnn" / "mine.yaml").write_text(f"_target_: speech_found.mine.{name}\n")
    use_folder(own / "conf")
    for cached in (targets.read_allowed, targets.options_by_name, targets.contents_by_name):
        cached.cache_clear()
        request.addfinalizer(cached.cache_clear)
    with pytest.raises(UsageError) as raised:
        build(OmegaConf.create({"rnn": {"_target_": f"speech_found.mine.{name}"}}).rnn)
    assert str(raised.value) == f"_target_=speech_found.mine.{name}: cannot be imported: {reason}"


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

"""Variants outside the package: which folders count, and what the hash of a source covers."""

import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest
from omegaconf import OmegaConf

from asr_ablations.config import targets
from asr_ablations.config.build import build
from asr_ablations.config.targets import FOLDERS, list_user_folders, source_hash, use_folder
from asr_verdicts.errors import UsageError


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

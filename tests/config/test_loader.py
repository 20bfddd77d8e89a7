"""Our loader composes what Hydra's own does, and reads every file once however many arms a sweep has."""

from pathlib import Path

import pytest
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra._internal.utils import create_config_search_path
from hydra.core.config_search_path import ConfigSearchPath, SearchPathQuery
from hydra.core.plugins import Plugins
from hydra.errors import HydraException
from hydra.types import RunMode
from hydra.version import setbase
from omegaconf import OmegaConf

from asr_ablations.config.compose import Loader, compose, look_up_in, use_loader
from asr_ablations.config.plain_keys import check
from asr_ablations.tools.files import CONF, REPOSITORY
from asr_verdicts.errors import UsageError

SWEEPS = REPOSITORY / "sweeps"


@pytest.fixture(autouse=True)
def _hydra() -> None:
    Plugins.instance()  # finds our launchers
    setbase("1.3")
    look_up_in(CONF)
    use_loader()


def search_path(*folders: Path) -> ConfigSearchPath:
    """The folders of -cd before conf/, as Hydra puts them."""
    path = create_config_search_path(str(CONF))
    for folder in folders:
        path.prepend("command-line", f"file://{folder}", SearchPathQuery(provider="schema"))
    return path


@pytest.mark.parametrize(
    ("name", "first", "last"),
    [
        ("batch_machines", ["machine=24x4", "seed=0"], ["machine=150x2", "seed=1"]),  # a group next to the sweep file
        ("hyperparameters", ["optimizer.lr=0.1"], ["optimizer.lr=0.2", "dropout=0.3"]),  # another sweeper
    ],
)
def test_the_arms_of_sweep_files_are_as_hydra_composes_them(name: str, first: list[str], last: list[str]) -> None:
    ours, hydras = Loader(search_path(SWEEPS)), ConfigLoaderImpl(search_path(SWEEPS))
    master = ours.load_configuration(name, ["hydra.verbose=true"], RunMode.MULTIRUN)
    theirs = hydras.load_configuration(name, ["hydra.verbose=true"], RunMode.MULTIRUN)
    assert OmegaConf.to_yaml(master) == OmegaConf.to_yaml(theirs)
    ours.load_sweep_config(master, first)  # whatever it keeps of one arm must not reach the next
    arms = [loader.load_sweep_config(cfg, last) for loader, cfg in ((ours, master), (hydras, theirs))]
    assert OmegaConf.to_yaml(arms[0]) == OmegaConf.to_yaml(arms[1])


def test_any_override_is_as_hydra_takes_it_the_first_time_and_later() -> None:
    ours, hydras = Loader(search_path()), ConfigLoaderImpl(search_path())
    for overrides in (
        ["augment=speed", "rnn=gru", "seed=3"],
        ["+decoder@ablation.second=beam", "batch={size:4}", "++seed=2", "seeds.init=4"],
        ["hydra.launcher.jobs=3", "hydra/job_logging=none"],
        ["hydra.searchpath=[pkg://hydra.conf]", "norm=none"],
        ["rnn=nothing"],
        ["+rnn=gru"],
        ["++rnn=gru"],
        ["rnn=lstm,gru"],
    ):
        expected = composed(hydras, overrides)
        assert [composed(ours, overrides) for _ in range(2)] == [expected, expected]
    assert composed(ours, []) == composed(hydras, []), "what one command line changes does not reach another"


def test_a_choice_that_nobody_has_made_is_forgiven_to_sweeps_alone(tmp_path: Path) -> None:
    (tmp_path / "open.yaml").write_text("defaults:\n  - rnn: ???\n", encoding="utf-8")
    ours, hydras = Loader(search_path(tmp_path)), ConfigLoaderImpl(search_path(tmp_path))
    texts = [
        [composed(loader, [], "open", mode) for mode in (RunMode.MULTIRUN, RunMode.RUN) * 2]
        for loader in (ours, hydras)
    ]
    assert texts[0] == texts[1]
    assert any("You must specify 'rnn'" in text for text in texts[0])


def test_a_choice_can_follow_another(tmp_path: Path) -> None:
    (tmp_path / "own.yaml").write_text("defaults: [/config, {width: '${rnn}'}, _self_]\n", encoding="utf-8")
    (tmp_path / "width").mkdir()
    for size, name in enumerate(("lstm", "gru"), 7):
        (tmp_path / "width" / f"{name}.yaml").write_text(f"# @package _global_\nwidth: {size}\n", encoding="utf-8")
        assert Loader(search_path(tmp_path)).load_configuration("own", [f"rnn={name}"], RunMode.RUN).width == size


def composed(loader: ConfigLoaderImpl, overrides: list[str], name: str = "config", mode: RunMode = RunMode.RUN) -> str:
    """The config as yaml, or the error."""
    try:
        return OmegaConf.to_yaml(loader.load_configuration(name, overrides, mode))
    except (HydraException, ValueError) as error:
        return f"{type(error).__name__}: {error}"


def test_a_changed_config_changes_no_other() -> None:
    loader = Loader(search_path())
    first = loader.load_configuration("config", [], RunMode.RUN)
    before = OmegaConf.to_yaml(first)
    first.seed, first.optimizer.lr, first.hydra.job.name = 5, 6, "another"
    del first.hydra.launcher
    assert OmegaConf.to_yaml(loader.load_configuration("config", [], RunMode.RUN)) == before


def test_a_users_file_that_cannot_be_meant_is_one_line_with_its_name(tmp_path: Path) -> None:
    """No yaml; values that are lost; a function that would be called; a plan that is not chosen among the defaults."""
    own = "defaults: [/config, _self_]\n"
    for content, message in (
        (b"a: b: c\n", "own"), (b"\xff\xfe\x00", "own"),
        (b"defaults: [_self_, /config]\ndropout: 0.5", "own.yaml: _self_ before /config lets /config override"),
        (f"{own}hydra: {{job_logging: {{formatters: {{x: {{(): os.system, command: id}}}}}}}}".encode(),
         r"own.yaml: hydra.job_logging.formatters.x.\(\): refused, because its \(\) would call a function"),
        (f"{own}until: {{margin: 1}}".encode(), r"^until"),
    ):  # fmt: skip
        (tmp_path / "own.yaml").write_bytes(content)
        with pytest.raises(UsageError, match=message) as raised:
            check(compose(CONF, ["overrides=[]"], name="own", folder=tmp_path))
        assert "\n" not in str(raised.value)

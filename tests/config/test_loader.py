"""Our loader composes what Hydra's own does, and reads every file once however many arms a sweep has."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra._internal.utils import create_config_search_path
from hydra.core.config_search_path import ConfigSearchPath, SearchPathQuery
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.plugins import Plugins
from hydra.errors import HydraException
from hydra.types import RunMode
from hydra.version import setbase
from omegaconf import DictConfig, OmegaConf

from asr_ablations.config.compose import Loader, compose, look_up_in, use_loader
from asr_ablations.config.plain_keys import check
from asr_ablations.tools.files import CONF, REPOSITORY
from asr_verdicts.errors import UsageError

SWEEPS = REPOSITORY / "sweeps"
FILES = (
    "batch_machines",
    "data_scale",
    "encoder",
    "hyperparameters",
    "l2",
    "language_models",
    "real_speech",
    "rnn_type",
)
"""Sweep files of every kind: groups beside conf/, other data, listed arms, a search, two factors, decoding, AN4."""


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


def ends(master: DictConfig) -> list[list[str]]:
    """The overrides of a sweep file's first and last arm; of an interval, which has no arms, nothing."""
    words = [f"{key}={value}" for key, value in master.hydra.sweeper.params.items()]
    parsed = [o for o in OverridesParser.create().parse_overrides(words) if o.is_discrete_sweep()]
    values = [(o.get_key_element(), list(o.sweep_string_iterator())) for o in parsed]
    return [[f"{key}={listed[position]}" for key, listed in values] for position in (0, -1)]


@pytest.mark.slow
@pytest.mark.parametrize("name", FILES)
def test_the_arms_of_sweep_files_are_as_hydra_composes_them(name: str) -> None:
    ours, hydras = Loader(search_path(SWEEPS)), ConfigLoaderImpl(search_path(SWEEPS))
    master = ours.load_configuration(name, ["hydra.verbose=true"], RunMode.MULTIRUN)
    theirs = hydras.load_configuration(name, ["hydra.verbose=true"], RunMode.MULTIRUN)
    assert OmegaConf.to_yaml(master) == OmegaConf.to_yaml(theirs)
    *before, last = [None, *ends(master)]
    for overrides in filter(None, before):
        ours.load_sweep_config(master, overrides)  # whatever it keeps of one arm must not reach the next
    if last:
        arms = [loader.load_sweep_config(cfg, last) for loader, cfg in ((ours, master), (hydras, theirs))]
        assert OmegaConf.to_yaml(arms[0]) == OmegaConf.to_yaml(arms[1]), last


@pytest.mark.slow
@pytest.mark.parametrize(
    "overrides",
    [
        ["augment=speed", "rnn=gru", "seed=3"], ["+decoder@ablation.second=beam", "batch={size:4}"],
        ["+ablation.new=1", "++seed=2", "optimizer.lr=0.1", "seeds.init=4"],
        ["hydra.launcher.jobs=3", "hydra/job_logging=none"], ["hydra.searchpath=[pkg://hydra.conf]", "norm=none"],
        ["rnn=nothing"], ["+rnn=gru"], ["++rnn=gru"], ["rnn=lstm,gru"],
    ],
)  # fmt: skip
def test_any_override_is_as_hydra_takes_it_the_first_time_and_later(overrides: list[str]) -> None:
    ours, hydras = Loader(search_path()), ConfigLoaderImpl(search_path())
    expected = composed(hydras, overrides)
    assert [composed(ours, overrides) for _ in range(2)] == [expected, expected]
    assert composed(ours, []) == composed(hydras, []), "what one command line changes does not reach another"


@pytest.mark.parametrize("modes", [[RunMode.MULTIRUN, RunMode.RUN], [RunMode.RUN, RunMode.MULTIRUN]])
def test_a_choice_that_nobody_has_made_is_forgiven_to_sweeps_alone(modes: list[RunMode], tmp_path: Path) -> None:
    (tmp_path / "open.yaml").write_text("defaults:\n  - rnn: ???\n", encoding="utf-8")
    ours, hydras = Loader(search_path(tmp_path)), ConfigLoaderImpl(search_path(tmp_path))
    texts = [[composed(loader, [], "open", mode) for mode in modes * 2] for loader in (ours, hydras)]
    assert texts[0] == texts[1]
    assert any("You must specify 'rnn'" in text for text in texts[0])


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


@contextmanager
def counted(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The yaml files that are read within, in order."""
    read: list[str] = []
    load = OmegaConf.load

    def count(file: object) -> object:
        read.append(str(getattr(file, "name", file)))
        return load(file)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(OmegaConf, "load", staticmethod(count))
        yield read


@pytest.mark.slow
def test_every_file_is_read_once_and_every_choice_of_files_merged_once(monkeypatch: pytest.MonkeyPatch) -> None:
    loader = Loader(search_path(SWEEPS))
    with counted(monkeypatch) as read:
        master = loader.load_configuration("rnn_type", [], RunMode.MULTIRUN)
        for seed in range(20):
            for rnn in ("lstm", "gru"):
                arm = loader.load_sweep_config(master, [f"rnn={rnn}", f"seed={seed}"])
                assert arm.seed == seed
                assert arm.rnn._target_.endswith({"lstm": ".LSTM", "gru": ".GRU"}[rnn])
    assert len(read) == len(set(read)) > 20, "no file twice"
    (repository,) = loader._repositories.values()
    assert len(repository.defaults) == 3, "the sweep's own, and the two of its arms"
    assert len(loader._merged) == 2, "the sweep's own files are those of its first arms"


@pytest.mark.parametrize("content", [b"a: b: c\n", b"\xff\xfe\x00", b"a: !!python/object/apply:os.getcwd []\n"])
def test_a_file_of_the_users_that_is_no_yaml_is_one_line_with_its_name(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_bytes(content)
    with pytest.raises(UsageError, match="mine") as raised:
        compose(CONF, [], name="mine", folder=tmp_path)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("defaults: [_self_, /config]\ndropout: 0.5", "own.yaml: _self_ before /config lets /config override"),
        (
            "defaults: [/config, _self_]\nhydra: {job_logging: {formatters: {x: {(): os.system, command: id}}}}",
            r"own.yaml: hydra.job_logging.formatters.x.\(\): refused, because its \(\) would call a function",
        ),
    ],
)
def test_a_file_whose_values_are_lost_or_that_calls_a_function_is_refused(
    tmp_path: Path, text: str, message: str
) -> None:
    (tmp_path / "own.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(UsageError, match=message):
        compose(CONF, ["overrides=[]"], name="own", folder=tmp_path)


@pytest.mark.parametrize("until", ["{margin: 1}", "verdict"])
def test_a_plan_is_chosen_among_the_defaults(tmp_path: Path, until: str) -> None:
    (tmp_path / "own.yaml").write_text(f"defaults: [/config, _self_]\nuntil: {until}", encoding="utf-8")
    with pytest.raises(UsageError, match=r"^until"):
        check(compose(CONF, ["overrides=[]"], name="own", folder=tmp_path))

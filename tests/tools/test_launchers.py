"""The help of the launchers."""

from hydra.core.config_store import ConfigStore
from hydra.core.plugins import Plugins

from asr_ablations.tools.files import CONF
from asr_ablations.tools.launchers import LAUNCHERS
from asr_ablations.tools.reference import Help


def test_every_key_of_every_launcher_is_explained() -> None:
    Plugins.instance()
    page = Help(CONF / "config.yaml", {}, [], False, [CONF]).explain("launcher")
    for name in LAUNCHERS:
        node = ConfigStore.instance().repo["hydra"]["launcher"][f"{name}.yaml"].node
        section = page.partition(f"hydra/launcher={name}")[2].partition("\n\n")[0]
        keys = [key for key in node if key != "_target_"]
        assert len(keys) == section.count("hydra.launcher.")
        for key in keys:
            assert f"hydra.launcher.{key}=" in section

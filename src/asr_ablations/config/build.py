"""From a resolved config to objects."""

from typing import Any

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from asr_ablations.tools.errors import UsageError

TRUSTED = ("asr_ablations.components.", "asr_benchmarks.", "torch.nn.", "torch.optim.")
"""Where a _target_ may point; a config can come from a stranger's run folder."""


def check_targets(cfg: DictConfig) -> None:
    """Resolve any config and check what it would build. Raises UsageError for what is missing or not trusted."""
    try:
        OmegaConf.resolve(cfg)
    except OmegaConfBaseException as error:
        raise UsageError(one_line(error)) from error
    content = OmegaConf.to_container(cfg)
    assert isinstance(content, dict)
    content.pop("overrides", None)  # what the user typed, with interpolations; nothing is built from it
    _check_targets(content)


def one_line(error: Exception) -> str:
    """What an error of composing or resolving says; where a mistake of the user is behind it, what that says."""
    behind = error.__context__
    return " ".join(str(behind if isinstance(behind, UsageError) else error).split())


def _check_targets(node: object) -> None:
    if isinstance(node, dict):
        target = node.get("_target_")
        if target is not None and not (isinstance(target, str) and target.startswith(TRUSTED)):
            raise UsageError(f"_target_={target}: refused, only {', '.join(t + '*' for t in TRUSTED)} are trusted")
        for value in node.values():
            _check_targets(value)
    elif isinstance(node, list):
        for value in node:
            _check_targets(value)
    elif isinstance(node, str) and "${" in node:
        # Hydra resolves once more when it instantiates: what appears then has been checked by nobody
        raise UsageError(f"{node}: refused, an interpolation within a resolved config")


def build(node: DictConfig, *positional: object, **keywords: object) -> Any:
    """The object that a config node describes. Refuses targets that are not defined where they claim to be, and turns
    a mistake in the values into a UsageError.
    """
    from hydra.errors import InstantiationException
    from hydra.utils import get_object, instantiate

    options = OmegaConf.to_container(node, resolve=True)
    assert isinstance(options, dict), "a config node holds keys and values"
    _check_targets(options)
    for target in _targets(options):
        try:
            home = getattr(get_object(target), "__module__", "") or ""
        except ImportError as error:
            if isinstance(error.__cause__, UsageError):  # a package is missing, and the module has said which
                raise error.__cause__ from None
            raise UsageError(f"_target_={target}: there is no such class or function") from error
        if not f"{home}.".startswith(TRUSTED):
            # asr_ablations.x.os.system begins as ours does: what counts is where the object was defined
            raise UsageError(f"_target_={target}: refused, it is defined in {home or 'no module'}")
    try:
        # the default conversion hands over DictConfigs; plain containers are simpler to work with
        return instantiate(options, *positional, _convert_="all", **keywords)
    except InstantiationException as error:
        cause = error.__cause__
        if isinstance(cause, (ValueError, TypeError)):
            raise UsageError(f"{options.get('_target_')}: {cause}") from cause
        raise


def _targets(node: object) -> list[str]:
    if isinstance(node, dict):
        own = [node["_target_"]] if "_target_" in node else []
        return own + [t for value in node.values() for t in _targets(value)]
    return [t for value in node for t in _targets(value)] if isinstance(node, list) else []

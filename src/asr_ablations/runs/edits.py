"""What was changed in a run's folder since it ran, where two of its files no longer agree."""

from asr_ablations.runs import layout
from asr_ablations.runs.identity import BEHAVIOUR, determining, identity_of
from asr_ablations.runs.record import RunRecord

EDITED = "its config.yaml is not the one that it ran with: environment.json has another id"
RENAMED = "its overrides are not those in its config.yaml: its arm may have the name of another"


def edits(run: RunRecord) -> list[str]:
    """What was changed, in a line each; nothing of evaluations, whose decoder stands in the config's place."""
    if run.folder.parent.name == layout.EVALUATIONS:
        return []
    return [words for words, seen in ((EDITED, _is_edited(run)), (RENAMED, _is_renamed(run))) if seen]


def _is_edited(run: RunRecord) -> bool:
    """Whether the config is not that of the recorded id, by the same behaviour of the code."""
    recorded, fingerprint = run.environment.get("id"), run.environment.get("data_fingerprint")
    if recorded is None or fingerprint is None or run.environment.get("behaviour") != BEHAVIOUR:
        return False
    return bool(identity_of(determining(run.config), fingerprint) != recorded)


def _is_renamed(run: RunRecord) -> bool:
    """Whether the file of overrides, by which arms are named, says something else than the config, which has them too.
    They are compared as lines, since a value may hold several.
    """
    typed = run.config.get("overrides")
    return typed is not None and [line for word in typed for line in word.split("\n") if line] != run.overrides

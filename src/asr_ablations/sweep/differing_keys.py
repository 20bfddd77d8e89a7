"""What the arms of a sweep differ in, said before the first one runs: later it would cost the runs."""

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from pathlib import Path

from omegaconf import DictConfig, OmegaConf

from asr_ablations.comparison.arm_differences import ArmDifference, arm_differences
from asr_ablations.comparison.arms import Arm, find_arm, find_baseline, group
from asr_ablations.comparison.confounds import ConfoundedError, confounds, differing, find_factor
from asr_ablations.comparison.declaration import Declaration, declaration
from asr_ablations.runs.derived_keys import derived_keys
from asr_ablations.runs.identity import flatten
from asr_ablations.runs.listed_arms import LIST, OWN
from asr_ablations.runs.record import NO_SUMMARY, Environment, RunRecord
from asr_ablations.runs.records import Records
from asr_ablations.tools.errors import UsageError
from asr_ablations.tools.files import CONF


def check_names(configs: Sequence[DictConfig]) -> None:
    """Check the names in a sweep file's question against its arms: `compare` reads them once the runs are there, and
    goes by the file as it was then.

    Raises UsageError for a factor that is no key, and for an arm that is misspelt: a word that is near the name of an
    arm and no option of the factor. An arm that is left out of this launch, or is another's, is no mistake.
    """
    runs = [_record(number, cfg) for number, cfg in enumerate(configs)]
    declared = declaration(runs)
    leaves = list(dict.fromkeys(leaf for run in runs for leaf in flatten(run.config)))
    keys = [*{".".join(leaf.split(".")[: depth + 1]): None for leaf in leaves for depth in range(leaf.count(".") + 1)}]
    for factor in declared.factor:
        if factor not in keys:
            near = get_close_matches(factor, keys, n=3)
            raise UsageError(f"ablation.factor={factor}: there is no such key{_nearest(near)}")
    if len(runs) < 2 or not (arms := _arms(runs, declared)):
        return
    options = [name for factor in declared.factor for name in _options(factor)]
    spoken = [*(arm.name for arm in arms), *(choice for arm in arms for choice in arm.levels.values()), *options]
    expected = [name for claim in declared.claims for name in claim.expected]
    asked = {"baseline": [declared.baseline or ""], "published": [*declared.published], "expected": expected}
    for key, names in asked.items():
        for name in names:
            known = find_arm(name, arms) is not None or name in spoken
            if not known and name.isalpha() and (near := get_close_matches(name, spoken, n=3, cutoff=0.75)):
                raise UsageError(f"ablation.{key}={name}: there is no such arm{_nearest(dict.fromkeys(near))}")


def _nearest(words: Iterable[str]) -> str:
    return f"; nearest: {', '.join(words)}" if words else ""


def _options(group: str) -> list[str]:
    return sorted(file.stem for file in (CONF / group).glob("*.yaml"))


def print_differences(configs: Sequence[DictConfig]) -> None:
    """A line per arm with the keys in which it differs from the baseline, and a better baseline where there is one; or
    a warning that no arm is the declared baseline. The runs serve another comparison, so the sweep is not refused.
    """
    try:
        lines = [*_beyond_the_factor(configs), *difference_lines(differences_of(configs))]
    except UsageError as error:
        lines = [f"warning: ablation.{error}: `compare` will need --baseline"]
    for line in lines:
        print(line)


def _beyond_the_factor(configs: Sequence[DictConfig]) -> list[str]:
    """A warning where the arms differ in more than the declared factor, which `compare` refuses."""
    runs = [_record(number, cfg) for number, cfg in enumerate(configs)]
    factor = declaration(runs).factor
    if not factor or runs[0].config.get(LIST) or not (beyond := confounds(runs, factor, differing(runs))):
        return []
    keys, allowed = ", ".join(beyond), " ".join(f"--allow {key}" for key in beyond)
    return [f"warning: ablation.factor={', '.join(factor)}: the arms differ in {keys}, too: `compare` needs {allowed}"]


def difference_lines(differences: Sequence[ArmDifference]) -> list[str]:
    """The differences in lines, and proposals of another baseline."""
    proposals = [difference.proposal for difference in differences if difference.proposal]
    return [*(difference.text for difference in differences), *(f"warning: {proposal}" for proposal in proposals)]


def differences_of(configs: Sequence[DictConfig]) -> list[ArmDifference]:
    """configs: composed, of all runs. Empty for one arm, and for arms that `compare` would refuse as confounded.

    Raises UsageError where no arm is the declared baseline.
    """
    runs = [_record(number, cfg) for number, cfg in enumerate(configs)]
    if len(runs) < 2:
        return []
    declared = declaration(runs)
    arms = _arms(runs, declared)
    if len(arms) < 2:
        return []
    factor = _factor(runs, declared)
    baseline = find_baseline(declared.baseline, arms) if declared.baseline else arms[0]
    return arm_differences({arm.name: arm.runs[0].config for arm in arms}, baseline.name, factor, runs)


def _factor(runs: Sequence[RunRecord], declared: Declaration) -> list[str]:
    """Raises ConfoundedError for runs that differ in several keys, of which none is declared."""
    if runs[0].config.get(LIST):
        return [OWN, *declared.factor]
    return declared.factor or find_factor(runs, differing(runs), [])


def _arms(runs: Sequence[RunRecord], declared: Declaration) -> list[Arm]:
    """The arms of these runs; none where `compare` would refuse them as confounded."""
    try:
        factor = _factor(runs, declared)
    except ConfoundedError:
        return []
    keys = [OWN] if runs[0].config.get(LIST) else list(differing(runs))
    return group(Records(list(runs)), factor, keys)[0]


def _record(number: int, cfg: DictConfig) -> RunRecord:
    config = OmegaConf.to_container(cfg, resolve=True)
    assert isinstance(config, dict)
    whole = {str(key): value for key, value in config.items()}
    return RunRecord(
        folder=Path(str(number)),
        config=whole,
        overrides=[str(word) for word in whole.get("overrides") or []],
        summary=NO_SUMMARY,
        environment=Environment(derived=derived_keys(whole)),
    )

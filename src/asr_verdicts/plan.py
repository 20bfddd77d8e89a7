"""The plan of a sweep that adds seeds until its questions are decided. The plan is made before the first run."""

from dataclasses import asdict, dataclass, field

from asr_verdicts.arms import name_of
from asr_verdicts.config import OWN, Config


@dataclass(frozen=True)
class PlannedArm:
    """An arm of a plan, with the config of its runs.

    - levels: the arm's choices, by config key or group
    - overrides: Hydra overrides of its runs, without the seed
    - content: config values that determine its results, without those that change with the seed
    """

    levels: dict[str, str]
    overrides: list[str]
    content: Config

    @property
    def name(self) -> str:
        """The arm's name in tables."""
        return name_of(self.levels)


@dataclass(frozen=True)
class VerdictPlan:
    """The decisions made before a sweep's first run. Changing one of them makes a different plan.

    - baseline: name of the baseline arm
    - metric, set: metric and test set used for decisions
    - contrasts: names of the questions
    - margin: largest difference that would not matter, in the unit of the recorded metric (a fraction for error rates),
      or as a difference of logarithms on the relative scale
    - alpha: joint rate of false claims over all questions
    - gamma: shape of the alpha-spending function
    - seeds: seeds in the order in which they are added
    - looks: number of runs per arm at each look (interim analysis), in increasing order
    - robust: whether claims are about typical runs, with trimmed means if a run failed; if False, claims are about
      plain means
    - failed: rule for failed runs, as in `ablation.failed`
    - paired: whether runs with the same seed form pairs
    - scale: scale of the margin and of all claims: points or relative
    - hopeless: a question is given up if its chance of a verdict falls below this value
    - belongs: config keys that differ between the seeds of an arm

    The remaining fields only describe the plan and may change:

    - made: UTC time at which the plan was made, in ISO 8601
    - seen: number of runs of these arms that had already been compared when the plan was made
    - notes: what was known about the seed noise when the plan was made
    - hours: time budget that limits the number of runs, in hours; None if there is none
    """

    arms: list[PlannedArm]
    baseline: str
    metric: str
    set: str
    contrasts: list[str]
    margin: float
    alpha: float
    seeds: list[int]
    looks: list[int]
    gamma: float
    robust: bool
    paired: bool
    hopeless: float
    belongs: list[str]
    made: str
    scale: str = "points"
    failed: object = None
    seen: int = 0
    notes: list[str] = field(default_factory=list)
    hours: float | None = None

    def as_json(self) -> Config:
        return asdict(self)

    @property
    def most(self) -> int:
        """The number of runs per arm at the last look."""
        return self.looks[-1]

    @property
    def listed(self) -> dict[str, str]:
        """The overrides that not all arms share, by arm name; empty if the sweep has no list of arms."""
        changes = [{word for word in arm.overrides if not word.startswith(f"{OWN}=")} for arm in self.arms]
        if all(len(words) == len(arm.overrides) for words, arm in zip(changes, self.arms, strict=True)):
            return {}
        shared = set.intersection(*changes)
        unshared = [
            [word for word in arm.overrides if word in words - shared]
            for words, arm in zip(changes, self.arms, strict=True)
        ]
        return {arm.name: " ".join(words) or "nothing" for words, arm in zip(unshared, self.arms, strict=True)}

    def look_of(self, seed: int) -> int | None:
        """Return the number, from 1, of the first look that includes this seed; None if no look does."""
        if seed not in self.seeds[: self.most]:
            return None
        return next(n for n, runs in enumerate(self.looks, start=1) if self.seeds.index(seed) < runs)

"""The plan of an ablation that adds seeds until its questions are decided, made before the first run."""

from dataclasses import asdict, dataclass, field

from asr_verdicts.arms import name_of
from asr_verdicts.config import OWN, Config


@dataclass(frozen=True)
class PlannedArm:
    """An arm of a plan.

    - levels: choices of the arm, by key or group
    - overrides: overrides of its runs, except the seed
    - content: everything that determines its results, except what belongs to the seed
    """

    levels: dict[str, str]
    overrides: list[str]
    content: Config

    @property
    def name(self) -> str:
        """The name of the arm in tables."""
        return name_of(self.levels)


@dataclass(frozen=True)
class VerdictPlan:
    """The decisions made before the first run. If one of them changes, it is another plan.

    - baseline: name of the baseline
    - metric, set: metric and test set that decide
    - contrasts: names of the questions
    - margin: largest difference that would not matter, in the unit of the recorded metric (a fraction for rates), or a
      difference of logarithms on the relative scale
    - alpha: rate of false claims over all questions
    - gamma: shape of the alpha-spending function
    - seeds: seeds in the order in which runs are added
    - looks: number of runs per arm at each look, increasing
    - robust: whether claims are about typical runs, with trimmed means if a run failed. Otherwise they are about plain
      means.
    - failed: rule for failed runs, as in `ablation.failed`
    - paired: whether runs with the same seed are pairs
    - scale: scale of the margin and of all claims
    - hopeless: chance of a verdict below which a question is given up
    - belongs: keys that differ between the seeds of an arm

    The other fields describe the plan and may change:

    - made: time at which the plan was made, UTC, ISO 8601
    - seen: number of runs of these arms that had been compared before
    - notes: notes on the noise at the time when the plan was made
    - hours: budget in hours that set the largest number of runs; None if there was none
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
        """The largest number of runs per arm."""
        return self.looks[-1]

    @property
    def listed(self) -> dict[str, str]:
        """The changes of each arm, by its name; empty for a sweep without a list of arms."""
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

"""The plan of an ablation that adds seeds until it knows; the sweep's manifest freezes it before the first run."""

from dataclasses import asdict, dataclass, field

from asr_verdicts.arms import name_of
from asr_verdicts.config import OWN, Config


@dataclass(frozen=True)
class PlannedArm:
    """An arm: its choices by key or group, and its overrides except the seed.

    content: everything that determines its results, except what belongs to the seed.
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
    """The decisions made before the first run. Any change makes another plan.

    - baseline: an arm's name; metric, set: what decides; contrasts: the names of the questions
    - margin: the difference that would not matter, in the unit of the recorded metric, a fraction for rates
    - alpha: the rate of false claims over all questions; gamma: the shape of its spending
    - seeds: in the order in which runs are added; looks: runs per arm at each look, increasing
    - robust: claims are about typical runs, with trimmed means if a run failed; False: about plain means
    - failed: the rule for failed runs, as in `ablation.failed`; paired: runs of the same seed are pairs
    - scale: of the margin and of all claims; a margin on the relative scale is a difference of logarithms
    - hopeless: the chance of a verdict below which a question is given up
    - belongs: the keys that differ between the seeds of an arm

    The rest describes the plan and may change:

    - made: UTC, ISO 8601; seen: runs of these arms that had been compared before
    - notes: about the noise, when the plan was made; hours: the budget that set the most runs, if it was in hours
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
        """The largest number of runs of an arm."""
        return self.looks[-1]

    @property
    def listed(self) -> dict[str, str]:
        """The changes of each arm by its name; empty for a sweep without a list of arms."""
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
        """The number, from 1, of the first look that counts a run of this seed; None if none does."""
        if seed not in self.seeds[: self.most]:
            return None
        return next(n for n, runs in enumerate(self.looks, start=1) if self.seeds.index(seed) < runs)

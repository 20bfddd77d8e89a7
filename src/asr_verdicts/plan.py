"""The plan of an ablation that adds seeds until it knows: frozen in the sweep's manifest before its first run."""

from dataclasses import asdict, dataclass, field

from asr_verdicts.arms import name_of
from asr_verdicts.config import OWN, Config


@dataclass(frozen=True)
class PlannedArm:
    """An arm by its choices by key or group, and its overrides without the seed's.

    content: everything that determines its results, without what belongs to the seed.
    """

    levels: dict[str, str]
    overrides: list[str]
    content: Config

    @property
    def name(self) -> str:
        """Its name in tables."""
        return name_of(self.levels)


@dataclass(frozen=True)
class VerdictPlan:
    """The decisions that were made before the first run. Any change makes another plan.

    baseline: an arm's name; metric, set: what decides; contrasts: the names of the questions. margin: the difference
    that would not matter, in the unit of the recorded metric, a fraction for rates. alpha: of false claims over all
    questions. seeds: in the order in which runs are added; looks: runs an arm after which one looks, the last of them
    the most. gamma: the shape of the spending. robust: claims are about typical runs, trimmed means where a run failed;
    False: about means. failed: by which rule, as `ablation.failed` has it. scale: of the margin and of all claims; a
    margin on the relative one is a difference of logarithms. paired: runs of the same seed are pairs.
    hopeless: the chance of a verdict below which a question is given up. belongs: the keys that differ between the
    seeds of an arm.

    made: UTC, ISO 8601; seen: runs of these arms that had been compared before; notes: what was said of the noise when
    the plan was made; hours: the budget from which the most runs were reckoned, if it was one in hours. They describe,
    and are no part of what must not change.
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
        """The most runs of an arm."""
        return self.looks[-1]

    @property
    def listed(self) -> dict[str, str]:
        """The changes of each arm, by its name; empty for a sweep without a list of arms."""
        own = [{word for word in arm.overrides if not word.startswith(f"{OWN}=")} for arm in self.arms]
        if all(len(words) == len(arm.overrides) for words, arm in zip(own, self.arms, strict=True)):
            return {}
        shared = set.intersection(*own)
        kept = [
            [word for word in arm.overrides if word in words - shared]
            for words, arm in zip(own, self.arms, strict=True)
        ]
        return {arm.name: " ".join(words) or "nothing" for words, arm in zip(kept, self.arms, strict=True)}

    def look_of(self, seed: int) -> int | None:
        """The number of the first look, from 1, that counts a run of this seed; None for a seed that none counts."""
        if seed not in self.seeds[: self.most]:
            return None
        return next(n for n, runs in enumerate(self.looks, start=1) if self.seeds.index(seed) < runs)

"""Seed noise of a corpus, measured on earlier sweeps as differences in error rate between seeds."""

import json
from contextlib import suppress
from pathlib import Path

from asr_ablations.runs.layout import runs_in
from asr_ablations.runs.reader import UnreadableFileError, read_config, read_data, read_environment, read_summary
from asr_ablations.runs.records import KEPT_ASIDE
from asr_ablations.runs.status import fate_of
from asr_ablations.runs.sweep_history import read_plan
from asr_verdicts.config import determining
from asr_verdicts.record import Record
from asr_verdicts.statistics.seed_noise import TOTALS, SeedNoise, pooled_deviation


def seed_noise(outputs: Path, like: Record, name: str, metric: str) -> SeedNoise | None:
    """Measure the seed noise of a metric on a test set of `like`, from other sweeps under `outputs`.

    It uses finished runs tested on the same data, in arms with two or more seeds that agree in everything else. None
    without such arms, or if the data of `like` are unknown.
    """
    expected = like.data.hash(name)
    if expected is None:
        return None
    total = like.value(name, TOTALS.get(metric, ""))
    folder = like.folder.resolve()
    return noise_of_set(outputs, expected, name, metric, total, but=frozenset({folder, *folder.parents}))


def noise_of_set(
    outputs: Path, sha256: str, name: str, metric: str, total: float | None, but: frozenset[Path] = frozenset()
) -> SeedNoise | None:
    """Measure the seed noise of a metric on the test set with this hash, like `seed_noise`.

    total: words or characters of the set, if known. but: sweep folders to ignore. Arms that a plan stopped early are
    ignored too, because it first stops those with similar seeds.
    """
    arms: dict[str, dict[int, tuple[float, Path]]] = {}
    most: dict[Path, int] = {}
    sweeps = sorted(path for path in outputs.iterdir() if path.is_dir()) if outputs.is_dir() else []
    runs = (run for sweep in sweeps if sweep.resolve() not in but for run in runs_in(sweep))
    for run in (run for run in runs if not KEPT_ASIDE.search(run.name)):
        with suppress(FileNotFoundError, UnreadableFileError, KeyError, TypeError, ValueError):
            data = read_data(run)
            if data.hash(name) != sha256 or fate_of(run).state != "done":
                continue
            if (rate := read_summary(run).value(name, metric)) is None:
                continue
            config = read_config(run)
            arm = content_but_seed(Record(run, config, [], data=data, environment=read_environment(run)))
            if run.parent not in most:
                plan = read_plan(run.parent)
                most[run.parent] = 0 if plan is None else plan.most
            arms.setdefault(arm, {}).setdefault(int(config["seed"]), (rate, run.parent))
    # an arm was stopped early if all its runs belong to planned sweeps, and it has fewer seeds than each plan allows
    allowed = {arm: min(most[sweep] for _, sweep in seeds.values()) for arm, seeds in arms.items()}
    groups = [list(seeds.values()) for arm, seeds in arms.items() if len(seeds) > 1 and len(seeds) >= allowed[arm]]
    if not groups:
        return None
    deviation = pooled_deviation([[rate for rate, _ in group] for group in groups], 1 / total if total else 0.0)
    rates, counted = zip(*(run for group in groups for run in group), strict=True)
    return SeedNoise(deviation, sum(rates) / len(rates), len(rates), len(groups), len({*counted}))


def content_but_seed(run: Record) -> str:
    """Return a text with everything that determines a run's results except the seed."""
    same = {key: value for key, value in determining(run.config).items() if key != "seed"}
    return json.dumps([same, run.data.hash("train"), run.environment.behaviour], sort_keys=True)

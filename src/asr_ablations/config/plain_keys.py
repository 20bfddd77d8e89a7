"""Values of the plain keys of a training config."""

import re

from omegaconf import DictConfig, OmegaConf

from asr_ablations.config.build import build, check_targets
from asr_ablations.native import extension as native
from asr_ablations.runs.metrics_files import FIGURES
from asr_ablations.tools.checks import a_path, label_or_null, number, switch, whole
from asr_verdicts.errors import choices

LARGEST_SEED = 2**63 - 1
"""A signed integer of 64 bits: beyond it generators refuse a seed, or take it for another."""
MOST_PROCESSES = 1024
"""Threads or processes of a run: more hang a machine before they say anything."""
MOST = {"max_epochs": 10**6, "width": 2**16, "layers": 1000, "nodes": 10**4}
"""Beyond what anybody trains: building a billion layers takes hours before it says anything."""
MOST_IN_A_BATCH = 10**6
"""Utterances, or seconds of audio."""
LONGEST = 10**6
"""Minutes or seconds between two things that a run does: two years, or twelve days. No timer takes any number."""
PRECISIONS = (32, 16, "bf16", "16-master", "16-true", "bf16-true")

HASH = re.compile("[0-9a-f]{64}")


def check(cfg: DictConfig) -> None:
    """Check the values of plain keys. Raises UsageError with the value and the choices."""
    check_targets(cfg)
    if cfg.precision not in PRECISIONS:
        raise choices("precision", cfg.precision, PRECISIONS)
    native.check(cfg.native)
    if cfg.gpus != "auto":
        whole("gpus", cfg.gpus, 0, MOST_PROCESSES, also="auto")
    whole("seed", cfg.seed, 0, LARGEST_SEED)
    for key, most in MOST.items():
        whole(key, cfg[key], 1, most)
    whole("workers", cfg.workers, 0, MOST_PROCESSES)
    for key, value in cfg.seeds.items():
        if value is not None:
            whole(f"seeds.{key}", value, 0, LARGEST_SEED)
    _check_batch(cfg)
    _check_weights(cfg)
    if cfg.best not in FIGURES:
        raise choices("best", cfg.best, FIGURES)
    for key in ("tf32", "progress", "force", "plan"):
        switch(key, cfg[key])
    for key in ("ranks", "threads"):
        if cfg[key] is not None:
            whole(key, cfg[key], 1, MOST_PROCESSES)
    if cfg.ranks is not None and cfg.gpus not in ("auto", 0, cfg.ranks):
        raise choices("ranks", cfg.ranks, f"null, or one per GPU with gpus={cfg.gpus}")
    number("checkpoint_minutes", cfg.checkpoint_minutes, least=0, most=LONGEST)
    number("utilisation_seconds", cfg.utilisation_seconds, above=0, most=LONGEST)
    if cfg.transcripts.every is not None:
        whole("transcripts.every", cfg.transcripts.every, 1, also="null for none")
    whole("transcripts.utterances", cfg.transcripts.utterances, 1)
    price = OmegaConf.select(cfg, "hardware.price_per_hour")
    if price is not None:
        number("hardware.price_per_hour", price, least=0, also="null for none")
    if cfg.get("until") is not None:
        if not OmegaConf.is_dict(cfg.until) or "_target_" not in cfg.until:
            raise choices("until", cfg.until, "null, or `override /until: verdict` among the file's defaults")
        build(cfg.until)()
    a_path("outputs", cfg.outputs)
    for key in ("sweep", "arm"):
        label_or_null(key, cfg[key])


def _check_weights(cfg: DictConfig) -> None:
    """Check the types of what a run starts from, and that parts and a hash do not stand alone."""
    if cfg.weights is not None and not isinstance(cfg.weights, str):
        raise choices("weights", cfg.weights, "null, or a run's folder or a .ckpt")
    parts = cfg.weights_parts
    is_list = OmegaConf.is_list(parts) and len(parts) > 0 and all(isinstance(part, str) for part in parts)
    if parts is not None and not (is_list and cfg.weights):
        raise choices("weights_parts", parts, "null, or a list like [convolutions] with a run's folder as weights")
    if cfg.weights is None and cfg.weights_sha256 is not None:
        raise choices("weights_sha256", cfg.weights_sha256, "null, or with a run's folder or a .ckpt as weights")
    if cfg.weights is not None and not HASH.fullmatch(str(cfg.weights_sha256)):
        raise choices("weights_sha256", cfg.weights_sha256, "64 hexadecimal digits; it sets itself")


def _check_batch(cfg: DictConfig) -> None:
    """Check that one of batch.size and batch.seconds is set, the other null."""
    whole("batch.accumulate", cfg.batch.accumulate, 1, MOST_IN_A_BATCH)
    size, seconds = cfg.batch.size, cfg.batch.seconds
    if seconds is None:
        whole("batch.size", size, 1, MOST_IN_A_BATCH, also="batch.seconds set instead")
        return
    number("batch.seconds", seconds, above=0, most=MOST_IN_A_BATCH, also="null where batch.size is set")
    if size is not None:
        raise choices("batch.seconds", seconds, f"null beside batch.size={size}, or batch.size=null with it")

"""Check the values of the plain keys of a training config."""

from omegaconf import DictConfig, OmegaConf

from asr_ablations.config.build import build, check_targets
from asr_ablations.native import extension as native
from asr_ablations.runs.metrics_files import FIGURES
from asr_ablations.tools.checks import MOST_LAYERS, MOST_WIDTH, a_path, label_or_null, number, switch, whole
from asr_verdicts.errors import choices

LARGEST_SEED = 2**63 - 1
"""Largest signed 64-bit integer. Random generators refuse larger seeds or map them to smaller ones."""
MOST_PROCESSES = 1024
"""Maximum number of threads or processes of a run. More would hang the machine before an error is printed."""
MOST_IN_A_BATCH = 10**6
"""Maximum number of utterances, or seconds of audio, in a batch."""
LONGEST = 10**6
"""Maximum minutes between checkpoints, and seconds between utilisation samples. Timers overflow at larger values."""
PRECISIONS = (32, 16, "bf16", "16-master", "16-true", "bf16-true")
WHOLE = {
    "seed": (0, LARGEST_SEED), "max_epochs": (1, 10**6), "nodes": (1, 10**4), "workers": (0, MOST_PROCESSES),
    "batch.accumulate": (1, MOST_IN_A_BATCH), "transcripts.utterances": (1, None), "width": (1, MOST_WIDTH),
    "layers": (1, MOST_LAYERS),
}  # fmt: skip
"""Bounds of integer keys."""
WHOLE_OR_NULL = {
    **{f"seeds.{name}": (0, LARGEST_SEED) for name in ("init", "order", "augment", "dropout")},
    "ranks": (1, MOST_PROCESSES), "threads": (1, MOST_PROCESSES), "transcripts.every": (1, None),
}  # fmt: skip


def check(cfg: DictConfig) -> None:
    """Raise UsageError, with the allowed values, for the first plain key that has a wrong value."""
    check_targets(cfg)
    if cfg.precision not in PRECISIONS:
        raise choices("precision", cfg.precision, PRECISIONS)
    native.check(cfg.native)
    if cfg.gpus != "auto":
        whole("gpus", cfg.gpus, 0, MOST_PROCESSES, also="auto")
    for key, bounds in WHOLE.items():
        whole(key, OmegaConf.select(cfg, key), *bounds)
    for key, bounds in WHOLE_OR_NULL.items():
        if (value := OmegaConf.select(cfg, key)) is not None:
            whole(key, value, *bounds, also="null")
    size, seconds = cfg.batch.size, cfg.batch.seconds
    if seconds is None:
        whole("batch.size", size, 1, MOST_IN_A_BATCH, also="batch.seconds set instead")
    else:
        number("batch.seconds", seconds, above=0, most=MOST_IN_A_BATCH, also="null if batch.size is set")
        if size is not None:
            raise choices("batch.seconds", seconds, f"null because of batch.size={size}, or batch.size=null")
    for key in ("weights_parts", "weights_sha256"):
        if cfg.weights is None and cfg[key] is not None:
            raise choices(key, cfg[key], "null, unless weights=<run folder or .ckpt> is set")
    if cfg.weights_parts is not None and not (OmegaConf.is_list(cfg.weights_parts) and cfg.weights_parts):
        raise choices("weights_parts", cfg.weights_parts, "null, or a list like [convolutions, recurrent.0]")
    number("dropout", cfg.dropout, least=0, below=1)
    if cfg.best not in FIGURES:
        raise choices("best", cfg.best, FIGURES)
    for key in ("tf32", "progress", "force", "plan"):
        switch(key, cfg[key])
    if cfg.ranks is not None and cfg.gpus not in ("auto", 0, cfg.ranks):
        raise choices("ranks", cfg.ranks, f"null, or one per GPU with gpus={cfg.gpus}")
    number("checkpoint_minutes", cfg.checkpoint_minutes, least=0, most=LONGEST)
    number("utilisation_seconds", cfg.utilisation_seconds, above=0, most=LONGEST)
    if (price := OmegaConf.select(cfg, "hardware.price_per_hour")) is not None:
        number("hardware.price_per_hour", price, least=0, also="null for none")
    if cfg.get("until") is not None:
        build(cfg.until)()
    a_path("outputs", cfg.outputs)
    for key in ("sweep", "arm"):
        label_or_null(key, cfg[key])

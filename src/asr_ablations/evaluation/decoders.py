"""What a decoder may declare beside its call: a name, weights to tune, files, and that it searches."""

from collections.abc import Mapping
from pathlib import Path

from omegaconf import DictConfig

from asr_ablations.training.contracts import Decoder


def decoder_name(cfg: DictConfig) -> str:
    """The name of the config's decoder: that of its file in components/decoder/."""
    return str(cfg.decoder._target_).split(".")[-2]


def tuned_weights(decoder: Decoder) -> tuple[str, ...]:
    """Names of the attributes that are tuned on a validation set; empty for a decoder without weights."""
    return tuple(getattr(decoder, "tuned", ()))


def files(decoder: Decoder) -> Mapping[str, Path]:
    """The files that the decoder reads, by key of its config."""
    paths: Mapping[str, Path] = getattr(decoder, "files", {})
    return paths


def searches(decoder: Decoder) -> bool:
    """Whether decoding takes long where the model is unsure of everything."""
    return bool(getattr(decoder, "searches", False))

"""Checks of an export's options, before anything is loaded."""

from omegaconf import DictConfig

from asr_ablations.config.build import check_targets
from asr_ablations.tools.checks import number, path_or_none, whole
from asr_ablations.tools.errors import require
from asr_ablations.tools.files import typed
from asr_verdicts.errors import UsageError, choices

PACKAGES = ("onnx", "onnxscript", "onnxruntime")
SAMPLES = ("float", "int16")
OPSETS = (18, 25)
"""The lowest and the highest version of ONNX's operators that can be written."""


def check_export(cfg: DictConfig) -> None:
    """Raise UsageError, with the value and the choices, for an option that cannot be met."""
    check_targets(cfg)
    if not cfg.run:
        raise UsageError(f"run is not set: a run's folder, as in {typed('export')} run=outputs/<sweep>/<run>")
    path_or_none("run", cfg.run)
    if cfg.samples not in SAMPLES:
        raise choices("samples", cfg.samples, SAMPLES)
    if cfg.opset is not None:
        whole("opset", cfg.opset, *OPSETS, also="null")
    if cfg.output is not None and not str(cfg.output).endswith(".onnx"):
        raise choices("output", cfg.output, "a file that ends in .onnx")
    number("tolerance", cfg.tolerance, above=0, most=1)
    require("export", "export.py", *PACKAGES)

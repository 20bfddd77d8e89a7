"""What an export is asked: checks before anything is loaded."""

from importlib.util import find_spec

from omegaconf import DictConfig

from asr_ablations.config.build import check_targets
from asr_ablations.tools.errors import UsageError, choices

PACKAGES = ("onnx", "onnxscript", "onnxruntime")
SAMPLES = ("float", "int16")
OPSETS = range(18, 26)


def check_request(cfg: DictConfig) -> None:
    """Raises UsageError with the value and the choices."""
    check_targets(cfg)
    if not cfg.run:
        raise UsageError("run is not set: a run's folder, as in python src/export.py run=outputs/<sweep>/<run>")
    if cfg.samples not in SAMPLES:
        raise choices("samples", cfg.samples, SAMPLES)
    if cfg.opset is not None and (isinstance(cfg.opset, bool) or cfg.opset not in OPSETS):
        raise choices("opset", cfg.opset, f"null, or {OPSETS.start} to {OPSETS.stop - 1}")
    if cfg.output is not None and not str(cfg.output).endswith(".onnx"):
        raise choices("output", cfg.output, "a file that ends in .onnx")
    if isinstance(cfg.tolerance, bool) or not isinstance(cfg.tolerance, (int, float)) or not cfg.tolerance > 0:
        raise choices("tolerance", cfg.tolerance, "a number above 0 (nats)")
    if missing := [name for name in PACKAGES if find_spec(name) is None]:
        raise UsageError(f"{', '.join(missing)}: not installed; pip install -e '.[export]' installs it")

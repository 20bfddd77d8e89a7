"""Check the options of the transcribe and export commands before anything is loaded."""

from omegaconf import DictConfig, OmegaConf

from asr_ablations.config.build import check_targets
from asr_ablations.tools.checks import check_auto_or_one, number, path_or_none, switch, whole
from asr_ablations.tools.errors import require
from asr_ablations.tools.files import typed
from asr_verdicts.errors import UsageError, choices

SAMPLES = ("float", "int16")
FORMATS = ("text", "json", "srt")


def check_transcription(cfg: DictConfig) -> None:
    """Raise UsageError if an option of the transcribe command is invalid."""
    _check_run(cfg, "transcribe")
    path_or_none("output", cfg.output)
    switch("serve", cfg.serve)
    if cfg.format not in FORMATS:
        raise choices("format", cfg.format, FORMATS)
    check_auto_or_one("gpus", cfg.gpus)
    for key in ("longest", "batch_seconds", "limits.megabytes", "limits.minutes"):
        number(key, OmegaConf.select(cfg, key), above=0)
    if cfg.longest < 1:
        raise choices("longest", cfg.longest, "1 second or more")
    whole("port", cfg.port, 0, 65535)
    if cfg.serve:
        require("serve", "serve=true", "fastapi", "uvicorn")
        if requested_audio(cfg):
            raise choices("audio", cfg.audio, "null with serve=true, because the web page uploads recordings")
    elif not requested_audio(cfg):
        raise UsageError("audio is not set: expected a file, a folder, a list [a,b], or - to read paths from stdin")


def _check_run(cfg: DictConfig, command: str) -> None:
    check_targets(cfg)
    if not cfg.run:
        raise UsageError(f"run is not set: expected a run folder, as in {typed(command)} run=outputs/<sweep>/<run>")
    path_or_none("run", cfg.run)


def requested_audio(cfg: DictConfig) -> list[str]:
    """Return the paths in the config key `audio` as a list, without null and empty paths."""
    value = OmegaConf.to_container(cfg.audio) if OmegaConf.is_config(cfg.audio) else cfg.audio
    paths = value if isinstance(value, list) else [value]
    for path in paths:
        if path is not None and not isinstance(path, str):
            raise choices("audio", path, f"a path; quote a path that is a number: audio=\"'{path}'\"")
    return [path for path in paths if isinstance(path, str) and path]


def check_export(cfg: DictConfig) -> None:
    """Raise UsageError if an option of the export command is invalid."""
    _check_run(cfg, "export")
    if cfg.samples not in SAMPLES:
        raise choices("samples", cfg.samples, SAMPLES)
    if cfg.opset is not None:
        whole("opset", cfg.opset, 18, 25, also="null")  # ONNX operator-set versions that the exporter supports
    if cfg.output is not None and not str(cfg.output).endswith(".onnx"):
        raise choices("output", cfg.output, "a file that ends in .onnx")
    number("tolerance", cfg.tolerance, above=0, most=1)
    require("export", "export.py", "onnx", "onnxscript", "onnxruntime")

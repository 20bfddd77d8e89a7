"""The names of all files under outputs/, defined in one place.

A run's folder is outputs/<sweep>/<overrides>-<identity>/. SWEEP and ARMS are next to the folders of a sweep's runs.
"""

from pathlib import Path

# in the folder of a run
CONFIG = "config.yaml"  # the resolved config
OVERRIDES = "overrides"  # the overrides that the user typed, a line each
ENVIRONMENT = "environment.json"
"""Versions, hardware, command, commit and uncommitted changes; later sessions under `resumed`."""
STATUS = "status.json"  # running, done, failed or pruned, with reason, and the step at which the run diverged
DATA = "data.json"  # content and hash of each set, and the utterances left out
MODEL = "model.txt"  # the model's layers with shapes and parameters
METRICS = "metrics.csv"  # all values logged in training and validation
LOSSES = "losses.csv"  # exact training loss of every step, and the gradient norm before clipping
TRANSCRIPTS = "transcripts.csv"  # transcripts of training utterances, every few batches
UTILISATION = "utilisation.csv"  # the use of the machine, sampled over time
PROFILE, TRACE = "profile.txt", "profile.json"
"""The time of some steps by operation (debug=profile), as a table and as a trace for a viewer."""
PROGRESS = "progress.json"  # the latest epoch, loss and WER, for the live table of a sweep
UTTERANCES = "utterances.csv"  # reference, hypothesis and error counts of every utterance of the final evaluation
SUMMARY = "summary.json"  # the final rates, sizes and times
OUTPUT_LOG = "output.log"  # the output of an arm's process
CHECKPOINTS = "checkpoints"
LAST = "last.ckpt"
BEST = "best.ckpt"
LOG_PROBS = "logprobs"  # model outputs for whole sets, which any decoder can use
ACTIVATIONS = "activations"  # outputs of hidden layers for whole sets, as HDF5
EVALUATIONS = "evaluations"
TIMING = "timing"
"""The times of evaluations, or timing.json in a comparison's folder. They differ between measurements."""
TUNING = "tuning"  # tried weights of the language model
RESULT, REPORT = "result.json", "report.md"  # the result of a measurement without error rates

ALONE = "single"  # the folder of runs that do not belong to a sweep

# in the folder of a sweep
SWEEP = "sweep.json"  # the latest launch, the arms of all launches under this name, and the runs of each launch
ARMS = "arms"  # the frozen configs of the arms, <folder of the run>.yaml
COMPARISON = "comparison"
LOOKS = "looks.json"  # every look of a comparison at the results so far; also next to a run's evaluations
STANDING = "verdict.json"  # the state of each arm of a planned sweep: its look, and its questions' intervals
LEASES = ".leases"  # one lease file for each run with a process

# in the folder of a reproduction
REQUEST, REPRODUCTION = "request.yaml", "reproduction.json"


def last_checkpoint(folder: Path) -> Path:
    """Return the path of the checkpoint from which a run resumes."""
    return folder / CHECKPOINTS / LAST


def is_run(folder: Path) -> bool:
    """Return whether a run has started in this folder."""
    return (folder / STATUS).exists()


def runs_in(folder: Path) -> list[Path]:
    """Return the folders of started runs directly in this folder, sorted by name."""
    return sorted(path.parent for path in folder.glob(f"*/{STATUS}"))


def frozen_config(folder: Path) -> Path:
    """Return the path of the frozen config of the arm whose run has this folder."""
    return folder.parent / ARMS / f"{folder.name}.yaml"

"""The names of all files under outputs/, written down once.

A run's folder is outputs/<sweep>/<overrides>-<identity>/; beside the folders of a sweep's runs lie SWEEP and ARMS.
"""

from pathlib import Path

# in the folder of a run
CONFIG = "config.yaml"  # the resolved config
OVERRIDES = "overrides"  # the overrides that the user typed, a line each
ENVIRONMENT = "environment.json"
"""Versions, hardware, command, commit and uncommitted changes; later sessions under `resumed`."""
STATUS = "status.json"  # running, done, failed or pruned, with the reason, and the step at which the run diverged
DATA = "data.json"  # the content of each set, its hash, and the utterances that were left out
MODEL = "model.txt"  # the layers of the model with their shapes and parameters
METRICS = "metrics.csv"  # everything that training and validation log
LOSSES = "losses.csv"  # the training loss of every step, exactly, and the norm of its gradient before clipping
TRANSCRIPTS = "transcripts.csv"  # transcripts of training utterances, every few batches
UTILISATION = "utilisation.csv"  # the use of the machine, sampled over time
PROFILE, TRACE = "profile.txt", "profile.json"
"""The time of some steps by operation (debug=profile): a table, and a trace for a viewer."""
PROGRESS = "progress.json"  # the latest epoch, loss and WER, for the live table of a sweep
UTTERANCES = "utterances.csv"  # reference, hypothesis and error counts of every utterance of the final evaluation
SUMMARY = "summary.json"  # the final rates, sizes and times
OUTPUT_LOG = "output.log"  # the output of an arm's process
CHECKPOINTS = "checkpoints"
LAST = "last.ckpt"
BEST = "best.ckpt"
LOG_PROBS = "logprobs"  # outputs of the model for whole sets, from which every decoder works
ACTIVATIONS = "activations"  # outputs of hidden layers for whole sets, as HDF5
EVALUATIONS = "evaluations"
TIMING = "timing"
"""The times of evaluations, and in the folder of a comparison timing.json: they differ each time they are measured."""
TUNING = "tuning"  # weights of the language model that were tried
RESULT, REPORT = "result.json", "report.md"  # the result of a measurement, which has no rates

ALONE = "single"  # the folder of the runs that are part of no sweep

# in the folder of a sweep
SWEEP = "sweep.json"  # the latest launch, the arms of all launches under this name, and what each launch was to run
ARMS = "arms"  # the frozen configs of the arms, <folder of the run>.yaml
COMPARISON = "comparison"
LOOKS = "looks.json"  # every look of a comparison at the results so far; beside the evaluations of a run, too
STANDING = "verdict.json"  # the state of each arm of a planned sweep: its look, and the intervals of its questions
LEASES = ".leases"  # the leases: one file for each run with a process

# in the folder of a reproduction
REQUEST, REPRODUCTION = "request.yaml", "reproduction.json"


def last_checkpoint(folder: Path) -> Path:
    """The checkpoint that a run continues from."""
    return folder / CHECKPOINTS / LAST


def is_run(folder: Path) -> bool:
    """True if a run has begun in this folder."""
    return (folder / STATUS).exists()


def runs_in(folder: Path) -> list[Path]:
    """The folders directly below this one in which a run has begun, in order of their names."""
    return sorted(path.parent for path in folder.glob(f"*/{STATUS}"))


def frozen_config(folder: Path) -> Path:
    """The frozen config of the arm whose run has this folder."""
    return folder.parent / ARMS / f"{folder.name}.yaml"

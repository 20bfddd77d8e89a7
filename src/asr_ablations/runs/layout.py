"""The names of all files and folders under outputs/.

A run's folder is outputs/<sweep>/<overrides>-<identity>/.
"""

import re
from pathlib import Path

# in the run folder outputs/<sweep>/<run>/
CONFIG = "config.yaml"  # the resolved config
OVERRIDES = "overrides"  # the overrides that the user typed, one per line
ENVIRONMENT = "environment.json"  # versions, hardware, command and code of the first and each resuming session
STATUS = "status.json"  # running, done, failed or pruned, with the reason and the step at which the run diverged
DATA = "data.json"  # contents and hash of each data set, and the utterances left out
MODEL = "model.txt"  # the model's layers with shapes and parameters
METRICS = "metrics.csv"  # all values logged in training and validation
LOSSES = "losses.csv"  # exact training loss of every step, and the gradient norm before clipping
TRANSCRIPTS = "transcripts.csv"  # transcripts of training utterances, logged every few batches
UTILISATION = "utilisation.csv"  # utilisation of CPU, memory and GPUs, sampled over time
PROFILE, TRACE = "profile.txt", "profile.json"  # operation times over a few steps, as a table and as a trace
PROGRESS = "progress.json"  # latest epoch, loss and WER, for a sweep's live table
UTTERANCES = "utterances.csv"  # reference, hypothesis and error counts of every utterance of the final evaluation
SUMMARY = "summary.json"  # final error rates, sizes and times
OUTPUT_LOG = "output.log"  # output of an arm's process
CHECKPOINTS = "checkpoints"
LAST = "last.ckpt"
BEST = "best.ckpt"
LOG_PROBS = "logprobs"  # log-probabilities of whole data sets, for decoders
ACTIVATIONS = "activations"  # outputs of hidden layers for whole data sets, as HDF5
EVALUATIONS = "evaluations"
TIMING = "timing"  # evaluation times, which vary between repetitions; a comparison's times are in timing.json
TUNING = "tuning"  # language model weights that were tried, with their results
RESULT, REPORT = "result.json", "report.md"  # results of a benchmark, which has no error rates

ALONE = "single"  # sweep name of runs outside a sweep

# in the sweep folder outputs/<sweep>/
SWEEP = "sweep.json"  # the manifest: the latest launch, the arms of all launches, and the runs of each launch
ARMS = "arms"  # frozen configs of the arms, as <run folder>.yaml
COMPARISON = "comparison"
LOOKS = "looks.json"  # log of every comparison's look at the results; also written next to a run's evaluations
STANDING = "verdict.json"  # state of each arm of a planned sweep after its latest look, with intervals
LEASES = ".leases"  # lease files, one for each run in progress
KEPT_ASIDE = re.compile(r"-[0-9a-f]{8}\.\d+$")  # end of the name of a run folder set aside, as in seed-1-0a1b2c3d.1

# in a reproduction's folder
REQUEST, REPRODUCTION = "request.yaml", "reproduction.json"


def last_checkpoint(folder: Path) -> Path:
    """Return the path of the checkpoint from which a run resumes."""
    return folder / CHECKPOINTS / LAST


def is_run(folder: Path) -> bool:
    """Return whether a run has started in this folder."""
    return (folder / STATUS).exists()


def runs_in(folder: Path) -> list[Path]:
    """Return the run folders directly below a sweep folder, sorted by name. Runs that have not started are left out."""
    return sorted(path.parent for path in folder.glob(f"*/{STATUS}"))


def frozen_config(folder: Path) -> Path:
    """Return the path of an arm's frozen config. folder: the arm's run folder."""
    return folder.parent / ARMS / f"{folder.name}.yaml"

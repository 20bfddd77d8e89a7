"""The names of all files and folders under outputs/.

A run's folder is outputs/<sweep>/<overrides>-<identity>/.
"""

from pathlib import Path

# in the folder of a run, outputs/<sweep>/<run>/
CONFIG = "config.yaml"  # the resolved config
OVERRIDES = "overrides"  # the overrides that the user typed, one per line
ENVIRONMENT = "environment.json"  # versions, hardware, command and code, also of each session that resumed the run
STATUS = "status.json"  # running, done, failed or pruned, with the reason and the step at which the run diverged
DATA = "data.json"  # content and hash of each data set, and utterances left out
MODEL = "model.txt"  # the model's layers with shapes and parameters
METRICS = "metrics.csv"  # all values logged in training and validation
LOSSES = "losses.csv"  # exact training loss of every step, and the gradient norm before clipping
TRANSCRIPTS = "transcripts.csv"  # transcripts of training utterances, every few batches
UTILISATION = "utilisation.csv"  # use of processor, memory and GPUs, sampled over time
PROFILE, TRACE = "profile.txt", "profile.json"  # times of operations in some steps: a table, and a trace for viewers
PROGRESS = "progress.json"  # latest epoch, loss and WER, for the live table of a sweep
UTTERANCES = "utterances.csv"  # reference, hypothesis and error counts of every utterance of the final evaluation
SUMMARY = "summary.json"  # final error rates, sizes and times
OUTPUT_LOG = "output.log"  # output of an arm's process
CHECKPOINTS = "checkpoints"
LAST = "last.ckpt"
BEST = "best.ckpt"
LOG_PROBS = "logprobs"  # log-probabilities of whole data sets, for decoders
ACTIVATIONS = "activations"  # outputs of hidden layers for whole data sets, as HDF5
EVALUATIONS = "evaluations"
TIMING = "timing"  # times of evaluations, which vary; in a comparison's folder, timing.json
TUNING = "tuning"  # language model weights that were tried, with their results
RESULT, REPORT = "result.json", "report.md"  # results of a benchmark, which has no error rates

ALONE = "single"  # name of the sweep for runs outside a sweep

# in the folder of a sweep, outputs/<sweep>/
SWEEP = "sweep.json"  # the manifest: the latest launch, the arms of all launches, and the runs of each launch
ARMS = "arms"  # frozen configs of the arms, <folder of the run>.yaml
COMPARISON = "comparison"
LOOKS = "looks.json"  # every time that a comparison looked at the results; also next to a run's evaluations
STANDING = "verdict.json"  # state of each arm of a planned sweep after its latest look, with intervals
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
    """Return the path of the arm's frozen config, given its run folder."""
    return folder.parent / ARMS / f"{folder.name}.yaml"

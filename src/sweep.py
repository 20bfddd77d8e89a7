"""Hand a sweep file to something else than this machine's launcher.

python src/sweep.py wandb sweeps/rnn_type.yaml                          a W&B sweep: agents on many machines take arms
python src/sweep.py wandb sweeps/hyperparameters.yaml --method bayes    let W&B search

Every agent runs in its own checkout of the same commit. If they share outputs/ (an override in the file's command, as
outputs=<folder>), no arm is trained twice: what is done is skipped, and what another agent is at is left to it.
"""

import sys

from asr_ablations.commands.sweep import main

if __name__ == "__main__":
    sys.exit(main())

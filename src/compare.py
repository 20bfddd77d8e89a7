"""Compare the arms of a sweep: table, statistics, verdicts, figures, page.

python src/compare.py outputs/rnn_type                     one sweep
python src/compare.py outputs/rnn_type --baseline lstm     against another arm
python src/compare.py outputs/a outputs/b --allow batch.size
python src/compare.py --results                            sweeps/RESULTS.md of all finished sweeps under outputs/
python src/compare.py wandb=entity/project/group           the runs as Weights & Biases has them
python src/compare.py outputs/benchmarks                   what src/benchmark.py measured, side by side
python src/compare.py mine.json theirs.json                result.json of two machines
"""

import sys

from asr_ablations.commands.compare import main

if __name__ == "__main__":
    sys.exit(main())

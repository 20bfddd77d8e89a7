"""Measure a training config on this machine.

python src/benchmark.py benchmark=loop                 Lightning's loop against a bare one
python src/benchmark.py benchmark=input                the loader alone: every cache, 0 to 4 workers, beside the model
python src/benchmark.py benchmark=loop model=ds2 data=an4 data.root=<folder>
"""

from asr_ablations.commands.hydra_commands import benchmark as main

if __name__ == "__main__":
    main()

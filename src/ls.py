"""List the sweeps in outputs/, with their runs, states and hours."""

import sys

from asr_ablations.commands.overview import list_sweeps

if __name__ == "__main__":
    sys.exit(list_sweeps())

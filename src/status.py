"""Show the runs of a sweep, wherever they run."""

import sys

from asr_ablations.commands.overview import show_status

if __name__ == "__main__":
    sys.exit(show_status())

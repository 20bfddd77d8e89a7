"""Show the keys in which two runs differ, and their rates."""

import sys

from asr_ablations.commands.overview import show_differences

if __name__ == "__main__":
    sys.exit(show_differences())

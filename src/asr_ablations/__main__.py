"""python -m asr_ablations: the command that an installed package brings."""

import sys

from asr_ablations.commands.console import main

if __name__ == "__main__":
    sys.exit(main())

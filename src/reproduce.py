"""Run a finished run again and say whether its result came back; or vary it in one key."""

import sys

from asr_ablations.commands.reproduce import main

if __name__ == "__main__":
    sys.exit(main())

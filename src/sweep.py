"""Hand a sweep file to something else than this machine's launcher."""

import sys

from asr_ablations.commands.sweep import main

if __name__ == "__main__":
    sys.exit(main())

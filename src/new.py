"""Write the two files of your own variant."""

import sys

from asr_ablations.commands.new_variant import main

if __name__ == "__main__":
    sys.exit(main())

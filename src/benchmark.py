"""Measure a training config on this machine."""

from asr_ablations.commands.benchmark import main

if __name__ == "__main__":
    main()

"""Measure a training config on this machine."""

from asr_ablations.commands.heads import benchmark

if __name__ == "__main__":
    benchmark()

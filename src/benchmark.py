"""Measure the speed and memory of a training config on this machine."""

from asr_ablations.commands.hydra_commands import benchmark as main

if __name__ == "__main__":
    main()

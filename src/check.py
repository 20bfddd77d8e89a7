"""Check an option, such as your own, against the contract of its group."""

from asr_ablations.commands.hydra_commands import check

if __name__ == "__main__":
    check()

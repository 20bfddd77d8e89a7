"""Prepare a corpus: generate or download it, check every audio file, and list the contents."""

from asr_ablations.commands.hydra_commands import prepare as main

if __name__ == "__main__":
    main()

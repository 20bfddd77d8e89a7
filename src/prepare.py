"""Prepare a corpus: generate or download it, check every file of it, say what it holds."""

from asr_ablations.commands.prepare import main

if __name__ == "__main__":
    main()

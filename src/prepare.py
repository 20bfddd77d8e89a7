"""Prepare a corpus: generate or download it, check every file of it, say what it holds."""

from asr_ablations.commands.heads import prepare

if __name__ == "__main__":
    prepare()

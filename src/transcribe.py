"""Turn recordings into text with a trained run."""

from asr_ablations.commands.heads import transcribe

if __name__ == "__main__":
    transcribe()

"""Turn recordings into text with a trained run."""

from asr_ablations.commands.transcribe import main

if __name__ == "__main__":
    main()

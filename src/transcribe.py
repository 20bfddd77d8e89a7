"""Transcribe recordings with the model of a trained run."""

from asr_ablations.commands.hydra_commands import transcribe as main

if __name__ == "__main__":
    main()

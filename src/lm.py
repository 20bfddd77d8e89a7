"""Make a language model for decoding."""

from asr_ablations.commands.hydra_commands import make_language_model as main

if __name__ == "__main__":
    main()

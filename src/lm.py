"""Make a language model for decoding."""

from asr_ablations.commands.lm import main

if __name__ == "__main__":
    main()

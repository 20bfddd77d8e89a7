"""Make a language model for decoding."""

from asr_ablations.commands.heads import make_language_model

if __name__ == "__main__":
    make_language_model()

"""Decode trained runs, with any decoder and language model, from log-probabilities that are computed once."""

from asr_ablations.commands.heads import evaluate_runs

if __name__ == "__main__":
    evaluate_runs()

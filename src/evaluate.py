"""Decode trained runs, with any decoder and language model, from log-probabilities that are computed once."""

from asr_ablations.commands.hydra_commands import evaluate_runs as main

if __name__ == "__main__":
    main()

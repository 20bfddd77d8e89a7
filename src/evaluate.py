"""Decode trained runs with any decoder and language model; log-probabilities are computed only once."""

from asr_ablations.commands.hydra_commands import evaluate_runs as main

if __name__ == "__main__":
    main()

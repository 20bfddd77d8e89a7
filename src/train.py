"""Train one run, or with -m a sweep of runs."""

from asr_ablations.commands.train import main

if __name__ == "__main__":
    main()

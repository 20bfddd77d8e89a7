"""Decode trained runs, with any decoder and language model, from log-probabilities that are computed once.

python src/evaluate.py run=<folder>                                             greedy
python src/evaluate.py -m run=<folder> decoder=beam decoder.beam_width=16,64    a table of beam widths
python src/evaluate.py run=<folder> decoder=beam_lm decoder.lm=<folder> tune.trials=50
python src/evaluate.py --help                                                   groups, keys, values
"""

from asr_ablations.commands.hydra_commands import evaluate_runs as main

if __name__ == "__main__":
    main()

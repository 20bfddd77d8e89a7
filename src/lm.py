"""Make a language model for decoding.

python src/lm.py                                         a 3-gram of the built-in corpus's training transcripts
python src/lm.py data=an4 data.root=<folder> lm.order=4  of another corpus
python src/lm.py lm.text=<file> lm.prune=[0,0,1]         of a text file, pruned
python src/lm.py lm=librispeech lm.name=4-gram           one that came with LibriSpeech
python src/lm.py --help                                  groups, keys, values
"""

from asr_ablations.commands.hydra_commands import make_language_model as main

if __name__ == "__main__":
    main()

"""Make a language model for decoding.

python src/lm.py                                         a 3-gram of the built-in corpus's training transcripts
python src/lm.py data=an4 data.root=<folder> lm.order=4  of another corpus
python src/lm.py lm.text=<file> lm.prune=[0,0,1]         of a text file, pruned
python src/lm.py lm=librispeech lm.name=4-gram           one that came with LibriSpeech
python src/lm.py --help                                  groups, keys, values
"""

from omegaconf import DictConfig

from asr_ablations.config.entry import entry


@entry("language_model")
def main(cfg: DictConfig) -> object:
    from asr_ablations.commands.make_lm import make  # torch is imported only when there is work to do

    return make(cfg)

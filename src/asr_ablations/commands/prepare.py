"""Prepare a corpus: generate or download it, check every file of it, say what it holds.

python src/prepare.py                                             the built-in corpus
python src/prepare.py data=librispeech data.root=<folder> data.train=clean100
python src/prepare.py --help
"""

from omegaconf import DictConfig

from asr_ablations.config.entry import entry


@entry("prepare")
def main(cfg: DictConfig) -> None:
    from asr_ablations.commands.prepare_corpus import prepare  # torch is imported only when there is work to do

    prepare(cfg)

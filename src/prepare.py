"""Prepare a corpus: generate or download it, check every file, list the contents.

python src/prepare.py                                             the built-in corpus
python src/prepare.py data=librispeech data.root=<folder> data.train=clean100
python src/prepare.py --help
"""

from asr_ablations.commands.hydra_commands import prepare as main

if __name__ == "__main__":
    main()

"""An alphabet derived from the training text."""

from asr_ablations.data.alphabet import Alphabet
from asr_ablations.data.corpus import Corpus


def derived(corpus: Corpus, *, separation: str | None) -> Alphabet:
    """Every character of the training text and the space, in the order of their code points.

    Cost: the corpus is prepared and the training split is read before the model is built, whose size depends on it.
    """
    corpus.prepare()
    texts = corpus.read_set("train").strings("text")
    return Alphabet.with_separation("".join(sorted(set(" ").union(*texts))), separation)

"""An alphabet derived from the training text."""

from asr_ablations.data.alphabet import Alphabet
from asr_ablations.data.corpus import Corpus


def derived(corpus: Corpus, *, separation: str | None) -> Alphabet:
    """Build an alphabet of the space and every character in the training text, sorted by code point.

    This prepares the corpus and reads the training split before the model is built, because its size depends on it.
    """
    corpus.prepare()
    texts = corpus.read_set("train").strings("text")
    return Alphabet.with_separation("".join(sorted(set(" ").union(*texts))), separation)

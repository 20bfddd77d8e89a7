"""An alphabet derived from the training texts."""

from asr_ablations.data.alphabet import Alphabet
from asr_ablations.data.corpus import Corpus


def derived(corpus: Corpus, *, separation: str | None) -> Alphabet:
    """Build an alphabet of the space and every character in the training texts, sorted by code point.

    The corpus is prepared and its training texts are read, because the model's size depends on the alphabet.
    """
    corpus.prepare()
    texts = corpus.read_set("train").strings("text")
    return Alphabet.with_separation("".join(sorted(set(" ").union(*texts))), separation)

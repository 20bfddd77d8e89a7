"""An alphabet derived from the training texts."""

from collections.abc import Mapping

from asr_ablations.data.alphabet import Letters
from asr_ablations.data.corpus import Corpus


class Derived:
    """Builds an alphabet of the space and every character in the training texts, sorted by code point.

    The corpus is prepared and its training texts are read, because the model's size depends on the alphabet.
    separation: the character between double letters, or None.
    """

    def __init__(self, *, separation: str | None) -> None:
        self.separation = separation

    def __call__(self, corpus: Corpus) -> Letters:
        corpus.prepare()
        texts = corpus.read_set("train").usable().strings("text")
        return Letters.with_separation("".join(sorted(set(" ").union(*texts))), self.separation)

    def restore(self, state: Mapping[str, object]) -> Letters:
        return Letters.restore(state)

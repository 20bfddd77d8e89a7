"""An alphabet derived from the training text."""

from collections.abc import Mapping

from asr_ablations.data.alphabet import Letters
from asr_ablations.data.corpus import Corpus


class Derived:
    """Builds an alphabet of the space and every character in the training text, sorted by code point.

    This prepares the corpus and reads the training split before the model is built, because its size depends on it.
    separation: the character put between double letters, or None.
    """

    def __init__(self, *, separation: str | None) -> None:
        self.separation = separation

    def __call__(self, corpus: Corpus) -> Letters:
        corpus.prepare()
        texts = corpus.read_set("train").strings("text")
        return Letters.with_separation("".join(sorted(set(" ").union(*texts))), self.separation)

    def restore(self, state: Mapping[str, object]) -> Letters:
        return Letters.restore(state)

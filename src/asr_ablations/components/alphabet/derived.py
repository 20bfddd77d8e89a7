"""An alphabet derived from the training transcripts."""

from collections.abc import Mapping

from asr_ablations.data.alphabet import Letters
from asr_ablations.data.corpus import Corpus


class Derived:
    """Builds an alphabet of the space and all characters in the training transcripts, sorted by code point.

    The corpus is prepared before the model is built, because the model's output size depends on the alphabet.
    separation: character to insert between two equal letters in a row, or None to insert nothing
    """

    def __init__(self, *, separation: str | None) -> None:
        self.separation = separation

    def __call__(self, corpus: Corpus) -> Letters:
        corpus.prepare()
        texts = corpus.read_set("train").usable().strings("text")
        return Letters.with_separation("".join(sorted(set(" ").union(*texts))), self.separation)

    def restore(self, state: Mapping[str, object]) -> Letters:
        return Letters.restore(state)

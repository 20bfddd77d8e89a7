"""Whether a model seems to know the kind of speech that it is given."""

from collections.abc import Iterable

from asr_ablations.transcription.word_times import Word

SURE = 0.75
"""Mean confidence of words below which a model is outside what it knows. A model of the built-in corpus has 0.90 over
new speakers of that corpus (nine utterances of ten above 0.83), and 0.64 over AN4, which is real speech (nine of ten
below 0.70).
"""
FEWEST = 5
"""Words below which nothing is said: one odd name makes a short text unsure."""


def doubt(words: Iterable[Word]) -> str | None:
    """A sentence where the confidence is low throughout, None where it is not."""
    confidences = [word.confidence for word in words]
    mean = sum(confidences) / max(1, len(confidences))
    if len(confidences) < FEWEST or mean >= SURE:
        return None
    return (
        f"low confidence throughout: {mean:.2f} on average over {len(confidences)} words, expected {SURE:g} and more. "
        "The text is probably wrong: a model recognises speech like that which it was trained on (docs/models.md)"
    )

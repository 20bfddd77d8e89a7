"""Validation error rates as torchmetrics objects, which Lightning gathers over ranks and resets each epoch."""

from collections.abc import Iterable

from torchmetrics.text import CharErrorRate, WordErrorRate

from asr_verdicts.error_counts import Errors, character_errors, sum_errors, word_errors


class WordErrors(WordErrorRate):
    """torchmetrics' word error rate with our counts, because its edit distance, in Python, is 160 times slower."""

    def update(self, preds: str | list[str], target: str | list[str]) -> None:
        _add(self, (word_errors(r, h) for r, h in zip(_listed(target), _listed(preds), strict=True)))


class CharacterErrors(CharErrorRate):
    """torchmetrics' character error rate with our counts."""

    def update(self, preds: str | list[str], target: str | list[str]) -> None:
        _add(self, (character_errors(r, h) for r, h in zip(_listed(target), _listed(preds), strict=True)))


class CharacterErrorsOverLonger(CharErrorRate):
    """The character error rate over the longer of reference and hypothesis (Baunsgaard2020 §4.1.1, equation 3)."""

    def update(self, preds: str | list[str], target: str | list[str]) -> None:
        pairs = zip(_listed(target), _listed(preds), strict=True)
        _add(self, (character_errors(r, h).over_longer for r, h in pairs))


def _add(metric: WordErrorRate | CharErrorRate, errors: Iterable[Errors]) -> None:
    total = sum_errors(errors)
    metric.errors += total.count
    metric.total += total.total


def _listed(texts: str | list[str]) -> list[str]:
    return [texts] if isinstance(texts, str) else texts

"""Sample sentences from a grammar over the N most frequent words of a language, with Zipf-like word frequencies."""

import hashlib
from bisect import bisect
from collections.abc import Iterable
from functools import lru_cache
from itertools import accumulate, pairwise

import numpy as np

from asr_ablations.synthesis.languages import Language, Productions, load_language
from asr_ablations.synthesis.speakers import generator
from asr_ablations.tools.checks import is_whole
from asr_verdicts.errors import choices

LENGTHS = range(3, 11)  # words per sentence
ZIPF_OFFSET, ZIPF_EXPONENT = 2.0, 1.0  # a word of rank r = 0, 1, … in its category has frequency (r + offset)^-exponent
# COLLOCATION_SHARE of all words are sampled from COLLOCATES words that the previous word prefers. Otherwise all words
# of a category would be interchangeable, and a language model could only learn the grammar.
COLLOCATION_SHARE, COLLOCATES = 0.4, 4
# A hash of each sentence selects the only split that may use it. On average, 4 of 16 sentences go to dev and test.
PARTITIONS = ("dev-clean", "dev-other", "test-clean", "test-other") + 12 * ("train",)
MINIMUM_WORDS = 60


def partition(sentence: str) -> str:
    """Return the only split that may use a sentence. A hash determines it, so processes need not communicate."""
    return PARTITIONS[hashlib.sha256(sentence.encode()).digest()[0] % len(PARTITIONS)]


def zipf(size: int) -> list[float]:
    """Return relative frequencies for the words of a category with `size` words, most frequent first."""
    return [(rank + ZIPF_OFFSET) ** -ZIPF_EXPONENT for rank in range(size)]


@lru_cache
def ranking(name: str) -> list[str]:
    """Return all words of a language, ordered by their expected frequency in its sentences, most frequent first."""
    language = load_language(name)
    symbols = list(language.grammar)
    number = {symbol: i for i, symbol in enumerate(symbols)}
    follows = np.zeros((len(symbols), len(symbols)))  # [i, j]: expected number of symbols j in a production of symbol i
    leaves: list[tuple[int, str, float]] = []  # (symbol, word or category, its expected number in a production)
    for symbol, productions in language.grammar.items():
        total = sum(weight for weight, _ in productions)
        for weight, production in productions:
            for part in production:
                if part in number:
                    follows[number[symbol], number[part]] += weight / total
                else:
                    leaves.append((number[symbol], part, weight / total))
    start = np.eye(len(symbols))[number["SENTENCE"]]
    visits = np.linalg.solve(np.eye(len(symbols)) - follows.T, start)
    scores: dict[str, float] = {}
    for symbol_number, leaf, count in leaves:
        members = language.categories.get(leaf, [leaf])
        weights = zipf(len(members))
        for word, weight in zip(members, weights, strict=True):
            share = count * visits[symbol_number] * weight / sum(weights)
            scores[word] = scores.get(word, 0.0) + float(share)
    return sorted(scores, key=lambda word: (-round(scores[word], 9), word))


def prune(language: Language, vocabulary: Iterable[str]) -> tuple[dict[str, Productions], set[str]]:
    """Restrict a grammar to a vocabulary. Return the remaining productions, and the words that they can produce."""
    allowed = set(vocabulary)
    categories = {name for name, members in language.categories.items() if not allowed.isdisjoint(members)}
    possible, size = allowed | categories, 0
    while size < len(possible):
        size = len(possible)
        possible |= {
            symbol
            for symbol, productions in language.grammar.items()
            if any(possible.issuperset(production) for _, production in productions)
        }
    grammar = {
        symbol: [(weight, production) for weight, production in productions if possible.issuperset(production)]
        for symbol, productions in language.grammar.items()
    }
    reached: set[str] = set()
    frontier = ["SENTENCE"]
    while frontier:
        symbol = frontier.pop()
        if symbol not in reached:
            reached.add(symbol)
            frontier += [part for _, production in grammar.get(symbol, ()) for part in production]
    members = {word for name in reached & categories for word in language.categories[name]}
    return grammar, allowed & (reached | members)


def vocabulary(name: str, size: int) -> list[str]:
    """Return the `size` most frequent words that can form sentences. Raises UsageError for an impossible size."""
    language, ranked = load_language(name), ranking(name)
    if not is_whole(size, MINIMUM_WORDS) or size > len(ranked):
        raise choices("data.words", size, f"a whole number from {MINIMUM_WORDS} to {len(ranked)} (language {name})")
    spoken: set[str] = set()
    taken = size
    while len(spoken) < size:  # some frequent words can only be used together with a rarer one
        spoken = prune(language, ranked[:taken])[1]
        taken += size - len(spoken)
    while len(spoken) > size:  # the last step may have added too many words
        rarest = (word for word in reversed(ranked) if word in spoken)
        spoken = next(rest for word in rarest if len(rest := prune(language, spoken - {word})[1]) >= size)
    return [word for word in ranked if word in spoken]


class SentenceSampler:
    """Samples random sentences that use only the `words` most frequent words of a language."""

    def __init__(self, language: str, words: int) -> None:
        self.language = load_language(language)
        self.vocabulary = vocabulary(language, words)
        self._allowed = frozenset(self.vocabulary)
        grammar, _ = prune(self.language, self._allowed)
        self._productions = {
            symbol: (list(accumulate(weight for weight, _ in productions)), [parts for _, parts in productions])
            for symbol, productions in grammar.items()
            if productions
        }
        self._categories = {
            name: [word for word in members if word in self._allowed]
            for name, members in self.language.categories.items()
        }
        self._cumulative = {name: list(accumulate(zipf(len(m)))) for name, m in self._categories.items()}
        self._collocates: dict[tuple[str, str], list[str]] = {}

    def draw(self, rng: np.random.Generator, split: str | None = None) -> str:
        """Sample a sentence in lower case. If `split` is given, sample only sentences that this split may use."""
        while True:
            words = self.language.correct(self._expand("SENTENCE", [], rng))
            sentence = " ".join(words)
            fits = len(words) in LENGTHS and self._allowed.issuperset(words) and all(a != b for a, b in pairwise(words))
            if fits and (split is None or partition(sentence) == split):
                return sentence

    def _expand(self, symbol: str, drawn: list[str], rng: np.random.Generator) -> list[str]:
        if symbol in self._productions:
            cumulative, productions = self._productions[symbol]
            for part in productions[bisect(cumulative, rng.random() * cumulative[-1])]:
                self._expand(part, drawn, rng)
        elif symbol in self._categories:
            drawn.append(self._word(symbol, drawn[-1] if drawn else "", rng))
        else:
            drawn.append(symbol)
        return drawn

    def _word(self, category: str, before: str, rng: np.random.Generator) -> str:
        if rng.random() >= COLLOCATION_SHARE:
            return self._zipf(category, rng)
        if (before, category) not in self._collocates:
            preference = generator("collocates", before, category)
            self._collocates[before, category] = [self._zipf(category, preference) for _ in range(COLLOCATES)]
        return self._collocates[before, category][int(rng.random() * COLLOCATES)]

    def _zipf(self, category: str, rng: np.random.Generator) -> str:
        cumulative = self._cumulative[category]
        return self._categories[category][bisect(cumulative, rng.random() * cumulative[-1])]

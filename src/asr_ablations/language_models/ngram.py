"""ARPA files: n-grams with log10 probabilities and back-off weights, as written by SRILM, KenLM and others."""

import gzip
import math
import zlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from asr_verdicts.errors import UsageError
from asr_verdicts.files import whole_file
from asr_verdicts.text import clean, decode, lower

Entry = tuple[tuple[str, ...], float, float | None]
"""Words, log10 probability, and log10 back-off weight, which is None for the highest order."""


def read_unigrams(file: Path) -> list[str]:
    """Return the words of an ARPA file, including <s> and other marks. Raises UsageError if it has none."""
    words = []
    with open_text(file) as lines:
        inside = False
        for line in lines:
            if line.startswith("\\"):
                if inside:
                    break
                inside = line.startswith("\\1-grams:")
            elif inside and line.strip():
                if len(columns := line.split()) < 2:
                    raise UsageError(f"{file}: not an n-gram: {line.strip()[:80]!r}")
                words.append(columns[1])
    if not words:
        raise UsageError(f"{file}: not an ARPA file (\\1-grams: is missing)")
    return words


@contextmanager
def open_text(file: Path) -> Iterator[Iterable[str]]:
    """Open a text file for reading lines, compressed (.gz) or not. Raises UsageError if it is damaged or not UTF-8."""
    try:
        with gzip.open(file, "rb") if file.suffix == ".gz" else file.open("rb") as content:
            lines = enumerate(content, start=1)
            yield (decode(line, file, number).replace("\r\n", "\n") for number, line in lines)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise UsageError(f"{file}: damaged: {error}") from error


def write_arpa(file: Path, orders: Sequence[Sequence[Entry]]) -> None:
    """Write n-grams, with a sequence of entries per order. The file appears when it is complete."""
    with whole_file(file) as temporary, temporary.open("w", encoding="utf-8") as output:
        output.write("\\data\\\n")
        output.writelines(f"ngram {n}={len(entries)}\n" for n, entries in enumerate(orders, start=1))
        for n, entries in enumerate(orders, start=1):
            output.write(f"\n\\{n}-grams:\n")
            output.writelines(_format_line(entry) for entry in entries)
        output.write("\n\\end\\\n")


def _format_line(entry: Entry) -> str:
    words, probability, backoff = entry
    weight = "" if backoff is None else f"\t{backoff:.7g}"
    return f"{probability:.7g}\t{' '.join(words)}{weight}\n"


def lower_case(source: Path, target: Path, language: str) -> None:
    """Write a copy in lower case and NFC, like transcripts. Raises UsageError if two words would become equal."""
    originals: dict[str, str] = {}
    for word in read_unigrams(source):
        if (lowered := lower(clean(word), language)) in originals:
            raise UsageError(f"{source}: {originals[lowered]!r} and {word!r} are the same word in lower case")
        originals[lowered] = word
    with open_text(source) as lines, whole_file(target) as temporary, temporary.open("w", encoding="utf-8") as output:
        # numbers contain only the letter e, as in 1e-05; \data\ and other marks are already in lower case
        output.writelines(lower(clean(line), language) for line in lines)


Gram = tuple[str, ...]
BEGIN, END, UNKNOWN = "<s>", "</s>", "<unk>"
FALLBACK = (0.0, 0.5, 1.0, 1.5)
"""lmplz's --discount_fallback for counts of 0, 1, 2, 3 and more, used if a corpus is too small to estimate them."""


def estimate(sentences: Iterable[Sequence[str]], order: int, prune: Sequence[int]) -> list[list[Entry]]:
    """Return the entries of an ARPA file by order, 2 or more. prune: largest count that each order leaves out."""
    raw = _count(sentences, order)
    adjusted = [_adjust(raw[n], raw[n + 1]) for n in range(order - 1)] + [dict(raw[-1])]
    adjusted[0].pop((BEGIN,), None)
    used = [{gram for gram in adjusted[n] if n == 0 or raw[n][gram] > prune[n]} for n in range(order)]
    numbers = {word: i for i, word in enumerate(dict.fromkeys([BEGIN, END, *(gram[0] for gram in raw[0])]))}
    probabilities: dict[Gram, float] = {}
    backoffs: dict[Gram, float] = {}
    for n in range(order):
        discounts = _compute_discounts(_count_counts(adjusted[n], raw[n], numbers))
        _weigh(adjusted[n], used[n], discounts, probabilities, backoffs)
    return [_list_entries(n, used[n], probabilities, backoffs, last=n == order - 1) for n in range(order)]


def _count(sentences: Iterable[Sequence[str]], order: int) -> list[Counter[Gram]]:
    """Count each n-gram in the sentences, with a counter per order."""
    counts: list[Counter[Gram]] = [Counter() for _ in range(order)]
    for sentence in sentences:
        padded = (BEGIN, *sentence, END)
        for n in range(order):
            counts[n].update(padded[i : i + n + 1] for i in range(len(padded) - n))
    return counts


def _adjust(raw: Counter[Gram], longer: Counter[Gram]) -> dict[Gram, int]:
    """Return the number of different words before each n-gram, or its count if it starts a sentence."""
    preceding = Counter(gram[1:] for gram in longer)
    return {gram: count if gram[0] == BEGIN else preceding[gram] for gram, count in raw.items()}


def _count_counts(adjusted: dict[Gram, int], raw: Counter[Gram], numbers: dict[str, int]) -> Counter[int]:
    """Return the number of n-grams with each count. lmplz uses the raw count for the n-gram that is last in its order,
    sorted by number of the last word, then of the word before it, … In a small corpus this changes the discounts.
    """
    counted = Counter(adjusted.values())
    last = max(adjusted, key=lambda gram: [numbers[word] for word in reversed(gram)])
    counted.subtract([adjusted[last]])
    counted.update([raw[last]])
    return counted


def _compute_discounts(counts_of_counts: Counter[int]) -> Sequence[float]:
    """Return the discounts for counts of 0, 1, 2, 3 and more (Chen and Goodman, equation 26)."""
    t1, t2, t3, t4 = (counts_of_counts[k] for k in (1, 2, 3, 4))
    if not (t1 and t2 and t3):
        return FALLBACK
    y = t1 / (t1 + 2 * t2)
    discounts = (0.0, 1 - 2 * y * t2 / t1, 2 - 3 * y * t3 / t2, 3 - 4 * y * t4 / t3)
    return discounts if all(0 <= discounts[k] <= k for k in (1, 2, 3)) else FALLBACK


def _weigh(
    counts: dict[Gram, int],
    used: set[Gram],
    discounts: Sequence[float],
    probabilities: dict[Gram, float],
    backoffs: dict[Gram, float],
) -> None:
    """Add the probabilities of one order, interpolated with the order below, and its contexts' back-off weights. The
    whole count of a pruned n-gram goes to the back-off.
    """
    totals: dict[Gram, int] = defaultdict(int)
    freed: dict[Gram, float] = defaultdict(float)
    for gram, count in counts.items():
        totals[gram[:-1]] += count
        freed[gram[:-1]] += discounts[min(count, 3)] if gram in used else count
    for context, total in totals.items():
        backoffs[context] = freed[context] / total
    if () in totals:  # unigrams: all words, including <unk>, share the rest equally
        share = backoffs.pop(()) / (len(counts) + 1)
        probabilities[UNKNOWN,] = share
    for gram in used:
        context, count = gram[:-1], counts[gram]
        lower = backoffs[context] * probabilities[gram[1:]] if context else share
        probabilities[gram] = (count - discounts[min(count, 3)]) / totals[context] + lower


def _list_entries(
    n: int, used: set[Gram], probabilities: dict[Gram, float], backoffs: dict[Gram, float], last: bool
) -> list[Entry]:
    """Return the sorted entries of the n-grams with n + 1 words, in log10. last: without back-off weights."""

    def entry(gram: Gram) -> Entry:
        backoff = None if last else math.log10(backoffs.get(gram, 1.0)) + 0.0
        return gram, math.log10(probabilities[gram]), backoff

    special: list[Entry] = []
    if n == 0:  # a sentence's start is never predicted
        special = [entry((UNKNOWN,)), ((BEGIN,), 0.0, math.log10(backoffs.get((BEGIN,), 1.0)))]
    return special + [entry(gram) for gram in sorted(used)]

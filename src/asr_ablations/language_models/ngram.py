"""Read, convert and estimate n-gram models in ARPA files, in Python or with KenLM's program lmplz."""

import gzip
import math
import shutil
import subprocess
import sys
import zlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import dropwhile, takewhile
from pathlib import Path

from asr_verdicts.errors import UsageError
from asr_verdicts.files import whole_file
from asr_verdicts.text import clean, decode, lower

Entry = tuple[tuple[str, ...], float, float | None]
"""An n-gram's words, log10 probability, and log10 back-off weight. The weight is None for the highest order."""


def read_unigrams(file: Path) -> list[str]:
    """Return the words of an ARPA file, including marks such as <s>. Raise UsageError if there are none."""
    words: list[str] = []
    with open_text(file) as lines:
        section = dropwhile(lambda line: not line.startswith("\\1-grams:"), lines)
        next(section, None)
        for line in takewhile(lambda line: not line.startswith("\\"), section):
            if len(columns := line.split()) == 1:
                raise UsageError(f"{file}: not an n-gram: {line.strip()[:80]!r}")
            words += columns[1:2]
    if not words:
        raise UsageError(f"{file}: not an ARPA file (\\1-grams: is missing)")
    return words


@contextmanager
def open_text(file: Path) -> Iterator[Iterable[str]]:
    """Open a text file (plain or .gz) as an iterable of lines. Raise UsageError if it is damaged or not UTF-8."""
    try:
        with gzip.open(file, "rb") if file.suffix == ".gz" else file.open("rb") as content:
            lines = enumerate(content, start=1)
            yield (decode(line, file, number).replace("\r\n", "\n") for number, line in lines)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise UsageError(f"{file}: damaged: {error}") from error


def write_arpa(file: Path, orders: Sequence[Sequence[Entry]]) -> None:
    """Write an ARPA file with the entries of each n-gram order. The file appears only when it is complete."""
    with whole_file(file) as temporary, temporary.open("w", encoding="utf-8") as output:
        output.write("\\data\\\n")
        output.writelines(f"ngram {n}={len(entries)}\n" for n, entries in enumerate(orders, start=1))
        for n, entries in enumerate(orders, start=1):
            output.write(f"\n\\{n}-grams:\n")
            for words, probability, backoff in entries:
                weight = "" if backoff is None else f"\t{backoff:.7g}"
                output.write(f"{probability:.7g}\t{' '.join(words)}{weight}\n")
        output.write("\n\\end\\\n")


def lower_case(source: Path, target: Path, language: str) -> None:
    """Write a copy of an ARPA file in lower case and NFC. Raise UsageError if two words would become equal."""
    originals: dict[str, str] = {}
    for word in read_unigrams(source):
        if (lowered := lower(clean(word), language)) in originals:
            raise UsageError(f"{source}: {originals[lowered]!r} and {word!r} are the same word in lower case")
        originals[lowered] = word
    with open_text(source) as lines, whole_file(target) as temporary, temporary.open("w", encoding="utf-8") as output:
        # the only letter in numbers is e, as in 1e-05; \data\ and other marks are already in lower case
        output.writelines(lower(clean(line), language) for line in lines)


Gram = tuple[str, ...]
BEGIN, END, UNKNOWN = "<s>", "</s>", "<unk>"
FALLBACK = (0.0, 0.5, 1.0, 1.5)
"""Discounts for counts of 0, 1, 2, and 3 or more in a corpus too small to estimate them, as in lmplz."""


def estimate(sentences: Iterable[Sequence[str]], order: int, prune: Sequence[int]) -> list[list[Entry]]:
    """Estimate the n-gram entries of each order (at least 2 orders). prune: highest count to omit, for each order."""
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
    """Count the n-grams in sentences, with one counter for each order."""
    counts: list[Counter[Gram]] = [Counter() for _ in range(order)]
    for sentence in sentences:
        padded = (BEGIN, *sentence, END)
        for n in range(order):
            counts[n].update(padded[i : i + n + 1] for i in range(len(padded) - n))
    return counts


def _adjust(raw: Counter[Gram], longer: Counter[Gram]) -> dict[Gram, int]:
    """Return the number of different words that precede each n-gram, or its count if it starts a sentence."""
    preceding = Counter(gram[1:] for gram in longer)
    return {gram: count if gram[0] == BEGIN else preceding[gram] for gram, count in raw.items()}


def _count_counts(adjusted: dict[Gram, int], raw: Counter[Gram], numbers: dict[str, int]) -> Counter[int]:
    """Return the number of n-grams with each adjusted count. Like lmplz, use the raw count for one n-gram: the last one
    if sorted by the number of its last word, then of the word before it, and so on. This affects discounts in a small
    corpus.
    """
    counted = Counter(adjusted.values())
    last = max(adjusted, key=lambda gram: [numbers[word] for word in reversed(gram)])
    counted.subtract([adjusted[last]])
    counted.update([raw[last]])
    return counted


def _compute_discounts(counts_of_counts: Counter[int]) -> Sequence[float]:
    """Return the discounts for counts of 0, 1, 2, and 3 or more (Chen and Goodman, equation 26)."""
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
    """Add the probabilities of one order, interpolated with the order below, and the back-off weights of its contexts.
    The whole count of a pruned n-gram is added to the back-off weight.
    """
    totals: dict[Gram, int] = defaultdict(int)
    freed: dict[Gram, float] = defaultdict(float)
    for gram, count in counts.items():
        totals[gram[:-1]] += count
        freed[gram[:-1]] += discounts[min(count, 3)] if gram in used else count
    for context, total in totals.items():
        backoffs[context] = freed[context] / total
    if () in totals:  # unigrams: all words, including <unk>, share the remaining probability equally
        share = backoffs.pop(()) / (len(counts) + 1)
        probabilities[UNKNOWN,] = share
    for gram in used:
        context, count = gram[:-1], counts[gram]
        lower = backoffs[context] * probabilities[gram[1:]] if context else share
        probabilities[gram] = (count - discounts[min(count, 3)]) / totals[context] + lower


def _list_entries(
    n: int, used: set[Gram], probabilities: dict[Gram, float], backoffs: dict[Gram, float], last: bool
) -> list[Entry]:
    """Return the sorted entries of the n-grams with n + 1 words. The highest order has no back-off weights."""

    def entry(gram: Gram) -> Entry:
        backoff = None if last else math.log10(backoffs.get(gram, 1.0)) + 0.0
        return gram, math.log10(probabilities[gram]), backoff

    special: list[Entry] = []
    if n == 0:  # <s> is never predicted, so its probability has no meaning
        special = [entry((UNKNOWN,)), ((BEGIN,), 0.0, math.log10(backoffs.get((BEGIN,), 1.0)))]
    return special + [entry(gram) for gram in sorted(used)]


def find_program(name: str) -> Path | None:
    """Return the path of a program on the PATH or next to Python (where `make lmplz` installs it), or None."""
    program = shutil.which(name) or shutil.which(name, path=str(Path(sys.executable).parent))
    return Path(program) if program else None


def run_lmplz(program: Path, text: Path, arpa: Path, order: int, prune: Sequence[int]) -> None:
    """Estimate an ARPA file with lmplz from a text file with one sentence per line. Raise UsageError if lmplz fails."""
    options = ["-o", str(order), "--discount_fallback", "--skip_symbols", "-S", "20%", "-T", f"{arpa.parent}/"]
    run_program(arpa, program, *options, "--prune", *map(str, prune), "--text", text, "--arpa")


def run_program(target: Path, *command: str | Path) -> None:
    """Run a program whose last argument is the output file. Raise UsageError with the end of its output if it fails."""
    with whole_file(target) as output:
        process = subprocess.run([*command, output], capture_output=True, text=True, check=False)
        if process.returncode:
            lines = [line for line in process.stderr.splitlines() if line.strip()]
            raise UsageError(f"{command[0]} failed: {' '.join(lines[-2:]) or f'exit code {process.returncode}'}")

"""Errors to read, in the style of icefall's errs-*.txt: every utterance aligned, every confusion counted."""

from collections import Counter
from collections.abc import Iterable, Sequence

from asr_ablations.experiment.utterances import UtteranceRow
from asr_ablations.metrics.word_alignment import Pair, align


def error_report(rows: Sequence[UtteranceRow]) -> str:
    """Per set: the rate; utterances with (reference->hypothesis) where they differ; substitutions, deletions and
    insertions by how often; words by their errors.
    """
    return "".join(_set_report(name, [row for row in rows if row["set"] == name]) for name in _names(rows))


def _names(rows: Iterable[UtteranceRow]) -> list[str]:
    return list(dict.fromkeys(row["set"] for row in rows))


def _set_report(name: str, rows: list[UtteranceRow]) -> str:
    pairs = [align(row["reference"].split(), row["hypothesis"].split()) for row in rows]
    counted = Counter(pair for aligned in pairs for pair in aligned)
    wrong = {pair: n for pair, n in counted.items() if pair[0] != pair[1]}
    words = sum(n for (reference, _), n in counted.items() if reference is not None)
    errors = sum(wrong.values())
    lines = [
        f"set {name}: WER {100 * errors / max(1, words):.2f} % ({errors} errors in {words} words)",
        "\nPER-UTTERANCE DETAILS: (reference->hypothesis), * for none",
        *(f"{row['id']}:\t{_details(aligned)}" for row, aligned in zip(rows, pairs, strict=True)),
        "\nSUBSTITUTIONS: count reference -> hypothesis",
        *_most((n, f"{a} -> {b}") for (a, b), n in wrong.items() if a is not None and b is not None),
        "\nDELETIONS: count reference",
        *_most((n, a) for (a, b), n in wrong.items() if a is not None and b is None),
        "\nINSERTIONS: count hypothesis",
        *_most((n, b) for (a, b), n in wrong.items() if a is None and b is not None),
        "\nPER-WORD STATISTICS: word  correct  errors  in references  in hypotheses",
        *_words(counted),
    ]
    return "\n".join(lines) + "\n\n"


def _details(aligned: Sequence[Pair]) -> str:
    return " ".join(a if a == b and a is not None else f"({a or '*'}->{b or '*'})" for a, b in aligned)


def _most(counted: Iterable[tuple[int, str]]) -> list[str]:
    return [f"{n}\t{what}" for n, what in sorted(counted, key=lambda one: (-one[0], one[1]))]


def _words(counted: Counter[Pair]) -> list[str]:
    spoken: Counter[str] = Counter()
    heard: Counter[str] = Counter()
    for (reference, hypothesis), n in counted.items():
        spoken.update({reference: n} if reference is not None else {})
        heard.update({hypothesis: n} if hypothesis is not None else {})
    table = []
    for word in spoken.keys() | heard.keys():
        right = counted[word, word]
        table.append((spoken[word] + heard[word] - 2 * right, word, right))
    return [
        f"{word}\t{right}\t{errors}\t{spoken[word]}\t{heard[word]}"
        for errors, word, right in sorted(table, key=lambda one: (-one[0], one[1]))
    ]

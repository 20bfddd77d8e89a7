"""A report of errors in the style of icefall's errs-*.txt: every utterance aligned, every confusion counted."""

from collections import Counter
from collections.abc import Iterable, Sequence

from asr_ablations.experiment.utterances import UtteranceRow
from asr_ablations.metrics.word_alignment import Pair, align


def error_report(rows: Sequence[UtteranceRow]) -> str:
    """The report of every set: its WER; utterances with (reference->hypothesis) where they differ; substitutions,
    deletions and insertions, the most frequent first; words, those with most errors first.
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
    """Lines of counts and confusions, the most frequent first."""
    return [f"{n}\t{confusion}" for n, confusion in sorted(counted, key=lambda row: (-row[0], row[1]))]


def _words(counted: Counter[Pair]) -> list[str]:
    """Lines of word, correct, errors, count in the references and in the hypotheses; most errors first."""
    spoken: Counter[str] = Counter()
    recognised: Counter[str] = Counter()
    for (reference, hypothesis), n in counted.items():
        spoken.update({reference: n} if reference is not None else {})
        recognised.update({hypothesis: n} if hypothesis is not None else {})
    table = []
    for word in spoken.keys() | recognised.keys():
        correct = counted[word, word]
        table.append((spoken[word] + recognised[word] - 2 * correct, word, correct))
    return [
        f"{word}\t{correct}\t{errors}\t{spoken[word]}\t{recognised[word]}"
        for errors, word, correct in sorted(table, key=lambda row: (-row[0], row[1]))
    ]

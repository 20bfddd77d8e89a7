"""What is wrong with the utterances of a corpus, by cause: how often, a few of them, and the way out."""

from collections.abc import Mapping
from typing import NamedTuple

from asr_ablations.data.alphabet import Alphabet
from asr_ablations.data.corpus import Corpus
from asr_ablations.data.utterances import Utterance, Utterances
from asr_verdicts.text import lower, normalisation

EXAMPLES = 3
SIGNS = 12
"""Signs that a complaint names; some alphabets have thousands."""
FOREIGN = "characters outside the alphabet"
CURES = {"case": "data.normalise=case makes {} small", "punctuation": "data.normalise=punctuation removes {}"}


class Complaint(NamedTuple):
    """The utterances of a set with one cause. text: how many there are, the cause, and what helps."""

    text: str
    utterances: list[Utterance]


def complaints(judged: Mapping[str, Utterances], corpus: Corpus, alphabet: Alphabet) -> list[Complaint]:
    """Group the utterances with faults by set and cause, the largest group of a set first."""
    normalise = {name: normalisation(name, corpus.language, "data.normalise", lower) for name in CURES}
    result = []
    for name, utterances in judged.items():
        groups: dict[tuple[str, str], list[Utterance]] = {}
        for u in utterances.take(utterances.has("fault")):
            reason = u.fault.partition(":")[0]
            cures = (CURES[x] for x in normalise if reason == FOREIGN and not alphabet.foreign(normalise[x](u.text)))
            groups.setdefault((reason, next(cures, "")), []).append(u)
        for (reason, cure), group in sorted(groups.items(), key=lambda pair: -len(pair[1])):
            about = _about_signs(group, cure, judged, alphabet) if reason == FOREIGN else f": {reason}"
            result.append(Complaint(f"{len(group)} of {len(utterances)} utterances of {name}{about}", group))
    return result


def _about_signs(group: list[Utterance], cure: str, judged: Mapping[str, Utterances], alphabet: Alphabet) -> str:
    signs = sorted({sign for u in group for sign in alphabet.foreign(u.text)})
    learnt = "train" in judged and set(signs).issubset(set().union(*judged["train"].strings("text")))
    ways = [cure, "alphabet=derived learns {}" if learnt else ""]
    named = " ".join(map(repr, signs[:SIGNS])) + " …" * (len(signs) > SIGNS)
    help_ = ", ".join(filter(None, ways)).replace("{}", "it" if len(signs) == 1 else "them")
    return f" contain {named}{help_ and f': {help_}'}"

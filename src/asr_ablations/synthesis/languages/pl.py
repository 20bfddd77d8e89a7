"""Polish for the built-in corpus: rules that inflect the words in pl.yaml."""

import re
from collections.abc import Sequence

from asr_ablations.synthesis.languages import Language, load_words, parse_grammar, words

WORDS = load_words("pl")


def feminine(entry: str) -> tuple[str, str, str, str]:
    """Return the nominative, accusative, genitive (also nominative plural) and instrumental of a noun ending in -a."""
    if "/" in entry:
        nominative, accusative, genitive, instrumental = entry.split("/")
        return nominative, accusative, genitive, instrumental
    stem = entry[:-1]
    return entry, stem + "ę", stem + ("i" if stem[-1] in "kg" else "y"), stem + "ą"


def adjective_forms(adjective: str) -> dict[str, str]:
    """Return an adjective's forms by gender (M, F, N) and case: nominative (no letter), accusative (A) or locative (L).

    MA is the form for animate nouns, and P is the plural for things, animals and women.
    """
    hard = re.search("[kg]i$", adjective)
    stem = adjective[:-1] if hard or adjective.endswith("y") else adjective
    soft = stem + "i" if hard else stem
    return {
        "M": adjective,
        "F": stem + "a",
        "N": soft + "e",
        "MA": soft + "ego",
        "FA": stem + "ą",
        "ML": adjective + "m",
        "FL": soft + "ej",
        "P": soft + "e",
    }


PRESENT, PAST = ("I", "S", "P"), ("DID_M", "DID_F", "DID_P")
FORMS = ("INF", *PRESENT, *PAST)


def present(infinitive: str) -> list[str]:
    """Return the present tense of a regular verb ending in -ować or -ać: the forms for I, he and they."""
    if infinitive.endswith("ować"):
        return [infinitive[:-4] + ending for ending in ("uję", "uje", "ują")]
    return [infinitive[:-1] + ending for ending in ("m", "", "ją")]


def past(infinitive: str) -> list[str]:
    """Return the past tense of a verb whose infinitive ends in a vowel and ć: the forms for he, she and they."""
    stem = infinitive[:-1]
    if stem.endswith("ą"):
        return [stem + "ł", stem[:-1] + "ęła", stem[:-1] + "ęli"]
    if stem.endswith("e"):
        return [stem[:-1] + "ał", stem[:-1] + "ała", stem + "li"]
    return [stem + ending for ending in ("ł", "ła", "li")]


def verb_forms(entry: str) -> dict[str, str]:
    """Return a verb's forms, keyed by the names in FORMS. entry: the infinitive, followed by any irregular forms."""
    infinitive, *irregular = entry.split("/")
    forms = [infinitive, *(irregular[:3] or present(infinitive)), *(irregular[3:] or past(infinitive))]
    return dict(zip(FORMS, forms, strict=True))


def _by_case(name: str, *cases: str, rows: Sequence[Sequence[str]]) -> dict[str, list[str]]:
    return {f"{name}_{case}": [row[i] for row in rows] for i, case in enumerate(cases)}


def categories() -> dict[str, list[str]]:
    """Return the inflected words of each category that the grammar uses, most frequent first."""
    result = {name: text.split() for name, text in WORDS["words"].items()}
    for key, text in WORDS["nouns"].items():
        result |= _by_case(*key.split(), rows=[entry.split("/") for entry in text.split()])
    for name, text in WORDS["feminines"].items():
        result |= _by_case(name, "NOM", "ACC", "PL", "INS", rows=[feminine(entry) for entry in text.split()])
    for name, text in WORDS["adjectives"].items():
        for form in adjective_forms("dobry"):
            result[f"{name}_{form}"] = [adjective_forms(adjective)[form] for adjective in text.split()]
    for name, text in WORDS["verbs"].items():
        for form in FORMS:
            result[f"{name}_{form}"] = [verb_forms(entry)[form] for entry in text.split()]
    used = {part for productions in grammar().values() for _, production in productions for part in production}
    return {name: list(dict.fromkeys(members)) for name, members in result.items() if name in used}


DRINK_FORMS = dict(zip(FORMS, words("pić piję pije piją pił piła pili"), strict=True))


def grammar() -> dict[str, list[tuple[float, list[str]]]]:
    phrases = [WORDS["grammar"]["verb_phrases"].format(T=form, drink=DRINK_FORMS[form]) for form in FORMS]
    phrases += [f"DO_{form}\n  2 WANT_{form} DO_INF\n" for form in PRESENT + PAST]
    return parse_grammar(WORDS["grammar"]["symbols"] + "".join(phrases))


def lengthen_prepositions(sentence: list[str]) -> list[str]:
    """Use "we" for "w" and "ze" for "z" before consonant clusters that require it, and "z" for any other "ze"."""
    result = []
    for word, after in zip(sentence, [*sentence[1:], ""], strict=True):
        if word == "w" and re.match("[wf][^aąeęioóuy]", after):
            word = "we"
        elif word in ("z", "ze"):
            word = "ze" if re.match("([szśźż][^aąeęioóuyz]|sz[^aąeęioóuy]|ws|lw)", after) else "z"
        result.append(word)
    return result


def language() -> Language:
    accents = {kind: words(voices) for kind, voices in WORDS["accents"].items()}
    return Language(grammar(), categories(), lengthen_prepositions, accents)

"""English for the built-in corpus: rules that inflect the words in en.yaml."""

import re

from asr_ablations.synthesis.languages import Language, load_words, parse_grammar, words

WORDS = load_words("en")
DOUBLED = words(WORDS["rules"]["doubled"])
UNGRADED = words(WORDS["rules"]["ungraded"])

VOWEL_SOUND = re.compile(r"(?!one\b|on[ce]|uni|use|usua|eu|ewe)[aeiou]|hour|honest|heir")


def plural(noun: str) -> str:
    """Return the regular plural of an English noun."""
    if re.search(r"(s|x|z|ch|sh)$", noun):
        return noun + "es"
    return noun[:-1] + "ies" if re.search(r"[^aeiou]y$", noun) else noun + "s"


def stem_before_vowel(verb: str) -> str:
    """Return a verb's stem before -ed and -ing, with the final consonant doubled if necessary (stop, stopp-)."""
    short = re.fullmatch(r"(qu|[^aeiou])*[aeiou][^aeiouwxy]", verb)
    return verb + verb[-1] if short or verb in DOUBLED else verb


def past(verb: str) -> str:
    """Return the regular past tense of an English verb."""
    if verb.endswith("e"):
        return verb + "d"
    return verb[:-1] + "ied" if re.search(r"[^aeiou]y$", verb) else stem_before_vowel(verb) + "ed"


def progressive(verb: str) -> str:
    """Return the -ing form of an English verb."""
    if verb.endswith("ie"):
        return verb[:-2] + "ying"
    return verb[:-1] + "ing" if re.search(r"[^eo]e$", verb) else stem_before_vowel(verb) + "ing"


def graded(adjective: str, ending: str) -> str:
    """Return the comparative (er) or superlative (est) of a short English adjective."""
    if adjective == "good":
        return {"er": "better", "est": "best"}[ending]
    if adjective.endswith("e"):
        return adjective + ending[1:]
    return (
        adjective[:-1] + "i" + ending if re.search(r"[^aeiou]y$", adjective) else stem_before_vowel(adjective) + ending
    )


def verb_forms(entry: str) -> dict[str, str]:
    """Return a verb's forms, keyed by the names in FORMS. entry: the verb as "base[/past[/participle]]"."""
    base, *irregular = entry.split("/")
    done = irregular[-1] if irregular else past(base)
    third = {"have": "has"}.get(base, plural(base) if not base.endswith("o") else base + "es")
    return {
        "BASE": base,
        "PAST": irregular[0] if irregular else past(base),
        "S": third,
        "ING": progressive(base),
        "DONE": done,
    }


def categories() -> dict[str, list[str]]:
    """Return the inflected words of each category, most frequent first."""
    result = {name: words(text) for name, text in (WORDS["words"] | WORDS["adjectives"]).items()}
    result["NAME_OWN"] = [f"{name}'s" for name in result["NAME"]]
    for name, text in WORDS["nouns"].items():
        entries = [entry.partition(":") for entry in text.split()]
        result[name] = [singular for singular, _, _ in entries]
        result[name + "S"] = [irregular or plural(singular) for singular, _, irregular in entries]
    for name, text in WORDS["verbs"].items():
        for form in FORMS:
            result[f"{name}_{form}"] = [verb_forms(entry)[form] for entry in text.split()]
    for name in ("BIG", "PERSON_ADJ"):
        for ending in ("er", "est"):
            result[f"{name}_{ending.upper()}"] = [
                graded(adjective, ending) for adjective in result[name] if adjective not in UNGRADED
            ]
    del result["DRINKS"]
    return {name: list(dict.fromkeys(members)) for name, members in result.items()}


def add_article_n(sentence: list[str]) -> list[str]:
    """Replace "a" with "an" before a vowel sound."""
    return [
        "an" if word == "a" and VOWEL_SOUND.match(after) else word
        for word, after in zip(sentence, [*sentence[1:], ""], strict=True)
    ]


FORMS = ("BASE", "PAST", "S", "ING", "DONE")
SPEAK = dict(zip(FORMS, words("speak spoke speaks speaking spoken"), strict=True))


def language() -> Language:
    grammar = WORDS["grammar"]
    phrases = "".join(grammar["verb_phrases"].format(T=form, speak=SPEAK[form]) for form in FORMS)
    accents = {kind: words(voices) for kind, voices in WORDS["accents"].items()}
    return Language(parse_grammar(grammar["symbols"] + phrases), categories(), add_article_n, accents)

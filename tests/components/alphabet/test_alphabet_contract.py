"""Every alphabet of conf/: it spells the training text, takes a separation character, and sizes the model's output."""

import re
import unicodedata
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from asr_ablations.components.alphabet.spelled import Spelled
from asr_ablations.config.compose import alphabets
from asr_ablations.config.plain_keys import check
from asr_ablations.data.alphabet import Alphabet, Letters
from asr_ablations.data.utterances import Utterance, Utterances
from asr_ablations.training.assembly import assemble
from asr_verdicts.errors import UsageError
from tests.helpers.support import CONF, component, compose, group_options

WORDS = ["cool bees see", "aa a aaa", "llama", "no"]
every_alphabet = pytest.mark.parametrize("name", group_options("alphabet"))


def corpus(*texts: str) -> Any:
    """Its training text, without audio."""
    return SimpleNamespace(
        train=["train"], validation=["dev"], test=["test"], prepare=lambda: None,
        read_set=lambda name: Utterances.convert(
            [Utterance(str(number), "a", Path("none.flac"), 0.0, 1.0, text) for number, text in enumerate(texts)]
        ),
    )  # fmt: skip


def alphabet(name: str, separation: str | None = None, texts: list[str] = WORDS) -> Alphabet:
    """As conf/ composes it: `language` is an interpolation."""
    options = {"separation": separation} if "separation" in compose(f"alphabet={name}").alphabet else {"size": 12}
    result: Alphabet = component("alphabet", name, **options)(corpus(*(texts * 20)))
    return result


def spelled(alphabet: Alphabet, text: str) -> str:
    """A text of WORDS or PARTED; in an alphabet that lacks some of their letters, others stand for them all."""
    latin, own = "abcelmnos", "".join(filter(str.isalpha, alphabet.letters))
    return text if set(latin) <= set(own) else text.translate(str.maketrans(latin, own[: len(latin)]))


@every_alphabet
@pytest.mark.parametrize("separation", [None, "_"])
def test_texts_come_back(name: str, separation: str | None) -> None:
    result = alphabet(name, separation)
    texts = [*(spelled(result, text) for text in WORDS), ""]
    assert [result.decode(result.encode(text)) for text in texts] == texts
    labels, counts = result.encode_all(texts)
    assert labels.tolist() == [label for text in texts for label in result.encode(text)]
    assert counts.tolist() == [len(result.encode(text)) for text in texts]
    assert result.outputs == 1 + len(result.symbols) == 1 + len({*result.symbols})
    assert 0 < labels.min() <= labels.max() < result.outputs


@every_alphabet
def test_a_character_outside_the_alphabet_has_no_label(name: str) -> None:
    result = alphabet(name)
    inside = spelled(result, "no")
    assert result.foreign(f"{inside}ß") == ["ß"]
    assert -1 in result.encode_all([inside, f"{inside}ß"])[0]
    with pytest.raises(KeyError, match="ß"):
        result.encode(f"{inside}ß")


@every_alphabet
def test_a_checkpoint_restores_the_alphabet(name: str) -> None:
    first, other = alphabet(name), alphabet(name, texts=["lo be", "see cool man"])
    restored = component("alphabet", name).restore(first.state())
    restored.check_state(first.state())
    assert (restored.symbols, restored.key) == (first.symbols, first.key)
    if other.symbols != first.symbols:
        with pytest.raises(ValueError, match="trained with the alphabet"):
            restored.check_state(other.state())


@pytest.mark.parametrize(
    "name", [name for name in group_options("alphabet") if "separation" in compose(f"alphabet={name}").alphabet]
)
def test_the_separation_stands_between_double_letters_alone_and_is_a_new_character(name: str) -> None:
    """Baunsgaard2020 §4.4.3: "cool" is "co_ol"."""
    result = alphabet(name, "_")
    written = ["".join(result.characters[i - 1] for i in result.encode(spelled(result, text))) for text in WORDS]
    assert written == [spelled(result, text) for text in ("co_ol be_es se_e", "a_a a a_a_a", "l_lama", "no")]
    assert result.foreign(written[0]) == ["_"], "a text may not hold it"
    for separation in (spelled(alphabet(name), "a"), "__", 3):
        with pytest.raises(UsageError, match=f"alphabet.separation={separation}: expected one character"):
            alphabet(name, separation)


def test_the_derived_alphabet_is_that_of_the_training_text_with_composed_letters() -> None:
    assert alphabet("derived", texts=["ba", "żółw"]).characters == " abwółż"
    assert alphabet("derived", texts=[""]).characters == " "
    characters = unicodedata.normalize("NFD", " ’aąćz")
    assert Spelled(characters=characters, separation=None)(corpus()).characters == " 'aąćz"


def test_the_language_chooses_its_alphabet_and_an_unknown_one_is_named_with_the_choices() -> None:
    for language in alphabets(CONF):
        chosen, named = compose(f"data.language={language}"), compose(f"alphabet={language}")
        assert chosen.alphabet.characters == named.alphabet.characters
    for language in ("xx", "../alphabet/en", None):
        cfg = compose()
        cfg.data.language = language
        known = ", ".join(alphabets(CONF))
        message = f"data.language={language}: expected {known}, or any language with alphabet=derived"
        with pytest.raises(UsageError, match=f"^{re.escape(message)}$"):
            check(cfg)


@pytest.mark.parametrize(("name", "outputs"), [("en", 29 + 1), ("pl", 38 + 1), ("derived", 8 + 1)])
def test_the_model_has_an_output_for_each_character_and_the_checkpoint_knows_them(name: str, outputs: int) -> None:
    """Baunsgaard2020 §4.4.3 has 30 with the separation character."""
    cfg = compose(f"alphabet={name}", "alphabet.separation=_", "width=8", "layers=1")
    task, _ = assemble(cfg, corpus("żółw ab"))
    samples = torch.tensor([16000])
    features, lengths = task.features(torch.zeros(1, 16000), samples)
    assert task.model(features, lengths)[0].shape[-1] == outputs
    checkpoint: dict[str, Any] = {}
    task.on_save_checkpoint(checkpoint)
    assert Letters(**checkpoint["alphabet"]) == task.alphabet
    task.on_load_checkpoint(checkpoint)
    with pytest.raises(ValueError, match="checkpoint was trained with the alphabet"):
        task.on_load_checkpoint({**checkpoint, "alphabet": {**checkpoint["alphabet"], "separation": ""}})

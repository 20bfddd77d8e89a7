"""The same hypotheses in the format of each toolkit, written as that toolkit writes them."""

import csv
import io
import json
import random
from collections.abc import Callable, Mapping
from pathlib import Path

from asr_verdicts.error_counts import align

Words = Mapping[str, str]
"""A text by id."""

SPEAKERS, EACH = 10, 6
VOCABULARY = [f"word{number}" for number in range(200)]


def references(length: int = 12) -> dict[str, str]:
    """60 utterances of 10 speakers with LibriSpeech's ids."""
    drawn = random.Random(1)
    ids = [f"{100 + speaker}-7-{number:04d}" for speaker in range(SPEAKERS) for number in range(EACH)]
    return {id_: " ".join(drawn.choices(VOCABULARY, k=length)) for id_ in ids}


def recognised(spoken: Words, rate: float, seed: int) -> dict[str, str]:
    """Hypotheses with this rate of substitutions, and a quarter as many deletions; some speakers are harder."""
    drawn = random.Random(f"{rate} {seed}")
    texts = {}
    for id_, text in spoken.items():
        hard = rate * (1 + 0.3 * (int(id_[:3]) % 3))
        words = [f"x{word}" if drawn.random() < hard else word for word in text.split()]
        texts[id_] = " ".join(word for word in words if drawn.random() > hard / 4)
    return texts


def trn(texts: Words) -> str:
    return "".join(f"{text} ({id_})\n" for id_, text in texts.items())


def espnet(texts: Words) -> str:
    """egs2/TEMPLATE/asr1/asr.sh: paste of the text and "(" speaker "-" id ")"."""
    return "".join(f"{text}\t({id_.partition('-')[0]}-{id_})\n" for id_, text in texts.items())


def kaldi(texts: Words) -> str:
    return "".join(f"{id_} {text}\n" for id_, text in texts.items())


def nemo(hypotheses: Words, spoken: Words) -> str:
    """speech_to_text_eval.py: the manifest with pred_text added."""
    lines = ""
    for id_, text in hypotheses.items():
        line = {"audio_filepath": f"/data/{id_}.wav", "duration": 1.0, "text": spoken[id_], "pred_text": text}
        lines += f"{json.dumps(line)}\n"
    return lines


def icefall(hypotheses: Words, spoken: Words) -> str:
    """icefall/utils.py, store_transcripts."""
    pairs = ((id_, spoken[id_].split(), text.split()) for id_, text in hypotheses.items())
    return "".join(f"{id_}:\tref={ref}\n{id_}:\thyp={hyp}\n" for id_, ref, hyp in pairs)


def speechbrain(hypotheses: Words, spoken: Words) -> str:
    """speechbrain/dataio/wer.py, print_wer_summary and print_alignments."""
    parts = [
        "%WER 9.99 [ 1 / 720, 0 ins, 0 del, 1 sub ]\n%SER 1.00 [ 1 / 60 ]\n"
        "Scored 60 sentences, 0 not present in hyp.\n",
        f"{'=' * 80}\nALIGNMENTS\n\nFormat:\n<utterance-id>, WER DETAILS\n"
        "<eps> ; reference  ; on ; the ; first ;  line\n"
        "  I   ;     S      ; = ;  =  ;   S   ;   D  \n and  ; hypothesis ; on ; the ; third ; <eps>\n",
    ]
    for id_, text in hypotheses.items():
        columns = []
        for a, b in align(spoken[id_].split(), text.split()):
            cells = (a or "<eps>", "=" if a == b else "I" if a is None else "D" if b is None else "S", b or "<eps>")
            columns.append([cell.center(max(map(len, cells))) for cell in cells])
        lines = [" ; ".join(column[line] for column in columns) for line in range(3)]
        parts.append(f"{'=' * 80}\n{id_}, %WER 9.99 [ 1 / 12, 0 ins, 0 del, 1 sub ]\n" + "\n".join(lines) + "\n")
    return "".join(parts)


def table(hypotheses: Words, spoken: Words) -> str:
    """A table as evaluations with Hugging Face's datasets write them, with ids."""
    rows = [("id", "reference", "prediction"), *((id_, spoken[id_], text) for id_, text in hypotheses.items())]
    written = io.StringIO(newline="")
    csv.writer(written).writerows(rows)
    return written.getvalue()


SELF_CONTAINED: dict[str, Callable[[Words, Words], str]] = {
    "nemo.jsonl": nemo, "recogs-test.txt": icefall, "wer_test.txt": speechbrain, "table.csv": table,
}  # fmt: skip
"""Files that hold the references, too."""
PLAIN: dict[str, Callable[[Words], str]] = {"hyp.trn": trn, "text": kaldi}
"""Files of one text an utterance."""


def write_seeds(
    folder: Path, name: str, write: Callable[[Words], str], rates: Mapping[str, float], seeds: int
) -> Words:
    """<folder>/<arm>/seed<n>/<name> for each arm; the references."""
    spoken = references()
    for arm, rate in rates.items():
        for seed in range(seeds):
            path = folder / arm / f"seed{seed}" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(write(recognised(spoken, rate, seed)))
    return spoken

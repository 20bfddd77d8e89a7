"""The corpus of tones in the layout of each corpus of conf/data, and copies of each in other places."""

import gzip
import json
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import soundfile

from asr_ablations.components.data.common_voice import CommonVoice
from asr_ablations.components.data.huggingface import HuggingFace
from asr_ablations.components.data.kaldi import Kaldi
from asr_ablations.components.data.lhotse import Lhotse
from asr_ablations.components.data.librispeech import list_folder
from asr_ablations.components.data.manifest import Manifest
from asr_ablations.components.data.mls import MLS
from asr_ablations.components.data.speechocean762 import SpeechOcean762
from asr_ablations.data.corpus import UNKNOWN_SPEAKERS
from asr_ablations.data.utterances import Utterance
from asr_ablations.language_models.model import SPACE
from tests.helpers.small_models import bigrams, recurrent_model
from tests.helpers.support import component, described, group_options
from tests.helpers.trained_runs import write_trained

ROLES = {"train": "train", "validation": "dev", "test": "test"}
"""The split of the tones that a corpus has in each role."""


def delivered() -> list[str]:
    """The corpora of conf/data that somebody has to lay out: the yaml does not say where they lie."""
    return [name for name in group_options("data") if described("data", name).root is None]


def lay_out(corpus: Any, tones: Path) -> None:
    """The tones as the corpus's splits, under its root."""
    for role, split in ROLES.items():
        for name in getattr(corpus, role):
            write_split(corpus, name, list_folder(tones / split))


def write_split(corpus: Any, split: str, utterances: Iterable[Utterance]) -> None:
    """Utterances, each a whole audio file, as a split under the root of a corpus that its `find` reads back: by its
    own method `write` if it has one, or else in its layout.
    """
    kinds = {
        Manifest: _write_manifest, CommonVoice: write_common_voice, HuggingFace: write_audio_folder,
        Lhotse: write_cuts, Kaldi: _write_kaldi,
    }  # fmt: skip
    if hasattr(corpus, "write"):
        corpus.write(split, utterances)
    elif isinstance(corpus, MLS):
        _write_mls(corpus.root / split, utterances, corpus.ending)
    elif write := next((write for kind, write in kinds.items() if isinstance(corpus, kind)), None):
        write(corpus.path(split), utterances)
    else:
        part_of_train = split == "dev" and "dev" not in corpus.folders()
        write = _write_kaldi if isinstance(corpus, SpeechOcean762) else _write_chapters
        write(corpus.folder("train" if part_of_train else split), utterances)


def _write_chapters(folder: Path, utterances: Iterable[Utterance]) -> None:
    """One chapter per speaker, with copies of the audio files, which must be flac."""
    for u in utterances:
        chapter = folder / u.speaker / "1"
        chapter.mkdir(parents=True, exist_ok=True)
        shutil.copy(u.audio, chapter / f"{u.id}.flac")
        with (chapter / f"{u.speaker}-1.trans.txt").open("a", encoding="utf-8") as transcripts:
            transcripts.write(f"{u.id} {u.text.upper()}\n")


def _write_kaldi(folder: Path, utterances: Iterable[Utterance]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    lines = [(u.id, str(u.audio.resolve()), u.text, u.speaker) for u in utterances]
    for column, name in enumerate(("wav.scp", "text", "utt2spk"), start=1):
        table = "".join(f"{line[0]} {line[column]}\n" for line in lines if line[column] or name != "utt2spk")
        with (folder / name).open("a", encoding="utf-8") as file:
            file.write(table)


def _write_manifest(path: Path, utterances: Iterable[Utterance]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8") as file:
        for u in utterances:
            unit = None if u.unit.partition(" ")[0] in UNKNOWN_SPEAKERS else u.unit
            line = {"audio_filepath": str(u.audio.resolve()), "text": u.text, "id": u.id}
            line |= {key: value for key, value in {"speaker": u.speaker, "unit": unit}.items() if value}
            file.write(f"{json.dumps(line, ensure_ascii=False)}\n")


def _write_mls(folder: Path, utterances: Iterable[Utterance], ending: str) -> None:
    """One book per speaker with numbered utterances and copies of the audio files."""
    lines = []
    for number, u in enumerate(utterances):
        book = folder / "audio" / u.speaker / "1"
        book.mkdir(parents=True, exist_ok=True)
        shutil.copy(u.audio, book / f"{u.speaker}_1_{number:06d}.{ending}")
        lines.append(f"{u.speaker}_1_{number:06d}\t{u.text}\n")
    (folder / "transcripts.txt").write_text("".join(lines), encoding="utf-8")


def write_common_voice(table: Path, utterances: Iterable[Utterance]) -> None:
    """A table with the columns of release 19, and copies of the audio files in the folder clips."""
    clips = table.parent / "clips"
    clips.mkdir(parents=True, exist_ok=True)
    lines = ["client_id\tpath\tsentence_id\tsentence\tsentence_domain\tup_votes\tvariant"]
    for u in utterances:
        shutil.copy(u.audio, clips / f"{u.id}{u.audio.suffix}")
        lines.append(f"{u.speaker}\t{u.id}{u.audio.suffix}\tab12\t{u.text.upper()}.\t\t2\t")
    table.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def write_cuts(path: Path, utterances: Iterable[Utterance]) -> None:
    """Cuts of whole recordings, with the keys that lhotse 1.30 writes; gzipped if the name ends in .gz."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = "".join(f"{json.dumps(make_cut(u), ensure_ascii=False)}\n" for u in utterances)
    path.write_bytes(gzip.compress(lines.encode(), mtime=0) if path.suffix == ".gz" else lines.encode())


def make_cut(u: Utterance) -> dict[str, Any]:
    info = soundfile.info(u.audio)
    source = {"type": "file", "channels": [*range(info.channels)], "source": str(u.audio.resolve())}
    recording = {"id": u.id, "sources": [source], "sampling_rate": info.samplerate, "num_samples": info.frames}
    whole = {"duration": info.duration, "channel_ids": source["channels"]}
    supervision = {"id": u.id, "recording_id": u.id, "start": 0.0, "duration": info.duration, "channel": 0}
    said = {"text": u.text.upper(), "language": "English"} | ({"speaker": u.speaker} if u.speaker else {})
    cut = {"id": u.id, "start": 0.0, "duration": info.duration, "channel": 0, "supervisions": [supervision | said]}
    return {**cut, "recording": recording | whole, "type": "MonoCut"}


def write_audio_folder(folder: Path, utterances: Iterable[Utterance]) -> None:
    """Audio files of each speaker in a folder, and metadata.csv with columns that differ where keys are turned."""
    lines = ["file_name,copy,text,lower,speaker_id,gender"]
    for u in utterances:
        name = f"{u.speaker}/{u.id}{u.audio.suffix}"
        (folder / u.speaker).mkdir(parents=True, exist_ok=True)
        shutil.copy(u.audio, folder / name)
        louder = f"{u.speaker}/{u.id}-copy.wav"
        samples, rate = soundfile.read(u.audio)
        soundfile.write(folder / louder, samples[::-1], rate)
        lines.append(f'{name},{louder},"{u.text.upper()}","{u.text[:2]}",{u.speaker},f{int(u.speaker) % 2}')
    (folder / "metadata.csv").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def write_parquet(path: Path, utterances: Iterable[Utterance], rows_per_group: int = 4) -> None:
    """A Parquet file with the columns of LibriSpeech on the Hub, with several row groups."""
    from pyarrow import parquet

    path.parent.mkdir(parents=True, exist_ok=True)
    parquet.write_table(make_table(utterances), path, row_group_size=rows_per_group)


def save_to_disk(folder: Path, utterances: Iterable[Utterance]) -> None:
    """A split as `datasets` saves it: an Arrow stream of several batches, and what describes it."""
    import pyarrow

    folder.mkdir(parents=True, exist_ok=True)
    table, name = make_table(utterances), "data-00000-of-00001.arrow"
    with pyarrow.OSFile(str(folder / name), "wb") as file, pyarrow.ipc.new_stream(file, table.schema) as stream:
        stream.write_table(table, max_chunksize=3)
    state = {"_data_files": [{"filename": name}], "_fingerprint": "0", "_format_columns": None, "_split": folder.name}
    (folder / "state.json").write_text(json.dumps(state))
    features = {"audio": {"sampling_rate": 16000, "_type": "Audio"}, "text": {"dtype": "string", "_type": "Value"}}
    (folder / "dataset_info.json").write_text(json.dumps({"features": features}))


def make_table(utterances: Iterable[Utterance]) -> Any:
    """Audio, text and speaker of utterances, with the audio files' bytes and names, as a pyarrow.Table."""
    import pyarrow

    rows = []
    for u in utterances:
        audio = {"bytes": u.audio.read_bytes(), "path": f"{u.id}{u.audio.suffix}"}
        rows.append({"audio": audio, "text": u.text.upper(), "speaker_id": int(u.speaker)})
    return pyarrow.Table.from_pylist(rows)


def write_layouts(tones: Path, places: Path) -> None:
    """The tones under `places` in folders tones and, by the name of each corpus, in its own layout, each with a -copy
    (of tones: `copy`); and what else keys point to: language models and lists of words in pairs, `quiet` with another
    noise, and models `trained` and `trained-too`.
    """
    for name in ("tones", "copy"):
        shutil.copytree(tones, places / name)
    for name in delivered():
        for folder in (name, f"{name}-copy"):
            lay_out(component("data", name, root=str(places / folder)), tones)
    _write_words(places)
    for seed, name in enumerate(("trained", "trained-too")):
        shutil.move(write_trained(places / "runs", tones, f"seed={seed}"), places / name)
    (places / "quiet").mkdir()
    soundfile.write(places / "quiet" / "noise.wav", np.random.default_rng(0).standard_normal(8000) / 10, 16000)


def _write_words(places: Path) -> None:
    letters = "abcdefghijklmnopqrstuvwxyz'"
    for seed, name in enumerate(("words", "other")):
        words = [a + b for a in letters[seed : seed + 12] for b in letters[:12]] + list(letters[:26])
        (places / f"{name}.txt").write_text("".join(f"{word}\n" for word in words), encoding="utf-8")
        (places / f"{name}.arpa").write_bytes(bigrams(f"{name}-of-layouts.arpa", words, seed).read_bytes())
    for seed, name in enumerate(("letters", "other-letters")):
        symbols = [SPACE, *letters]
        (places / f"{name}.arpa").write_bytes(bigrams(f"{name}-of-layouts.arpa", symbols, seed).read_bytes())
    for seed, name in enumerate(("recurrent", "other-recurrent")):
        shutil.copytree(recurrent_model(f"{name}-of-layouts", f"{letters} ", seed), places / name)

"""What is kept and used again has a key that changes with everything that decides it."""

import functools
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from omegaconf import OmegaConf

from asr_ablations.components.loss import aligned
from asr_ablations.config.build import build
from asr_ablations.data import audio, corpus, index, recording_cache
from asr_ablations.data.index import SplitIndex
from asr_ablations.data.recording_cache import cache_key
from asr_ablations.evaluation import outputs
from asr_ablations.native import extension
from asr_ablations.runs.identity import content, identity
from asr_ablations.tools import content_keys
from asr_ablations.tools.content_keys import hash_object, hash_source
from asr_ablations.training.assembly import assemble
from asr_ablations.training.trained_model import Trained, load_run
from asr_verdicts.errors import UsageError
from tests.helpers.every_key import Knob, chosen, file_keys
from tests.helpers.support import component, compose, group_options, tiny_overrides
from tests.helpers.trained_runs import write_trained

FILE_OPTIONS = [
    pytest.param(f"{group}={name}", key, id=f"{group}={name}/{key}")
    for group in chosen()
    if group not in ("data", "cache", "logger")  # data by their fingerprint; the other two change no number
    for name in group_options(group)
    for key in file_keys(f"{group}={name}")
]


@pytest.fixture(autouse=True, scope="module")
def source_is_read_once() -> Iterator[None]:
    """No test here changes it, and most of a key's time is reading it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(content_keys, "hash_source", functools.cache(hash_source))
        yield


opened: set[str] = set()
"""The files that this process has opened."""


def _note(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "open" and isinstance(arguments[0], (str, bytes, Path)):
        opened.add(str(arguments[0]))


sys.addaudithook(_note)


@contextmanager
def one_byte_changed(path: Path) -> Iterator[None]:
    before = path.read_bytes()
    path.write_bytes(before[:-1] + bytes([before[-1] ^ 1]))
    try:
        yield
    finally:
        path.write_bytes(before)


@pytest.mark.slow
@pytest.mark.parametrize(("option", "key"), FILE_OPTIONS)
def test_a_changed_byte_of_a_file_that_is_read_makes_another_run(option: str, key: str, places: Path) -> None:
    """The files are those that are opened to set up, to decode and to load a batch, and that were there before it."""
    knob = Knob(option, f"{option.partition('=')[0]}.{key}")
    cfg = knob.before(places)
    place = Path(str(OmegaConf.select(cfg, knob.key)))
    there = {path.resolve() for path in (place.rglob("*") if place.is_dir() else [place]) if path.is_file()}
    there = {path for path in there if path.name != "status.json"}  # it says whether a teacher is finished, no more
    before = identity(cfg)
    opened.clear()
    corpus = build(cfg.data)
    alphabet = build(cfg.alphabet)(corpus)
    build(cfg.decoder)(alphabet)
    cfg.decoder = compose("decoder=greedy").decoder
    task, data = assemble(cfg, corpus, alphabet)
    data.setup()
    task.loss.prepare(data.sets, torch.device("cpu"))
    next(iter(data.train_dataloader()))
    read = there & {Path(name).resolve() for name in {*opened}}
    assert read, f"{option} opened none of {sorted(there)}"
    for file in read:
        with one_byte_changed(file):
            assert identity(knob.before(places)) != before, f"{file} is read, and no part of the identity"
    assert identity(knob.before(places)) == before


def test_equal_files_elsewhere_are_the_same_run(places: Path, tmp_path: Path) -> None:
    shutil.copytree(places / "quiet", tmp_path / "moved")
    (tmp_path / "moved" / ".DS_Store").write_text("of the system")
    runs = [compose("augment=noise", f"augment.folder={path}") for path in (places / "quiet", tmp_path / "moved")]
    assert identity(runs[0]) == identity(runs[1])
    first = min((tmp_path / "moved").glob("*.wav"))
    first.rename(first.with_name(f"a{first.name}"))  # noise is drawn by its place among the names
    assert identity(compose("augment=noise", f"augment.folder={tmp_path / 'moved'}")) != identity(runs[0])


def test_a_language_model_is_its_files_and_not_the_record_of_their_making(places: Path, tmp_path: Path) -> None:
    folder = tmp_path / "lm"
    folder.mkdir()
    shutil.copy(places / "words.arpa", folder / "lm.arpa")
    ids = []
    for name in ("config.yaml", "status.json", "lm.json", "words.txt", "lm.arpa"):
        ids.append(identity(compose("decoder=beam_lm", f"decoder.lm={folder}")))
        (folder / name).write_text("another")
    ids.append(identity(compose("decoder=beam_lm", f"decoder.lm={folder}")))
    assert ids[0] == ids[1] == ids[2] == ids[3]
    assert len({*ids}) == 3, "words.txt and lm.arpa are read"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("data.train=train", "data.train=[train]"), ("data.test=test-clean", "data.test=[test-clean]"),
        ("dropout=0", "dropout=0.0"), ("data.hours=2", "data.hours=2.0"), ("optimizer.lr=0.001", "optimizer.lr=1e-3"),
    ],
)  # fmt: skip
def test_equal_values_are_the_same_run(one: str, other: str) -> None:
    assert identity(compose(one)) == identity(compose(other))
    assert identity(compose(one)) != identity(compose(one, "seed=1"))


@pytest.fixture
def trained(tmp_path: Path, tiny_corpus: Path) -> Trained:
    run = load_run(write_trained(tmp_path, tiny_corpus))
    run.data.corpus.prepare()
    return run


CPU = torch.device("cpu")


def test_log_probabilities(trained: Trained, monkeypatch: pytest.MonkeyPatch) -> None:
    """Weights, features, precision, device, format, and the utterances' content, text, place and number."""
    first, *rest = trained.data.corpus.read("dev")
    other = trained.checkpoint.with_name("other.ckpt")
    other.write_bytes(trained.checkpoint.read_bytes() + b"x")
    runs = [trained, trained._replace(checkpoint=other)]
    for key, value in {"features.window": 0.03, "precision": "bf16"}.items():
        runs.append(trained._replace(cfg=OmegaConf.merge(trained.cfg, OmegaConf.from_dotlist([f"{key}={value}"]))))
    keys = [outputs.log_probs_key(run, [first, *rest], CPU) for run in (*runs, trained)]
    assert keys[0] == keys.pop()
    keys += [
        outputs.log_probs_key(trained, [first, *rest], torch.device("cuda")),
        outputs.log_probs_key(trained, rest, CPU),
    ]
    for change in ({"content": "0"}, {"text": "b"}, {"offset": 0.1}):
        keys.append(outputs.log_probs_key(trained, [replace(first, **change), *rest], CPU))
    monkeypatch.setattr(outputs, "FORMAT", 1000)
    keys.append(outputs.log_probs_key(trained, [first, *rest], CPU))
    assert len({*keys}) == len(keys) == 10


def test_recordings(trained: Trained) -> None:
    first, *rest = trained.data.corpus.read("dev")
    assert cache_key([first, *rest], "m") == cache_key([first, *rest], "m")
    keys = [cache_key([first, *rest], "m"), cache_key(rest, "m"), cache_key([first, *rest], "n")]
    for change in ({"id": "other"}, {"content": "0"}, {"offset": 0.1}, {"duration": 0.5}, {"channel": 0}):
        keys.append(cache_key([replace(first, **change), *rest], "m"))
    assert len({*keys}) == len(keys)


def test_recordings_of_a_corpus_without_hashes_are_of_the_bytes_of_their_files(trained: Trained) -> None:
    utterances = [replace(utterance, content="") for utterance in trained.data.corpus.read("dev")]
    before = cache_key(utterances, "m")
    with one_byte_changed(Path(utterances[0].audio)):
        assert cache_key(utterances, "m") != before


def test_other_code_and_libraries(trained: Trained, monkeypatch: pytest.MonkeyPatch) -> None:
    def keys(trained: Trained) -> dict[str, str]:
        """The key of everything that code and libraries decide, by what it is the key of."""
        index.hash_reader.cache_clear()
        utterances = [*trained.data.corpus.read("dev")]
        loss = component("loss", "aligned", run=str(trained.folder))
        features = build(compose("features=logmel40").features)
        return {
            "log-probabilities": outputs.log_probs_key(trained, utterances, CPU),
            "samples": cache_key(utterances, "m"),
            "features": cache_key(utterances, hash_object(features)),
            "options of features": hash_object(features),
            "alignments": loss._cache_key(utterances, {("ab", "")}),
            "index of a split": split_index(trained).code,
            "audio in an index": split_index(trained).audio_code,
        }

    before = keys(trained)
    assert before == keys(trained)
    changes: list[tuple[tuple[Any, ...], str, Any]] = [
        ((content_keys, audio), "hash_source", lambda *_, **__: "other"),
        ((content_keys, recording_cache, outputs, aligned, index), "library_versions", lambda: {"torch": "other"}),
    ]
    for modules, name, other in changes:
        with monkeypatch.context() as patch:
            for module in modules:
                patch.setattr(module, name, other)
            after = keys(trained)
        index.hash_reader.cache_clear()
        assert [kind for kind in before if before[kind] == after[kind]] == []


def test_activations_are_of_their_layers_and_of_everything_that_decides_outputs(
    trained: Trained, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = outputs.stored_activations(trained, "dev", ["recurrent.0"], CPU, nullcontext)
    assert outputs.stored_activations(trained, "dev", ["recurrent.0"], CPU, nullcontext) == kept
    other = outputs.stored_activations(trained, "dev", ["output"], CPU, nullcontext)
    files = {kept, other}
    for name, value in {"FORMAT": 1000, "log_probs_key": lambda *_: "other"}.items():
        monkeypatch.setattr(outputs, name, value)
        files.add(outputs.stored_activations(trained, "dev", ["recurrent.0"], CPU, nullcontext))
    assert len(files) == 4


def split_index(trained: Trained, **changes: object) -> SplitIndex:
    place: dict[str, Any] = {
        "reader": type(trained.data.corpus), "root": Path("/a"), "split": "train", "options": ["en"], **changes,
    }  # fmt: skip
    return SplitIndex(**place)


def test_the_index_of_a_split_is_of_its_reader_and_of_its_place(
    trained: Trained, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = type(trained.data.corpus)
    other = type("LibriSpeech", (reader,), {"__module__": "elsewhere", "__qualname__": reader.__qualname__})
    monkeypatch.setattr(index, "hash_reader", lambda reader: "code")
    changes: list[dict[str, object]] = [
        {}, {"reader": other}, {"root": Path("/b")}, {"split": "dev"}, {"options": ["pl"]}, {"options": None},
    ]  # fmt: skip
    paths = {split_index(trained, **change).path for change in changes}
    monkeypatch.chdir(tmp_path)
    assert len(paths | {split_index(trained).path}) == 1 + len(changes)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("an4", {"held_out": 2}), ("an4", {"fold": 0, "folds": 2}), ("mls", {"ending": "opus"}),
        ("manifest", {"speaker_of": "^(.)"}), ("kaldi", {"speaker_of": "^(.)"}), ("speechocean762", {"held_out": 2}),
        ("librispeech", {"language": "pl"}), ("librispeech", {"normalise": "punctuation"}),
    ],
)  # fmt: skip
def test_every_option_that_decides_utterances_is_in_the_index(
    name: str, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    places: list[object] = []

    class Noted(SplitIndex):
        def __init__(self, *place: Any) -> None:
            places.append(place[1:])
            raise UsageError("noted")

    monkeypatch.setattr(corpus, "SplitIndex", Noted)
    for keys in ({}, options):
        made = component("data", name, root="/a", **keys)
        with pytest.raises(UsageError, match="noted"):
            made.read(made.train[0])
    assert places[0] != places[1]


def test_alignments_are_of_teacher_alphabet_and_audio(trained: Trained) -> None:
    utterances = [*trained.data.corpus.read("dev")]
    loss = component("loss", "aligned", run=str(trained.folder))
    keys = [loss._cache_key(utterances, {("ab", "")}), loss._cache_key(utterances, {("abc", "")})]
    keys.append(loss._cache_key([replace(utterances[0], content="0" * 32), *utterances[1:]], {("ab", "")}))
    for file in (trained.checkpoint, trained.folder / "config.yaml"):
        with one_byte_changed(file):
            keys.append(loss._cache_key(utterances, {("ab", "")}))
    assert len(set(keys)) == 5


class OwnFeatures(torch.nn.Module):
    def __init__(self, **options: object) -> None:
        super().__init__()
        vars(self).update(options)
        self.weights = torch.nn.Parameter(torch.tensor([options.get("weight", 1.0)]))


class Other:
    OwnFeatures = type("OwnFeatures", (OwnFeatures,), {"__module__": __name__, "__qualname__": "Other.OwnFeatures"})


def test_any_option_of_features_is_in_their_key() -> None:
    options: list[dict[str, object]] = [
        {}, {"scale": 1.0}, {"scale": 2.0}, {"scales": [1.0]}, {"scales": [-0.3]}, {"scales": (1.0,)}, {"low": None},
        {"low": 0}, {"low": False}, {"table": {"a": 1}}, {"table": {"a": 2}}, {"window": torch.ones(2)},
        {"window": torch.zeros(2)}, {"weight": 2.0}, {"of": int}, {"of": float},
    ]  # fmt: skip
    hashes = [hash_object(kind(**each)) for each in options for kind in (OwnFeatures, Other.OwnFeatures)]
    assert hashes == [hash_object(kind(**each)) for each in options for kind in (OwnFeatures, Other.OwnFeatures)]
    assert len({*hashes}) == len(hashes)


def test_the_source_of_a_class_is_all_that_it_imports_from_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "sounds").mkdir()
    for name, text in {"__init__": "", "mine": "from sounds import shared", "shared": "x = 1", "other": ""}.items():
        (tmp_path / "sounds" / f"{name}.py").write_text(text)
    before = hash_source("sounds.mine.Mine")
    (tmp_path / "sounds" / "other.py").write_text("y = 2")
    assert hash_source("sounds.mine.Mine") == before
    (tmp_path / "sounds" / "shared.py").write_text("x = 2")
    assert hash_source("sounds.mine.Mine") != before


def test_a_run_is_its_config_its_data_and_the_behaviour_of_the_code(monkeypatch: pytest.MonkeyPatch) -> None:
    cfg = compose(*tiny_overrides(Path("/corpus")))
    ids = [identity(cfg, "data"), identity(cfg, "other data"), identity(compose("dropout=0.3"), "data")]
    monkeypatch.setattr("asr_ablations.runs.identity.BEHAVIOUR", 1000)
    ids.append(identity(cfg, "data"))
    assert len(set(ids)) == 4
    assert content(cfg)["data"].keys().isdisjoint({"root", "download"})


@pytest.mark.parametrize("kept", [0, 9000])
def test_a_cut_native_library_is_compiled_again(kept: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Loading a cut library would end the process by SIGBUS, or another target would be taken."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(extension, "compile_to", lambda path, command, options: path.write_bytes(b"a library" * 5000))
    path = extension.build("avx2")
    whole = path.read_bytes()
    path.write_bytes(whole[:kept])
    assert extension.build("avx2") == path
    assert path.read_bytes() == whole


def test_a_native_library_is_of_its_sources_flags_and_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(extension, "compile_to", lambda path, command, options: path.write_bytes(b"a library"))
    (tmp_path / "source.cpp").write_text("int x;")
    for name in ("one", "two"):
        (tmp_path / name).write_text(name)
    paths = [extension.build("avx2"), extension.build("avx512")]
    monkeypatch.setattr(extension, "FLAGS", (*extension.FLAGS, "-g"))
    paths.append(extension.build("avx2"))
    monkeypatch.setattr(extension, "SOURCES", [tmp_path / "source.cpp"])
    paths.append(extension.build("avx2"))
    monkeypatch.setattr(extension, "compiler", lambda: [str(tmp_path / "one")])
    paths.append(extension.build("avx2"))
    (tmp_path / "one").write_text("new")
    paths.append(extension.build("avx2"))
    monkeypatch.setattr(extension, "compiler", lambda: [str(tmp_path / "one"), "-m64"])
    paths.append(extension.build("avx2"))
    assert len({path.stem.rpartition("-")[2] for path in paths}) == len(paths)

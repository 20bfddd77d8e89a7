"""Files of a run's folder damaged in every way, and each of those that read them."""

import os
import pickle
import shutil
import zipfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import torch

from asr_ablations.experiment.run import earlier_checkpoint
from asr_ablations.reproduction.original import load_original
from asr_ablations.runs.consistency import damage
from asr_ablations.runs.folder import Run
from asr_ablations.runs.records import load
from asr_ablations.training.trained_model import load_run
from tests.campaign.direct import Call, Outcome, refused
from tests.campaign.input_table import FINE
from tests.helpers.run_folders import write_run
from tests.helpers.support import compose
from tests.helpers.trained_runs import write_trained

Damage = Callable[[Path], object]
Reader = Callable[[Path, str], Outcome]


class Execute:
    """What a pickle makes of itself where somebody unpickles it."""

    def __reduce__(self) -> tuple[Callable[..., object], tuple[str]]:
        return os.mkdir, ("executed",)


def bomb() -> str:
    """Nine levels of nine references each."""
    levels = [f"a{i}: &a{i} [{','.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 9)]
    return "\n".join(["a0: &a0 [x]", *levels])


def _text(content: str | bytes) -> Damage:
    return lambda path: path.write_bytes(content if isinstance(content, bytes) else content.encode())


def _half(path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2 - 1])


def _instead(make: Callable[[Path], object]) -> Damage:
    def change(path: Path) -> None:
        path.unlink(missing_ok=True)
        make(path)

    return change


KINDS: dict[str, Damage] = {
    "missing": lambda path: path.unlink(missing_ok=True), "empty": _text(""), "a brace": _text("{"),
    "a list": _text("[]"), "a number": _text("5"), "a text": _text('"a"'), "null": _text("null"),
    "an object": _text("{}"), "no UTF-8": _text(b"\xff\xfe"), "NUL": _text(b"\x00" * 64),
    "nested": _text("[" * 100_000), "a bomb": _text(bomb()), "half": _half, "a folder": _instead(Path.mkdir),
    "a pipe": _instead(os.mkfifo), "a link to itself": _instead(lambda path: path.symlink_to(path.name)),
}  # fmt: skip
NO_FILE = {"a folder", "a pipe", "a link to itself"}
TABLES = {"metrics.csv", "losses.csv", "utterances.csv"}
FILES = ["status.json", "config.yaml", "overrides", "environment.json", "summary.json", "data.json", "model.txt",
         *sorted(TABLES)]  # fmt: skip


def _is_damage(file: str, kind: str) -> bool:
    """Whether a reader can see it: a run may lack some files, text may be any, and a table may end at any row."""
    if file == "model.txt":
        return kind in {"a folder", "a pipe", "no UTF-8"}
    if kind == "missing":
        return file not in ("data.json", "losses.csv")
    if kind == "an object":
        return file not in ("environment.json", "data.json")
    return (file, kind) not in {("metrics.csv", "half"), ("losses.csv", "half")}


def _compares(run: Path, file: str) -> Outcome:
    """A comparison of two runs, one of them damaged: it is left out, or warned of, by name."""
    records = load([run.parent])
    said = [unfinished.reason for unfinished in records.unfinished] + records.warnings
    if not said:
        return "silent", "compared as if nothing was wrong"
    named = file in " ".join(said) or (file == "status.json" and "did not start" in said[0])
    return (FINE if named and "\n" not in "".join(said) else "wrong message"), said[0]


def _reproduces(run: Path, file: str) -> Outcome:
    return refused(lambda: load_original(run), file, "summary")


def _trains(run: Path, file: str) -> Outcome:
    """It is put aside where somebody says what is damaged, and refused where a file cannot be read now."""
    words: list[str | None] = []
    ended, said = refused(lambda: words.append(damage(run)), file)
    if ended != "silent":
        return ended, said
    return (FINE if file in str(words[0]) else "silent" if words[0] is None else "wrong message"), str(words[0])


def _loads(run: Path, file: str) -> Outcome:
    return refused(lambda: load_run(run), file, "did not start")


READERS: dict[str, tuple[Reader, set[str]]] = {
    "compare": (_compares, {*FILES}),
    "reproduce": (_reproduces, {*FILES} - {"model.txt"}),
    "train": (_trains, {*FILES} - {"status.json", "overrides", "data.json"}),
}


def _with_damage(original: Path, file: str, kind: str, reader: Reader, folder: Path) -> Outcome:
    sweep = folder / "sweep"
    shutil.copytree(original.parent, sweep, symlinks=True)
    run = sweep / original.name
    KINDS[kind](run / file)
    return reader(run, file)


def damaged_runs(folder: Path) -> Iterator[Call]:
    """Each file of a run's folder in each kind of damage before each reader. folder: for the whole runs."""
    write_run(folder, "seed=0")
    whole, trained = write_run(folder, "seed=1"), write_trained(folder / "trained", folder / "nowhere")
    for file in FILES:
        for kind in (kind for kind in KINDS if _is_damage(file, kind)):
            for name, (reader, files) in READERS.items():
                if file in files and (name, file, kind) not in NO_FAULT:
                    call = partial(_with_damage, whole, file, kind, reader)
                    yield Call("damaged run", f"{file}: {kind}: {name}", call)
    for kind in KINDS:
        for file in ("status.json", "config.yaml", "checkpoints/last.ckpt"):
            call = partial(_with_damage, trained, file, kind, _loads)
            yield Call("damaged run", f"{file}: {kind}: transcribe", call)


NO_FAULT: set[tuple[str, str, str]] = {
    *(("reproduce", "overrides", kind) for kind in KINDS if kind not in NO_FILE | {"no UTF-8", "missing"}),
    ("reproduce", "config.yaml", "half"),
    ("train", "config.yaml", "half"),
}
"""What a reader need not see: overrides are any text to whoever does not name arms by them, and half a config can be a
whole one, which is seen later as another content.
"""


def _content(change: Callable[[dict[str, object]], object]) -> Damage:
    def write(path: Path) -> None:
        content = torch.load(path, weights_only=True)
        torch.save(change(content), path)

    return write


def _flipped(path: Path) -> None:
    entry = max(zipfile.ZipFile(path).infolist(), key=lambda entry: entry.file_size)
    content = bytearray(path.read_bytes())
    content[entry.header_offset + 30 + len(entry.filename) + 200] ^= 1
    path.write_bytes(content)


def _packed(path: Path) -> None:
    with zipfile.ZipFile(path) as archive:
        parts = {entry.filename: archive.read(entry) for entry in archive.infolist()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in parts.items():
            archive.writestr(name, content)


CHECKPOINTS: dict[str, Damage] = {
    "a pickle": lambda path: path.write_bytes(pickle.dumps({"state_dict": {}})),
    "a pickle that executes": lambda path: path.write_bytes(pickle.dumps(Execute())),
    "a pickle inside": lambda path: torch.save({"state_dict": {}, "more": Execute()}, path),
    "a flipped bit": _flipped,
    "packed": _packed,
    "random bytes": lambda path: path.write_bytes(os.urandom(5000)),
    "an empty archive": lambda path: zipfile.ZipFile(path, "w").close(),
    "no weights": _content(lambda content: {key: content[key] for key in content if key != "state_dict"}),
    "weights that are a list": _content(lambda content: {**content, "state_dict": []}),
    "its content in a list": _content(lambda content: [content]),
    "a tensor": _content(lambda content: torch.zeros(3)),
    "other shapes": _content(lambda content: {**content, "state_dict": _each(content, lambda v: v[..., None])}),
    "fewer weights": _content(lambda content: {**content, "state_dict": dict(list(_each(content).items())[2:])}),
    "more weights": _content(lambda content: {**content, "state_dict": {**_each(content), "x": torch.zeros(1)}}),
    "text as weights": _content(lambda content: {**content, "state_dict": dict.fromkeys(_each(content), "a")}),
    "another alphabet": _content(lambda content: {**content, "alphabet": "xyz"}),
}


def _each(content: dict[str, object], change: Callable[[torch.Tensor], object] = lambda v: v) -> dict[str, object]:
    weights = content["state_dict"]
    assert isinstance(weights, dict)
    return {name: change(value) for name, value in weights.items()}


def _continues(run: Path, file: str) -> Outcome:
    """A training that would continue: it puts the checkpoint aside, or says why not."""
    cfg = compose("data=an4", "data.root=/somewhere")
    cfg.overrides, cfg.outputs, cfg.sweep = [], str(run.parent / "outputs"), "s"
    record = Run(cfg)
    record.folder.parent.mkdir(parents=True)
    shutil.move(run, record.folder)
    checkpoint = earlier_checkpoint(record)
    aside = list(record.folder.glob("checkpoints.*"))
    return (FINE if checkpoint is None and aside else "silent"), str(aside)


def _with_checkpoint(original: Path, kind: str, reader: Reader, folder: Path) -> Outcome:
    shutil.copytree(original, folder / "run")
    (CHECKPOINTS.get(kind) or KINDS[kind])(folder / "run" / "checkpoints" / "last.ckpt")
    return reader(folder / "run", "last.ckpt")


def damaged_checkpoints(folder: Path) -> Iterator[Call]:
    """Checkpoints that are none, or hold something else, before those who load and who continue."""
    trained = write_trained(folder / "trained", folder / "nowhere")
    for kind in CHECKPOINTS:
        yield Call("checkpoint", f"{kind}: transcribe", partial(_with_checkpoint, trained, kind, _loads))
    for kind in [*CHECKPOINTS, *(kind for kind in KINDS if kind not in ("missing", "a link to itself"))]:
        yield Call("checkpoint", f"{kind}: train", partial(_with_checkpoint, trained, kind, _continues))

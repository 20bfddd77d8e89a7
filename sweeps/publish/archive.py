"""Records of sweeps as they are kept in git: one small archive a sweep, from which it is compared again anywhere.

An archive <sweep>.tar.xz holds, under <sweep>/<run>/, what comparisons read of each run that has a result: config,
circumstances, rates, validations, hypotheses of all utterances (7 kB a run of 1,000), and evaluations with
other decoders. Left out are the weights, the losses of single steps, and paths of the machine. A
run that was taken over from another sweep is a link to it, and lies in the archive too.
"""

import csv
import io
import json
import lzma
import re
import sys
import tarfile
from argparse import ArgumentParser
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path, PurePosixPath

from asr_ablations.commands.console import exit_code
from asr_ablations.runs import layout
from asr_ablations.runs.evaluations import utterances_of
from asr_ablations.runs.reader import UnreadableFileError, readable
from asr_ablations.runs.records import KEPT_ASIDE
from asr_ablations.runs.status import RESULTS, fate_of
from asr_ablations.tools.files import REPOSITORY
from asr_verdicts.files import Json, whole_file

ENDING = ".tar.xz"
OF_SWEEP = (layout.SWEEP, layout.LOOKS, layout.STANDING)
OF_RUN = (
    layout.CONFIG, layout.OVERRIDES, layout.ENVIRONMENT, layout.STATUS, layout.DATA, layout.METRICS, layout.UTTERANCES,
    layout.SUMMARY,
)  # fmt: skip
LEFT_OUT_COLUMNS = ("audio", "offset", "duration", "channel")
ABSOLUTE = re.compile(r"(^|[\s\"'=\[,])(?:~|/[\w.~+-]+)/[^\s\"',\]]*", re.MULTILINE)
"""A path of the machine, and the character before it."""


def keep(sweep: Path, archives: Path) -> Path | None:
    """Write the archive of a sweep's results into the folder `archives`, and return its path.

    The same results make the same bytes. None, and nothing is written, where the archive that is there already has runs
    that the sweep has not: of another machine, say.
    """
    archive = archives / f"{sweep.name}{ENDING}"
    files = dict(_of_sweep(sweep))
    if archive.exists() and not set(_runs(_read(archive))) <= set(_runs(files)):
        return None
    archives.mkdir(parents=True, exist_ok=True)
    with whole_file(archive) as temporary:
        temporary.write_bytes(_packed(files))
    return archive


def unpack(archives: Iterable[Path], folder: Path) -> list[Path]:
    """Write what the archives hold under `folder`, as under outputs/; the folders of their sweeps.

    Files that are there already stay as they are. Raises UnreadableFileError for an archive that is damaged, or would
    write anywhere else.
    """
    sweeps = []
    for archive in archives:
        for name, content in _read(archive).items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            if path.exists() or path.is_symlink():
                continue
            if isinstance(content, bytes):
                path.write_bytes(content)
            else:
                path.symlink_to(content, target_is_directory=True)
        sweeps.append(folder / archive.name.removesuffix(ENDING))
    return sweeps


Files = dict[str, bytes | PurePosixPath]
"""The content of an archive by name: bytes, or where a link leads."""


def _of_sweep(sweep: Path) -> Iterator[tuple[str, bytes | PurePosixPath]]:
    for path in [*(sweep / name for name in OF_SWEEP), *sorted((sweep / layout.ARMS).glob("*.yaml"))]:
        if path.exists():
            yield f"{sweep.name}/{path.relative_to(sweep)}", _portable(path.read_text(encoding="utf-8")).encode()
    for run in layout.runs_in(sweep):
        if KEPT_ASIDE.search(run.name) or fate_of(run).state not in RESULTS:
            continue
        own = run.resolve()
        if run.is_symlink():
            yield f"{sweep.name}/{run.name}", PurePosixPath("..", own.parent.name, own.name)
        for name in OF_RUN:
            if (own / name).exists():
                yield f"{own.parent.name}/{own.name}/{name}", _reduced(own / name).encode()
        for path in evaluations_in(own):
            yield f"{own.parent.name}/{own.name}/{layout.EVALUATIONS}/{path.name}", _reduced(path).encode()


def evaluations_in(run: Path) -> list[Path]:
    """The files of a run's evaluations that comparisons read."""
    folder = run / layout.EVALUATIONS
    return sorted([*folder.glob("*.json"), *folder.glob(utterances_of(Path("*.json")).name)])


def _runs(files: Files) -> Iterator[str]:
    """Identities of the runs, the letters behind the last hyphen of their folders' names, and their evaluations."""
    for name in files:
        _, run, *rest = name.split("/")
        if rest and (rest == [layout.STATUS] or rest[0] == layout.EVALUATIONS):
            yield "/".join([run.rpartition("-")[2], *rest])


def _reduced(path: Path) -> str:
    """The part of a run's file that is kept."""
    text = path.read_text(encoding="utf-8")
    if path.name == layout.UTTERANCES or path.match(f"{layout.EVALUATIONS}/*.csv"):
        return _table(_without_places(csv.DictReader(io.StringIO(text, newline=""))))
    if path.name == layout.METRICS:
        return _table(_validations(csv.DictReader(io.StringIO(text, newline=""))))
    if path.name == layout.STATUS:
        return _json({key: value for key, value in json.loads(text).items() if key not in ("host", "pid")})
    if path.name == layout.ENVIRONMENT:
        return _json(_without_code(json.loads(text)))
    return _portable(text)


def _without_code(environment: Json) -> Json:
    """An environment without the hashes and changes of the code: the commit stays, and whether there were changes."""
    for session in [environment, *environment.get("resumed", [])]:
        if code := session.get("code"):
            code.pop("files", None)
            code["dirty_diff"] = "not kept" if code.get("dirty_diff") else ""
    return environment


def _without_places(rows: Iterable[dict[str, str]]) -> list[dict[str, str]]:
    return [{key: value for key, value in row.items() if key not in LEFT_OUT_COLUMNS} for row in rows]


def _validations(rows: Iterable[dict[str, str]]) -> list[dict[str, str]]:
    """The rows of metrics without those that hold the loss of a single step alone."""
    ignored = {"epoch", "step", "train/loss_step"}
    return [row for row in rows if any(value for key, value in row.items() if key not in ignored)]


def _table(rows: Sequence[dict[str, str]]) -> str:
    text = io.StringIO(newline="")
    table = csv.DictWriter(text, fieldnames=list(rows[0]) if rows else [])
    table.writeheader()
    table.writerows(rows)
    return text.getvalue()


def _json(content: object) -> str:
    return _portable(json.dumps(content, indent=2, ensure_ascii=False) + "\n")


def _portable(text: str) -> str:
    return ABSOLUTE.sub(r"\1<folder>", text)


def _packed(files: Files) -> bytes:
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(name)  # without an owner, dated 1970
            if isinstance(content, bytes):
                member.size = len(content)
                tar.addfile(member, io.BytesIO(content))
            else:
                member.type, member.linkname = tarfile.SYMTYPE, str(content)
                tar.addfile(member)
    return lzma.compress(raw.getvalue(), preset=9)


def _read(archive: Path) -> Files:
    """The content of an archive, which may come from elsewhere: nothing in it may lead out of its folder."""
    files: Files = {}
    with readable(archive):
        try:
            with tarfile.open(fileobj=io.BytesIO(lzma.decompress(archive.read_bytes()))) as tar:
                for member in tar:
                    files[member.name] = _content(tar, member)
        except (tarfile.TarError, lzma.LZMAError, EOFError) as error:
            raise UnreadableFileError(archive, error) from error
    return files


def _content(tar: tarfile.TarFile, member: tarfile.TarInfo) -> bytes | PurePosixPath:
    place, target = PurePosixPath(member.name), PurePosixPath(member.linkname)
    deep = 2 <= len(place.parts) <= 3 or place.parts[2:-1] == (layout.EVALUATIONS,)
    inside = deep and not place.is_absolute() and ".." not in place.parts
    if inside and member.isfile() and not member.issparse():  # whose size is a number in it: any number of zeros
        content = tar.extractfile(member)
        assert content is not None
        return content.read()
    up, *below = target.parts or ("",)
    if inside and member.issym() and up == ".." and len(below) == 2 and ".." not in below:
        return target
    raise ValueError(f"{member.name!r} is no file of a sweep")


def main(arguments: list[str] | None = None) -> int:
    """Write the records of sweeps/records/ as runs, as under outputs/; the exit code, 2 for a mistake of the user's."""
    parser = ArgumentParser(prog="make unpack", description="Write the records of sweeps as their runs.")
    parser.add_argument("folder", nargs="?", type=Path, default=Path("outputs"), help="by default outputs/")
    options = parser.parse_args(arguments)
    records = sorted((REPOSITORY / "sweeps" / "records").glob(f"*{ENDING}"))

    def write_runs() -> int:
        print("wrote", *unpack(records, options.folder), sep="\n  ")
        return 0

    return exit_code(write_runs)


if __name__ == "__main__":
    sys.exit(main())

"""Archives of sweeps in git, from which any machine can compare them again.

<sweep>.tar.xz, and <sweep>.2.tar.xz and so on for a large sweep, contain, under <sweep>/<run>/, the files that
comparisons read of each run with a result: config, environment, rates, validations, hypotheses of all utterances (7 to
20 kB for a run of 2,000) and evaluations with other decoders. They contain no weights, losses of single steps or paths
of the machine. A run that was taken over from another sweep is a link, and the archives contain that run, too.
"""

import argparse
import csv
import io
import itertools
import json
import os
import re
import sys
import tarfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from asr_ablations.commands.console import exit_code
from asr_ablations.runs import layout
from asr_ablations.runs.reader import read_config
from asr_ablations.runs.records import utterances_of
from asr_ablations.runs.status import RESULTS, fate_of
from asr_ablations.tools.files import REPOSITORY
from asr_verdicts.files import whole_file

ENDING = ".tar.xz"
PART = 8_000_000  # bytes of files in an archive, after which a sweep continues in another; compressed, less than 1 MB
OF_SWEEP = (layout.SWEEP, layout.LOOKS, layout.STANDING)
OF_RUN = (
    layout.CONFIG, layout.OVERRIDES, layout.ENVIRONMENT, layout.STATUS, layout.DATA, layout.METRICS, layout.UTTERANCES,
    layout.SUMMARY,
)  # fmt: skip
# columns of utterances.csv with the place of the speech on the machine
PLACE_COLUMNS = ("audio", "offset", "duration", "channel")
STEP_COLUMNS = ("epoch", "step", "train/loss_step")  # columns of metrics.csv with values in rows about a single step
# a path of the machine, and the character before it
ABSOLUTE = re.compile(r"(^|[\s\"'=\[,])(?:~|/[\w.~+-]+)/[^\s\"',\]]*", re.MULTILINE)


def keep(sweep: Path, folder: Path) -> list[Path]:
    """Write the archives of a sweep into a folder and return their paths. The same results give the same bytes.

    If the present archives have results that the sweep lacks, such as those from another machine, returns [] and writes
    nothing.
    """
    files = collect_files(sweep)
    present = find_archives(sweep.name, folder)
    for archive in present:
        with tarfile.open(archive) as tar:
            if not list_results(tar.getnames()) <= list_results(files):
                return []
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for number, part in enumerate(split(files), 1):
        archive = folder / f"{sweep.name}{f'.{number}' if number > 1 else ''}{ENDING}"
        with whole_file(archive) as path, tarfile.open(path, "w:xz", preset=9, format=tarfile.PAX_FORMAT) as tar:
            for name in part:
                member, content = tarfile.TarInfo(name), files[name]  # without an owner, dated 1970
                if isinstance(content, str):
                    member.type, member.linkname, content = tarfile.SYMTYPE, content, b""
                member.size = len(content)
                tar.addfile(member, io.BytesIO(content))
        written.append(archive)
    for archive in {*present} - {*written}:
        archive.unlink()
    return written


def find_archives(sweep: str, folder: Path) -> list[Path]:
    """Return the archives of a sweep in a folder."""
    return sorted([*folder.glob(f"{sweep}{ENDING}"), *folder.glob(f"{sweep}.*{ENDING}")])


def split(files: Mapping[str, bytes | str]) -> Iterator[list[str]]:
    """Yield the names of the files of each archive. The files of a run lie in one archive."""
    part: list[str] = []
    size = 0
    for run, names in itertools.groupby(files, lambda name: name.split("/")[:2]):
        if size > PART and len(run) > 1:
            yield part
            part, size = [], 0
        own = list(names)
        part += own
        size += sum(len(files[name]) for name in own)
    yield part


def unpack(archives: Iterable[Path], folder: Path) -> list[Path]:
    """Unpack archives under `folder`, as under outputs/, and return the folders of their sweeps, each once.

    Existing files stay as they are. Raises tarfile.FilterError for an archive that would write outside `folder`.
    """
    sweeps = []
    for archive in archives:
        with tarfile.open(archive) as tar:
            for member in tar:
                if not os.path.lexists(folder / member.name):
                    tar.extract(member, folder, set_attrs=False, filter="data")
        sweeps.append(folder / re.sub(r"(\.\d+)?\.tar\.xz$", "", archive.name))
    return list(dict.fromkeys(sweeps))


def collect_files(sweep: Path) -> dict[str, bytes | str]:
    """Return the files of a sweep's archive by name: the content of a file, or the target of a link."""
    files: dict[str, bytes | str] = {}
    # by seed, so that archives that are full stay as they are when a sweep gets more seeds
    for run in sorted(layout.runs_in(sweep), key=lambda run: (read_seed(run), run.name)):
        if layout.KEPT_ASIDE.search(run.name) or fate_of(run).state not in RESULTS:
            continue
        folder = run.resolve()
        name = f"{folder.parent.name}/{folder.name}"
        if run.is_symlink():
            files[f"{sweep.name}/{run.name}"] = f"../{name}"
        for path in [folder / name for name in OF_RUN if (folder / name).exists()] + list_evaluations(folder):
            files[f"{name}/{path.relative_to(folder)}"] = reduce_file(path).encode()
    for path in [*(sweep / name for name in OF_SWEEP), *sorted((sweep / layout.ARMS).glob("*.yaml"))]:
        if path.exists():
            files[f"{sweep.name}/{path.relative_to(sweep)}"] = hide_paths(path.read_text(encoding="utf-8")).encode()
    return files


def read_seed(run: Path) -> int:
    """Return the seed of a run, or 0 if it has not begun."""
    try:
        return int(read_config(run)["seed"])
    except FileNotFoundError:
        return 0


def list_evaluations(run: Path) -> list[Path]:
    """Return the files of a run's evaluations that comparisons read."""
    folder = run / layout.EVALUATIONS
    return sorted([*folder.glob("*.json"), *folder.glob(utterances_of(Path("*.json")).name)])


def list_results(names: Iterable[str]) -> set[str]:
    """Return the ids of runs, which are the letters after their folder's last hyphen, and their evaluations."""
    results = set()
    for name in names:
        _, run, *rest = name.split("/")
        if rest and (rest == [layout.STATUS] or rest[0] == layout.EVALUATIONS):
            results.add("/".join([run.rpartition("-")[2], *rest]))
    return results


def reduce_file(path: Path) -> str:
    """Return the part of a run's file that the archive keeps."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".csv":
        rows = list(csv.DictReader(io.StringIO(text, newline="")))
        if path.name == layout.METRICS:
            rows = [row for row in rows if any(value for key, value in row.items() if key not in STEP_COLUMNS)]
        rows = [{key: row[key] for key in row if key not in PLACE_COLUMNS} for row in rows]
        reduced = io.StringIO(newline="")
        table = csv.DictWriter(reduced, fieldnames=list(rows[0]) if rows else [])
        table.writeheader()
        table.writerows(rows)
        return reduced.getvalue()
    if path.name in (layout.STATUS, layout.ENVIRONMENT):
        content = json.loads(text)
        content = {key: content[key] for key in content if key not in ("host", "pid")}
        for session in [content, *content.get("resumed", [])]:
            if code := session.get("code"):  # the commit, and whether there were uncommitted changes
                code.pop("files", None)
                code["dirty_diff"] = "not kept" if code.get("dirty_diff") else ""
        text = json.dumps(content, indent=2, ensure_ascii=False) + "\n"
    return hide_paths(text)


def hide_paths(text: str) -> str:
    """Replace paths of the machine by <folder>."""
    return ABSOLUTE.sub(r"\1<folder>", text)


def main() -> int:
    """Unpack the records in sweeps/records/ as runs."""
    parser = argparse.ArgumentParser(prog="python -m publish.archive", description=main.__doc__)
    parser.add_argument("folder", type=Path, nargs="?", default=Path("outputs"), help="default: outputs")
    folder = parser.parse_args().folder
    records = sorted((REPOSITORY / "sweeps" / "records").glob(f"*{ENDING}"))
    print("wrote", *unpack(records, folder), sep="\n  ")
    return 0


if __name__ == "__main__":
    sys.exit(exit_code(main))

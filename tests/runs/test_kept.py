"""Records of sweeps in small archives: compared from them, a sweep says what it says from its runs."""

import io
import lzma
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from asr_ablations.comparison.comparison import compare
from asr_ablations.comparison.design import Options
from asr_ablations.report.formats import body
from asr_ablations.report.sections import sections
from asr_ablations.runs.archive import keep, unpack
from asr_ablations.runs.reader import UnreadableFileError, read_config, read_environment, read_status
from asr_ablations.runs.record import as_json
from asr_ablations.runs.records import read_run
from asr_ablations.sweep.arm import FrozenArm
from asr_ablations.sweep.until.ablation import take_over
from asr_ablations.tools.files import write_json
from tests.helpers.run_folders import write_run, write_sweep

ABLATION = {"question": "Is a GRU as good?", "factor": "rnn", "baseline": "lstm"}


@pytest.fixture
def sweep(tmp_path: Path) -> Path:
    return write_sweep(tmp_path / "outputs", {"rnn=lstm": 0.1, "rnn=gru": 0.5}, seeds=2, ablation=ABLATION)


def said(folder: Path) -> dict[str, list[str]]:
    """The sections of the comparison of a sweep."""
    return {section.heading: body(section) for section in sections(compare([folder], Options()))}


def members(archive: Path) -> dict[str, str]:
    with tarfile.open(archive) as tar:
        return {one.name: file.read().decode() for one in tar if (file := one.isfile() and tar.extractfile(one))}


def test_a_sweep_says_the_same_from_its_archive(sweep: Path, tmp_path: Path) -> None:
    archive = keep(sweep, tmp_path / "records")
    assert archive == tmp_path / "records" / "sweep.tar.xz"
    (unpacked,) = unpack([archive], tmp_path / "elsewhere")
    before = said(sweep)
    assert "Verdicts" in before
    assert "Error rates" in " ".join(before)
    assert said(unpacked) == before


def test_neither_weights_nor_paths_of_the_machine_are_in_it(sweep: Path, tmp_path: Path) -> None:
    run = next(sweep.glob("*/status.json")).parent
    environment = read_environment(run)
    write_json(
        run / "environment.json", {**as_json(environment), "command": [str(tmp_path / "src/train.py"), "rnn=lstm"]}
    )
    (run / "checkpoints").mkdir(exist_ok=True)
    (run / "checkpoints" / "last.ckpt").write_bytes(b"weights")
    archive = keep(sweep, tmp_path / "records")
    assert archive is not None
    files = members(archive)
    assert not [name for name in files if "checkpoint" in name or "losses" in name]
    text = "\n".join(files.values())
    assert str(tmp_path) not in text
    assert str(Path.home()) + "/" not in text
    assert '"host"' not in text
    assert "<folder>" in files[f"sweep/{run.name}/environment.json"]


def test_the_same_results_are_the_same_bytes(sweep: Path, tmp_path: Path) -> None:
    first, second = keep(sweep, tmp_path / "a"), keep(sweep, tmp_path / "b")
    assert first is not None
    assert second is not None
    assert first.read_bytes() == second.read_bytes()


def test_a_record_with_more_runs_stays(sweep: Path, tmp_path: Path) -> None:
    archive = keep(sweep, tmp_path / "records")
    assert archive is not None
    content = archive.read_bytes()
    run = next(sweep.glob("*/status.json")).parent
    write_json(run / "status.json", {**as_json(read_status(run)), "status": "failed", "reason": "out of memory"})
    assert keep(sweep, tmp_path / "records") is None
    assert archive.read_bytes() == content


def test_a_run_of_another_sweep_stays_a_link_and_comes_along(sweep: Path, tmp_path: Path) -> None:
    other = write_run(sweep.parent, "rnn=rnn", ablation=ABLATION, sweep="other")
    (sweep / other.name).symlink_to(Path("..", "other", other.name), target_is_directory=True)
    archive = keep(sweep, tmp_path / "records")
    assert archive is not None
    (unpacked,) = unpack([archive], tmp_path / "elsewhere")
    link = unpacked / other.name
    assert link.is_symlink()
    assert link.resolve() == tmp_path / "elsewhere" / "other" / other.name
    assert read_run(link).summary == read_run(other).summary


def test_what_was_unpacked_is_taken_over_by_a_sweep_and_not_trained_again(sweep: Path, tmp_path: Path) -> None:
    archive = keep(sweep, tmp_path / "records")
    assert archive is not None
    (unpacked,) = unpack([archive], tmp_path / "elsewhere")
    run = next(unpacked.glob("*/status.json")).parent
    folder = tmp_path / "elsewhere" / "another" / run.name
    config = tmp_path / "frozen.yaml"
    config.write_text((run / "config.yaml").read_text())
    overrides = tuple(read_config(run)["overrides"])
    arm = FrozenArm("an arm", str(read_environment(run).id), config, folder, 0, 1, overrides)
    assert take_over(arm) == run.resolve()


def test_what_is_there_already_stays(sweep: Path, tmp_path: Path) -> None:
    archive = keep(sweep, tmp_path / "records")
    assert archive is not None
    before = {path: path.read_bytes() for path in sweep.rglob("*") if path.is_file()}
    unpack([archive], sweep.parent)
    assert {path: path.read_bytes() for path in sweep.rglob("*") if path.is_file()} == before


def _file(name: str) -> tarfile.TarInfo:
    return tarfile.TarInfo(name)


def _link(name: str, target: str, kind: bytes = tarfile.SYMTYPE) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type, member.linkname = kind, target
    return member


@pytest.mark.parametrize(
    "member",
    [
        _file("../x/y"), _file("/etc/x"), _file("a/../../y"), _file("alone"), _link("a/b", "/etc/passwd"),
        _link("a/b", "../../x"), _link("a/b", "../x/.."), _link("a/b", "../c/d", tarfile.LNKTYPE),
        _link("a/b", "", tarfile.FIFOTYPE),
    ],
    ids=lambda member: f"{member.name} {member.linkname}".replace("/", "|"),
)  # fmt: skip
def test_an_archive_from_elsewhere_writes_nowhere_else(member: tarfile.TarInfo, tmp_path: Path) -> None:
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w") as tar:
        tar.addfile(member)
    _refused(tmp_path, lzma.compress(raw.getvalue()), "is no file of a sweep")


@pytest.mark.parametrize(
    "damaged", [lambda content: content[:-20], lambda content: b"", lambda content: b"x" * 100], ids=["cut", "0", "x"]
)
def test_a_damaged_archive_is_named(damaged: Callable[[bytes], bytes], sweep: Path, tmp_path: Path) -> None:
    archive = keep(sweep, tmp_path / "records")
    assert archive is not None
    _refused(tmp_path, damaged(archive.read_bytes()), "cannot be read")


def _refused(tmp_path: Path, content: bytes, words: str) -> None:
    archive = tmp_path / "bad.tar.xz"
    archive.write_bytes(content)
    with pytest.raises(UnreadableFileError, match=words) as error:
        unpack([archive], tmp_path / "elsewhere")
    assert str(archive) in str(error.value)
    assert not (tmp_path / "elsewhere").exists()

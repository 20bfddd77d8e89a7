"""Archives, looks and topologies of runs."""

import tarfile
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from asr_ablations.comparison.folders import compare_folders
from asr_ablations.report.training_report import sections
from asr_ablations.runs.environment import buses, links
from asr_ablations.runs.reader import UnreadableFileError, read_environment, read_status
from asr_ablations.runs.records import read_run
from asr_ablations.runs.sweep_history import Look, evidence, looks, record_look
from asr_ablations.tools.typed_json import as_json
from asr_verdicts.design import Options
from asr_verdicts.files import write_json
from asr_verdicts.report.formats import body
from publish.archive import find_archives, keep, unpack
from tests.helpers.run_folders import write_run, write_sweep

ABLATION = {"factor": "rnn", "baseline": "lstm"}


@pytest.fixture
def sweep(tmp_path: Path) -> Path:
    return write_sweep(tmp_path / "outputs", {"rnn=lstm": 0.1, "rnn=gru": 0.5}, seeds=2, ablation=ABLATION)


def said(folder: Path) -> dict[str, list[str]]:
    """The sections of the comparison of a sweep."""
    return {section.heading: body(section) for section in sections(compare_folders([folder], Options()))}


def test_a_sweep_says_the_same_from_its_archive(sweep: Path, tmp_path: Path) -> None:
    (archive,) = keep(sweep, tmp_path / "records")
    assert archive == tmp_path / "records" / "sweep.tar.xz"
    (again,) = keep(sweep, tmp_path / "again")
    assert archive.read_bytes() == again.read_bytes(), "the same results are the same bytes"
    (unpacked,) = unpack([archive], tmp_path / "elsewhere")
    files = {path: path.read_bytes() for path in sweep.rglob("*") if path.is_file()}
    unpack([archive], sweep.parent)
    assert {path: path.read_bytes() for path in sweep.rglob("*") if path.is_file()} == files, "what is there stays"
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
    (archive,) = keep(sweep, tmp_path / "records")
    with tarfile.open(archive) as tar:
        files = {one.name: file.read().decode() for one in tar if (file := one.isfile() and tar.extractfile(one))}
    assert not [name for name in files if "checkpoint" in name or "losses" in name]
    text = "\n".join(files.values())
    assert str(tmp_path) not in text
    assert str(Path.home()) + "/" not in text
    assert '"host"' not in text
    assert "<folder>" in files[f"sweep/{run.name}/environment.json"]


def test_a_record_with_more_runs_stays(sweep: Path, tmp_path: Path) -> None:
    (archive,) = keep(sweep, tmp_path / "records")
    content = archive.read_bytes()
    run = next(sweep.glob("*/status.json")).parent
    write_json(run / "status.json", {**as_json(read_status(run)), "status": "failed", "reason": "out of memory"})
    assert keep(sweep, tmp_path / "records") == []
    assert archive.read_bytes() == content


def test_a_large_sweep_has_archives_of_which_more_seeds_change_the_last_alone(
    sweep: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("publish.archive.PART", 30_000)
    archives = keep(sweep, tmp_path / "records")
    names = ["sweep.tar.xz", *(f"sweep.{number}.tar.xz" for number in range(2, len(archives) + 1))]
    assert [archive.name for archive in archives] == names
    assert len(names) > 2
    assert find_archives("sweep", tmp_path / "records") == sorted(archives)
    full = [archive.read_bytes() for archive in archives[:-1]]
    assert unpack(archives, tmp_path / "elsewhere") == [tmp_path / "elsewhere" / "sweep"]
    assert said(tmp_path / "elsewhere" / "sweep") == said(sweep)
    write_run(sweep.parent, "rnn=gru", "seed=90", ablation=ABLATION, sweep="sweep", noise=90)
    more = keep(sweep, tmp_path / "records")
    assert [archive.read_bytes() for archive in more[: len(full)]] == full
    monkeypatch.undo()
    keep(sweep, tmp_path / "records")
    assert find_archives("sweep", tmp_path / "records") == archives[:1]


def test_a_run_of_another_sweep_stays_a_link_and_comes_along(sweep: Path, tmp_path: Path) -> None:
    other = write_run(sweep.parent, "rnn=rnn", ablation=ABLATION, sweep="other")
    (sweep / other.name).symlink_to(Path("..", "other", other.name), target_is_directory=True)
    (archive,) = keep(sweep, tmp_path / "records")
    (unpacked,) = unpack([archive], tmp_path / "elsewhere")
    link = unpacked / other.name
    assert link.is_symlink()
    assert link.resolve() == tmp_path / "elsewhere" / "other" / other.name
    assert read_run(link).summary == read_run(other).summary


LOOK = Look("2026-01-01T00:00:00+00:00", {"lstm": 3, "gru": 2}, evidence(["a", "b"]), True, "lstm", "wer", "test", "t")


def test_evidence_is_the_set_of_runs() -> None:
    assert evidence(["a", "b"]) == evidence(["b", "a"])
    assert len({evidence(ids) for ids in (["a", "b"], ["ab"], ["a"], [], ["a", "b", "c"])}) == 5


def look_at(request: tuple[Path, int]) -> str | None:
    folder, number = request
    return record_look(folder, replace(LOOK, runs=evidence([str(number)])))


def test_no_look_is_lost_between_several_processes(tmp_path: Path) -> None:
    with ProcessPoolExecutor(3) as pool:
        assert list(pool.map(look_at, [(tmp_path, number) for number in range(12)])) == [None] * 12
    assert {look.runs for look in looks(tmp_path)} == {evidence([str(number)]) for number in range(12)}


def test_a_folder_that_cannot_be_written_is_a_warning(tmp_path: Path) -> None:
    """Permissions do not hold for root: a file where the folder of locks belongs refuses everybody."""
    (tmp_path / ".leases").touch()
    warning = record_look(tmp_path, LOOK)
    assert warning is not None
    assert "looks.json" in warning
    assert "File exists" in warning


def test_an_archive_writes_nowhere_else(tmp_path: Path) -> None:
    def member(name: str, target: str | None = None, kind: bytes = tarfile.SYMTYPE) -> tarfile.TarInfo:
        made = tarfile.TarInfo(name)
        if target is not None:
            made.type, made.linkname = kind, target
        return made

    hostile = [
        [member("../x/y")], [member("/etc/x")], [member("a/../../y")], [member("a/b", "/etc/passwd")],
        [member("a/b", "../../x")], [member("a/b", "../../x", tarfile.LNKTYPE)],
        [member("a/b", "../.."), member("a/b/y")], [member("a/b", "", tarfile.FIFOTYPE)],
    ]  # fmt: skip
    for number, members in enumerate(hostile):
        home = tmp_path / f"{number}"
        home.mkdir()
        archive, folder = home / "bad.tar.xz", home / "elsewhere"
        with tarfile.open(archive, "w:xz") as tar:
            for each in members:
                tar.addfile(each)
        with suppress(tarfile.TarError):
            unpack([archive], folder)
        assert {path.name for path in home.iterdir()} <= {archive.name, folder.name}
        assert all(path.resolve().is_relative_to(folder) and not path.is_fifo() for path in folder.rglob("*"))
    assert {path.name for path in tmp_path.iterdir()} == {f"{number}" for number in range(len(hostile))}


def test_looks_are_kept_in_their_order_and_the_same_question_to_the_same_evidence_is_one(tmp_path: Path) -> None:
    later = replace(LOOK, runs=evidence(["a", "b", "c"]), arms={"lstm": 3, "gru": 3})
    other_question = replace(LOOK, baseline="gru")
    assert looks(tmp_path) == []
    for look in (LOOK, later, replace(LOOK, when="2026-02-02T00:00:00+00:00"), other_question):
        assert record_look(tmp_path, look) is None
    assert looks(tmp_path) == [LOOK, later, other_question]
    for text in ("{", "[]", '{"looks": [{"when": "now"}]}', '{"looks": 3}'):  # a damaged history is no empty one
        (tmp_path / "looks.json").write_text(text)
        with pytest.raises(UnreadableFileError):
            looks(tmp_path)
        assert "not recorded" in str(record_look(tmp_path, LOOK))
        assert (tmp_path / "looks.json").read_text() == text


def test_every_pair_of_gpus_has_its_link_and_a_bus_generation_width_and_address() -> None:
    answer = "00000000:06:00.0, 3, 16\n00000000:07:00.0, [N/A], [N/A]\n"
    assert buses(answer) == ["PCIe 3 x16 at 00000000:06:00.0", "00000000:07:00.0"]
    assert buses("") == []
    matrix = (
        "\t\x1b[4mGPU0\tGPU1\tGPU2\tNIC0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\x1b[0m\n"
        "GPU0\t X \tNV2\tPHB\tPIX\t0-19,40-59\t0\t\tN/A\nGPU1\tNV2\t X \tSYS\tNODE\t0-19,40-59\t0\t\tN/A\n"
        "GPU2\tPHB\tSYS\t X \tSYS\t20-39,60-79\t1\t\tN/A\nNIC0\tPIX\tNODE\tSYS\t X \t\t\t\t\n"
        "\nLegend:\n\n  X    = Self\n  NV#  = Connection traversing a bonded set of # NVLinks\n"
    )
    assert links(matrix) == {"GPU0-GPU1": "NV2", "GPU0-GPU2": "PHB", "GPU1-GPU2": "SYS"}
    alone = "\tGPU0\tCPU Affinity\tNUMA Affinity\nGPU0\t X \t0-15\t0\n"
    for answer in ("", alone, "Unable to determine topology\n"):
        assert links(answer) == {}

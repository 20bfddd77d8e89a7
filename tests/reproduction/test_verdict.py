"""The verdict on hand-written records."""

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from asr_ablations.reproduction import reproduce
from asr_ablations.reproduction import verdict as verdicts
from asr_ablations.runs.environment import commit
from asr_ablations.runs.process import load_frozen
from asr_ablations.runs.records import load, read_run
from asr_ablations.tools.files import read_json
from asr_ablations.tools.typed_json import parse
from asr_ablations.training.trained_model import checked_config
from asr_verdicts.errors import UsageError
from asr_verdicts.files import write, write_json
from asr_verdicts.record import Code, Environment, Record
from tests.helpers.run_folders import edit, write_run

T_OF_THREE_DEGREES, T_FOR_TWO_SETS = 3.182446, 4.176535
"""0.975 and 0.9875 quantiles of Student's t with 3 degrees of freedom, from any table."""


def losses(values: list[float]) -> Callable[[Path], None]:
    rows = "".join(f"{number},{value!r}\n" for number, value in enumerate(values))
    return lambda folder: write(folder / "losses.csv", f"batch,loss\n{rows}")


def pair(outputs: Path, **again: Any) -> tuple[Record, Path]:
    """A run of seed 0 with three siblings (seeds 1 to 3), and the same run once more in another sweep."""
    same: dict[str, Any] = {"rate": 0.2, "change": losses([3.0, 2.5, 2.0, 1.5])}
    for seed in (1, 2, 3):
        write_run(outputs, f"seed={seed}", rate=0.2, noise=seed)
    original = write_run(outputs, "seed=0", **same)
    return reproduce.load_original(original), write_run(outputs, "seed=0", sweep="again", **{**same, **again})


def verdict(original: Record, again: Path) -> verdicts.ReproductionVerdict:
    record = read_run(again)
    evidence = verdicts.compare_bits(original, record)
    return verdicts.judge(evidence, verdicts.find_causes(original, record), verdicts.measure_noise(original))


def change_json(path: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    content = json.loads(path.read_text())
    change(content)
    write_json(path, content)


def test_equal_records_match(tmp_path: Path) -> None:
    result = verdict(*pair(tmp_path))
    assert result.name == verdicts.MATCH
    assert "losses of all 4 steps" in result.why
    assert "the original lacks them: checkpoints/last.ckpt" in result.why, "what could not be compared is said"
    assert result.causes == []


def test_another_machine_is_drift_within_the_noise_of_seeds_and_differs_beyond(tmp_path: Path) -> None:
    def other_machine(folder: Path) -> None:
        """Another torch and processor, and a last digit of the losses."""
        losses([3.0, 2.5, 2.0000002, 1.5])(folder)
        change_json(folder / "environment.json", lambda content: content["versions"].update(torch="9.9"))
        change_json(folder / "environment.json", lambda content: content["hardware"].update(processor="abacus"))

    original, again = pair(tmp_path, change=other_machine)
    result = verdict(original, again)
    assert result.name == verdicts.DRIFT
    assert [(cause.kind, cause.what) for cause in result.causes] == [("versions", "torch"), ("hardware", "processor")]
    assert result.noise["test"].seeds == 4
    write_run(tmp_path, "seed=4", "dropout=0.5", rate=0.9)
    write_run(tmp_path, "seed=5", rate=0.9, status="failed")
    assert verdicts.measure_noise(original)["test"].seeds == 4, "siblings differ in the seed alone"
    result = verdict(original, write_run(tmp_path, "seed=0", sweep="beyond", change=other_machine, rate=0.6))
    assert result.name == verdicts.DIFFERS
    assert "the WER on test differs by more than the seed noise" in result.why


def test_under_four_seeds_there_is_neither_drift_nor_a_difference(tmp_path: Path) -> None:
    """Not even for a WER of 90 % in place of 20 %: with three seeds, chance alone is said to reach 6 deviations."""
    for seed in range(3):
        original = write_run(tmp_path, f"seed={seed}", noise=seed, change=losses([1.0]))
    again = write_run(tmp_path, "seed=2", sweep="again", rate=0.9, change=losses([1.1]))
    result = verdict(reproduce.load_original(original), again)
    assert result.name == verdicts.CANNOT_TELL
    assert result.why.endswith("; estimating the seed noise needs at least 4 seeds in the original's sweep")
    assert (result.noise["test"].limit, result.noise["test"].deviation is None) == (None, False)
    assert "too few to tell" in verdicts.noise_line("test", result.noise["test"])


def test_another_config_or_other_data_differ_however_little_it_does(tmp_path: Path) -> None:
    def decay(folder: Path) -> None:
        losses([3.0, 2.5000002, 2.0, 1.5])(folder)
        edit(folder / "config.yaml", "weight_decay: 0.01", "weight_decay: 0.02")
        change_json(folder / "data.json", lambda content: content["sets"]["dev"].update(sha256="other"))

    result = verdict(*pair(tmp_path, change=decay))
    assert result.name == verdicts.DIFFERS
    assert "the config" in result.why
    assert "losses first differ at step 2 (epoch 2, batch 1): 2.5 then" in result.why
    decayed, data = (
        verdicts.Cause("config", "optimizer.weight_decay", 0.01, 0.02),
        verdicts.Cause("data", "dev.sha256", "dev-hash", "other"),
    )
    assert result.causes == [decayed, data]
    assert verdicts.cause_line(data) == "data: dev.sha256: dev-hash then, other now"


def test_the_first_difference_is_counted_in_steps_and_epochs(tmp_path: Path) -> None:
    """write_run's summary has five epochs: ten losses are two batches per epoch."""
    values = [float(number) for number in range(10)]
    original = reproduce.load_original(write_run(tmp_path, "seed=0", change=losses(values)))
    again = write_run(tmp_path, "seed=0", sweep="again", change=losses([*values[:7], 7.5, *values[8:]]))
    difference = verdicts.compare_bits(original, read_run(again)).first_difference
    assert (difference.step, difference.steps_per_epoch) == (8, 2)
    assert (difference.original, difference.reproduction) == (7.0, 7.5)
    shorter = write_run(tmp_path, "seed=0", sweep="shorter", change=losses(values[:9]))
    difference = verdicts.compare_bits(original, read_run(shorter)).first_difference
    assert (difference.step, difference.original, difference.reproduction) == (10, 9.0, None)


def test_a_single_other_metric_or_hypothesis_is_no_match_and_times_are_not_compared(tmp_path: Path) -> None:
    original, again = pair(tmp_path, seconds=77.0)
    assert verdicts.compare_bits(original, read_run(again)).equal
    edit(again / "metrics.csv", r"\n0,4,,3\.6,0\.9,", "\n0,4,,3.6,0.90001,")
    edit(again / "utterances.csv", r"\btest,0-1-0000,0,([^,]*),", r"test,0-1-0000,0,\1,zz ")
    evidence = verdicts.compare_bits(original, read_run(again))
    assert (evidence.metrics, evidence.hypotheses) == (["validation/dev/wer, epoch 1"], ["test/0-1-0000"])


def checkpoint(weights: dict[str, torch.Tensor], **run: Any) -> Callable[[Path], None]:
    def save(folder: Path) -> None:
        (folder / "checkpoints").mkdir()
        torch.save({"state_dict": weights, "run": run}, folder / "checkpoints" / "last.ckpt")

    return save


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_hash_of_the_weights_sees_one_bit_and_no_order(dtype: torch.dtype, tmp_path: Path) -> None:
    weights = {"a": torch.arange(6).to(dtype).reshape(2, 3), "b": torch.tensor(1).to(dtype)}
    bit = weights["a"].clone()
    bit.view(torch.uint8)[0, 0] ^= 1
    cases = [weights, dict(reversed(weights.items())), {**weights, "a": bit}, {**weights, "a": weights["a"].T}]
    for number, case in enumerate(cases):
        (tmp_path / str(number)).mkdir()
        checkpoint(case)(tmp_path / str(number))
    hashes = [verdicts.weights_hash(tmp_path / str(number)) for number in range(len(cases))]
    assert hashes[0] == hashes[1]
    assert len({*hashes}) == 3


def test_a_config_edited_after_the_run_shows_in_the_checkpoint(tmp_path: Path) -> None:
    folder = write_run(tmp_path, "seed=0", change=losses([1.0]))
    ran = reproduce.load_original(folder).config
    checkpoint({}, config=ran)(folder)
    edit(folder / "config.yaml", "weight_decay: 0.01", "weight_decay: 0.5")
    result = verdict(reproduce.load_original(folder), folder)
    assert result.causes == [verdicts.Cause("config", "optimizer.weight_decay", 0.01, 0.5)]


def test_a_gpu_is_named_as_a_cause_of_other_last_bits(tmp_path: Path) -> None:
    """Not where the run used none, and never as another experiment."""
    for gpus in ("auto", 0):
        folder = write_run(tmp_path / str(gpus), "seed=0", f"gpus={gpus}")
        environment = json.loads((folder / "environment.json").read_text())
        environment["hardware"]["gpus"] = ["NVIDIA H200"]
        (folder / "environment.json").write_text(json.dumps(environment))
        result = verdicts.find_causes(reproduce.load_original(folder), read_run(folder))
        assert result == ([verdicts.ANY_ORDER] if gpus else [])
    assert verdicts.ANY_ORDER.kind not in verdicts.DETERMINING


def test_code_is_compared_by_its_files() -> None:
    original = {"files": {"a.py": "1", "b.py": "1"}, "commit": "x", "dirty_diff": ""}
    for code, expected in (
        ({"files": {"a.py": "2", "c.py": "1"}, "commit": "x"}, ["a.py has changed", "b.py is gone", "c.py is new"]),
        ({"files": {"a.py": "1", "b.py": "1"}, "commit": "y"}, []),
    ):
        result = verdicts.compare_environments(*(parse(Environment, {"code": content}) for content in (original, code)))
        assert [verdicts.cause_line(cause) for cause in result] == [f"code: {line}" for line in expected]


def test_a_run_that_continued_with_other_code_says_so(tmp_path: Path) -> None:
    folder = write_run(tmp_path, "seed=0")
    change_json(
        folder / "environment.json",
        lambda content: content.update(resumed=[{**content, "code": {"files": {"b.py": "1"}}}]),
    )
    causes = verdicts.find_causes(
        reproduce.load_original(write_run(tmp_path, "seed=0", sweep="again")), read_run(folder)
    )
    assert ("code", "b.py") in {(cause.kind, cause.what) for cause in causes}


def test_the_limit_is_that_of_two_runs() -> None:
    """t · √2 · sd: with the four seeds' own sd, 95 of 100 pairs of runs lie within it (ISO 5725-6)."""
    rates = [0.10, 0.11, 0.13, 0.12]
    seed_noise = verdicts.estimate_from_seeds(rates, grain=0.0)
    assert seed_noise.deviation == pytest.approx(np.std(rates, ddof=1))
    assert seed_noise.limit == pytest.approx(T_OF_THREE_DEGREES * np.sqrt(2) * np.std(rates, ddof=1), rel=1e-6)
    two_sets = verdicts.estimate_from_seeds(rates, grain=0.0, sets=2)
    assert two_sets.limit == pytest.approx(T_FOR_TWO_SETS * np.sqrt(2) * np.std(rates, ddof=1), rel=1e-6)
    draws = np.random.default_rng(0).normal(0.1, 0.01, size=(2000, 6))
    limits = [verdicts.estimate_from_seeds(runs[:4].tolist(), 0.0).limit for runs in draws]
    within = [limit is not None and abs(runs[4] - runs[5]) <= limit for runs, limit in zip(draws, limits, strict=True)]
    assert np.mean(within) == pytest.approx(0.95, abs=0.015)
    # four sets whose seeds are independent of each other, the worst case: 3,000 pairs, 5 % + 2 standard errors
    draws = np.random.default_rng(1).normal(0.1, 0.01, size=(3000, 4, 8))
    alarms = 0
    for sets in draws:
        limits = [verdicts.estimate_from_seeds(runs[:6].tolist(), 0.0, sets=4).limit for runs in sets]
        alarms += any(limit is None or abs(r[6] - r[7]) > limit for r, limit in zip(sets, limits, strict=True))
    assert alarms / len(draws) <= 0.05 + 2 * np.sqrt(0.05 * 0.95 / len(draws))
    limit = verdicts.estimate_from_seeds([0.1, 0.1, 0.1, 0.1], grain=0.01).limit
    assert limit == pytest.approx(T_OF_THREE_DEGREES * np.sqrt(2) * 0.01 / np.sqrt(12), rel=1e-6)


def test_what_nothing_explains_is_no_drift_and_damaged_losses_are_refused(tmp_path: Path) -> None:
    """On a CPU the same code, data, versions and threads give the same bits: something was changed."""
    result = verdict(*pair(tmp_path, change=losses([3.0, 2.5, 2.0000002, 1.5])))
    assert (result.name, result.causes) == (verdicts.DIFFERS, [])
    assert "though nothing else differs" in result.why
    folder = write_run(tmp_path, "seed=9", change=lambda path: write(path / "losses.csv", "batch,loss\n0,low\n"))
    with pytest.raises(UsageError, match=r"losses\.csv"):
        reproduce.load_original(folder)


CHANGE = """diff --git a/src/evil.py b/src/evil.py
new file mode 100644
--- /dev/null
+++ b/src/evil.py
@@ -0,0 +1 @@
+import os
"""


def git(repository: Path, *arguments: str) -> str:
    done = subprocess.run(["git", "-C", str(repository), *arguments], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def commit_all(repository: Path) -> None:
    git(repository, "init", "--quiet")
    git(repository, "add", ".")
    git(repository, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "--quiet", "--message=a")


def test_a_checkout_has_the_recorded_commit_and_its_uncommitted_changes(tmp_path: Path) -> None:
    (tmp_path / "kept.py").write_text("before")
    commit_all(tmp_path)
    commit = git(tmp_path, "rev-parse", "HEAD")
    (tmp_path / "kept.py").write_text("after")
    for diff, added in (("", False), (CHANGE, True)):
        with reproduce.checked_out(tmp_path, Code(commit=commit, dirty_diff=diff)) as tree:
            assert (tree / "kept.py").read_text() == "before"
            assert (tree / "src" / "evil.py").exists() == added
        assert not tree.exists()
    with (
        pytest.raises(UsageError, match="uncommitted changes do not apply"),
        reproduce.checked_out(tmp_path, Code(commit=commit, dirty_diff=CHANGE.replace("new file", "old file"))),
    ):
        raise AssertionError("the code of another state was run")


def test_a_checkout_has_what_ran_whatever_the_settings_of_git(tmp_path: Path) -> None:
    changed = {
        "src/asr_verdicts/text.py": b"clean = 2\n",
        "src/asr_ablations/kept.py": b"# J\xf6rg\r\nbefore = 2\r\n",
        "src/asr_ablations/rnn/mine.py": "zażółć = 1\n".encode(),
        "src/asr_ablations/native/step.cpp": b"\x00\xff",
        "conf/rnn/mine ż.yaml": b"_target_: mine",
        "conf/config.yaml": b"rnn: mine\n",
    }
    settings = (
        "diff.external=false", "diff.context=0", "color.diff=always", "diff.noprefix=true", "diff.renames=copies",
        "diff.relative=true", "diff.mnemonicPrefix=true", "diff.x.textconv=wc", "diff.interHunkContext=9",
        f"core.attributesFile={tmp_path}/attributes",
    )  # fmt: skip
    (tmp_path / "attributes").write_text("*.yaml diff=x")
    repository = tmp_path / 'a:b "c" ż'

    def write_all(contents: dict[str, bytes]) -> None:
        for name, content in contents.items():
            (repository / name).parent.mkdir(parents=True, exist_ok=True)
            (repository / name).write_bytes(content)

    first = {name: b"first\n" for name in changed if "mine" not in name}
    write_all({**first, "src/asr_ablations/native/step.h": b"h"})
    commit_all(repository)
    for setting in settings:
        git(repository, "config", *setting.split("="))
    write_all(changed)
    git(repository, "add", "src/asr_ablations/kept.py")  # staged or not
    before = sorted(repository.rglob(".git/**/*"))
    if os.getuid() == 0:
        os.chown(repository, 12345, 12345)  # git calls this ownership dubious
    recorded = commit(repository)
    assert sorted(repository.rglob(".git/**/*")) == before
    write_json(tmp_path / "code.json", recorded)
    with reproduce.checked_out(repository, Code(**read_json(tmp_path / "code.json"))) as tree:
        assert {name: (tree / name).read_bytes() for name in changed} == changed


def test_recorded_code_is_named_and_a_strangers_runs_only_when_trusted(
    tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    folder = write_run(tmp_path)
    code = {"commit": "0123456789" * 4, "dirty_diff": CHANGE}
    change_json(folder / "environment.json", lambda content: content.update(code=code))
    reproduce.announce(reproduce.load_original(folder), tmp_path, trust=False)
    said = f"--checkout runs commit {code['commit']}, with uncommitted changes of src/evil.py\n"
    assert capsys.readouterr().out == said
    change_json(folder / "status.json", lambda content: content.update(host="another"))
    with pytest.raises(UsageError, match="written on the machine 'another'; --trust"):
        reproduce.announce(reproduce.load_original(folder), tmp_path, trust=False)
    assert "src/evil.py" in capsys.readouterr().out, "said before it is asked"
    reproduce.announce(reproduce.load_original(folder), tmp_path, trust=True)
    for name in ("--upload-pack=touch x", "HEAD", "0" * 39, "0" * 40 + "\n"):
        change_json(folder / "environment.json", lambda content, name=name: content["code"].update(commit=name))
        with pytest.raises(UsageError, match="names no commit"):
            reproduce.announce(reproduce.load_original(folder), tmp_path, trust=True)


SECRET = "s3cr3t-hunter2"
READ = "${oc.env:MY_TOKEN}"


def test_an_interpolation_in_a_strangers_run_is_refused_and_never_resolved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_TOKEN", SECRET)
    folder = write_run(tmp_path)
    file = folder / "config.yaml"
    text = file.read_text()
    for old, new in (
        ("arm: null", f"arm: {READ}"), ("- data=an4", f"- seed={READ}"), ("tf32: false", "tf32: ${oc.${arm}:MY_TOKEN}"),
        ("tf32: false", f"tf32: false\n? {READ}\n: 1"),
    ):  # fmt: skip
        assert old in text
        file.write_text(text.replace(old, new))
        (unfinished,) = load([folder]).unfinished
        assert "an interpolation" in unfinished.reason
        for read in (reproduce.load_original, checked_config, lambda run: load_frozen(run / "config.yaml")):
            with pytest.raises(UsageError, match="an interpolation") as refused:
                read(folder)
            assert SECRET not in str(refused.value)


def test_what_a_stranger_wrote_reads_no_variable_of_the_users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An interpolation in a checkpoint stays a text; in a folder of configs that a record names it fails."""
    monkeypatch.setenv("MY_TOKEN", SECRET)
    config = {"seed": 1, "dropout": READ, "gpus": 0}
    folder = write_run(tmp_path, change=checkpoint({"a": torch.ones(1)}, config=config))
    edits = {cause.what: cause.original for cause in verdicts.find_edits(reproduce.load_original(folder))}
    assert edits["dropout"] == READ
    monkeypatch.setenv("MY_TOKEN", SECRET)
    node = OmegaConf.create({"question": "${oc.env:MY_TOKEN,none}", "root": "${oc.env:HOME}"})
    with reproduce.restrict_environment():
        assert node.root == os.environ["HOME"]
        with pytest.raises(OmegaConfBaseException, match="MY_TOKEN") as refused:
            OmegaConf.resolve(node)
    assert SECRET not in str(refused.value)
    assert node.question == SECRET  # outside, the user's own files read what they like


def test_two_reproductions_at_once_have_two_folders_and_an_interrupted_one_continues(tmp_path: Path) -> None:
    original = reproduce.load_original(write_run(tmp_path / "outputs"))
    home = tmp_path / "reproductions" / original.folder.parent.name / original.folder.name
    with (
        reproduce.open_attempt(original, tmp_path / "reproductions", checkout=False) as first,
        reproduce.open_attempt(original, tmp_path / "reproductions", checkout=False) as second,
        reproduce.open_attempt(original, tmp_path / "reproductions", checkout=True) as checkout,
    ):
        assert [first, second, checkout] == [home / "1", home / "2", home / "1-checkout"]
        write_json(second / "reproduction.json", {})
    for expected in ("1", "1"):  # without a verdict
        with reproduce.open_attempt(original, tmp_path / "reproductions", checkout=False) as attempt:
            assert attempt == home / expected
    write_json(home / "1" / "reproduction.json", {})
    with reproduce.open_attempt(original, tmp_path / "reproductions", checkout=False) as attempt:
        assert attempt == home / "3"

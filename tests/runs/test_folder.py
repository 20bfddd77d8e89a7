"""The folder of a run, a run that is planned, and the names of arms."""

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf import DictConfig, OmegaConf, open_dict

from asr_ablations.runs.folder import Run
from asr_ablations.runs.identity import identity, name_sweep, short_name
from asr_ablations.runs.layout import STANDING, SWEEP
from asr_ablations.runs.lease import LeaseHeldError, owner
from asr_ablations.runs.records import damage
from asr_ablations.runs.sweep_history import PlannedRun, planned_run, read_plan
from asr_verdicts.arms import by_arm, find_arm, name_of
from asr_verdicts.config import MACHINE_KEYS
from asr_verdicts.errors import UsageError
from asr_verdicts.files import write, write_csv, write_json
from asr_verdicts.plan import PlannedArm
from tests.helpers.invented_records import config
from tests.helpers.planned import plan
from tests.helpers.support import another, compose, group_options, groups


def test_the_same_config_has_one_identity_and_one_folder(tmp_path: Path) -> None:
    """Whatever the order of its keys, and resolved or not."""
    cfg = compose()
    backwards = OmegaConf.create(dict(reversed(list(OmegaConf.to_container(cfg, resolve=True).items()))))
    assert identity(cfg) == identity(compose()) == identity(backwards)
    assert len(identity(cfg)) == 8
    first, second = (compose("seed=1", f"outputs={tmp_path}", "sweep=s") for _ in range(2))
    first.overrides, second.overrides = ["rnn=lstm", "norm=batch"], ["norm=batch", "rnn=lstm"]
    assert Run(first).folder != Run(second).folder
    Run(first).folder.mkdir(parents=True)
    assert Run(second).folder == Run(first).folder


def test_other_data_another_behaviour_and_how_many_train_together_are_part_of_the_identity(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each process brings its own batch; one on a GPU or on the CPU is the same experiment."""
    one = {identity(compose(f"gpus={gpus}")) for gpus in ("auto", 0, 1)}
    two = {identity(compose(*overrides)) for overrides in (["gpus=2"], ["gpus=2", "ranks=2"], ["gpus=0", "ranks=2"])}
    assert len(one) == len(two) == 1
    assert one != two
    cfg = compose()
    assert len({identity(cfg), identity(cfg, "a"), identity(cfg, "b")}) == 3
    before = identity(cfg)
    monkeypatch.setattr("asr_ablations.runs.identity.BEHAVIOUR", 1000)
    assert identity(cfg) != before


def test_names_tell_the_experiment_and_what_varies_and_never_lose_the_seed() -> None:
    overrides = [
        "rnn=gru", "workers=2", "seed=1", "logger=csv", "outputs=x", "data.root=/x", "sweep=a", "progress=false",
    ]  # fmt: skip
    assert short_name(overrides) == "rnn-gru+seed-1"
    assert short_name(["workers=2"]) == "default"
    assert short_name(["weights=/home/me/outputs/s/rnn-gru-0123abcd/", "seed=1"]) == "weights-rnn-gru-0123abcd+seed-1"
    constant = ["max_epochs=4", "data.test=[test-clean]", "gpus=0"]
    assert short_name(["rnn=gru", "seed=3", *constant], constant) == "rnn-gru+seed-3"
    assert short_name(["gpus=2", "seed=3", "max_epochs=4"], ["max_epochs=4"]) == "gpus-2+seed-3"
    assert short_name(["gpus=2", "rnn=gru"]) == "rnn-gru"
    assert short_name(constant, constant) == "default"
    long = [f"model.convolutions.{number}.channels={number}" for number in range(9)]
    names = [short_name([*long, f"seed={seed}"], ["gpus=0"]) for seed in (1, 204)]
    assert names[0].endswith("+seed-1")
    assert names[1].endswith("+seed-204")
    assert all(len(name) <= 80 for name in names)


def test_a_sweep_is_named_by_what_varies_if_it_needs_be_short() -> None:
    varied = ["rnn=lstm,gru", "seed=0,1"]
    assert name_sweep(["precision=16", *varied, "workers=2"], varied) == "rnn-lstm-gru+seed-0-1+precision-16"
    assert name_sweep(["logger=csv"], []) == "default"
    constant = [f"data.{name}=1" for name in ("hours", "words", "test_speakers", "validation_speakers")]
    name = name_sweep([*constant, *varied], varied)
    assert re.fullmatch("rnn-lstm-gru[+]seed-0-1-[0-9a-f]{4}", name)
    assert name == name_sweep([*reversed(varied), *constant], varied) != name_sweep([*constant[1:], *varied], varied)
    long = [f"model.convolutions.{number}.channels=1,2" for number in range(9)]
    assert re.fullmatch(r"model.convolutions.0.channels-1-2-[0-9a-f]{4}", name_sweep(long, long))


@pytest.fixture
def cfg(tmp_path: Path) -> DictConfig:
    made = compose("seed=5", f"outputs={tmp_path}", "sweep=test")
    made.overrides = ["seed=5"]
    return made


def test_an_arm_of_a_list_is_called_by_its_name_and_the_folder_keeps_what_it_is_called(cfg: DictConfig) -> None:
    with open_dict(cfg):
        cfg.arm, cfg.overrides = "no norm", ["seed=7", "arm='no norm'", "norm=none", "max_epochs=4"]
    run = Run(cfg, "", ["max_epochs=4"])
    assert run.name == "no-norm+norm-none+seed-7"
    run.folder.mkdir(parents=True)
    assert Run(cfg).name == run.name


def status(folder: Path) -> dict[str, Any]:
    told: dict[str, Any] = json.loads((folder / "status.json").read_text())
    return told


def test_the_record_repeats_the_run(cfg: DictConfig) -> None:
    with Run(cfg) as run:
        pass
    kept = OmegaConf.load(run.folder / "config.yaml")
    assert OmegaConf.to_container(kept) == OmegaConf.to_container(cfg, resolve=True)
    assert Run(kept).folder == run.folder
    assert (run.folder / "overrides").read_text() == "seed=5\n"


def test_earlier_folders_of_the_same_run_are_kept(cfg: DictConfig) -> None:
    for number in range(3):
        Run(cfg).keep_previous()
        with Run(cfg) as run:
            (run.folder / "mark").write_text(str(number))
    kept = {
        folder.name.removeprefix(run.folder.name): (folder / "mark").read_text()
        for folder in run.folder.parent.iterdir()
        if not folder.name.startswith(".")
    }
    assert kept == {"": "2", ".1": "0", ".2": "1"}


def test_what_a_killed_attempt_has_left_half_written_is_removed(cfg: DictConfig) -> None:
    run = Run(cfg)
    run.checkpoints.mkdir(parents=True)
    half = [run.folder / ".summary.json.4711", run.checkpoints / ".last.ckpt.4711", run.folder / ".rows.npy.12.npy"]
    kept = [run.folder / ".hidden", run.checkpoints / "last.ckpt", run.folder / "notes.12"]
    for path in (*half, *kept):
        path.touch()
    with Run(cfg):
        assert [path.name for path in half if path.exists()] == []
        assert [path for path in kept if path.exists()] == kept


def test_an_arm_that_was_killed_before_it_began_is_not_damaged(cfg: DictConfig) -> None:
    """Its launcher has said so, and nothing else is there."""
    folder = Run(cfg).folder
    folder.mkdir(parents=True)
    write_json(folder / "status.json", {"status": "failed", "reason": "killed by SIGTERM"})
    write(folder / "output.log", "printed")
    assert damage(folder) is None
    write(folder / "config.yaml", "seed: 0")  # what a run writes first
    assert damage(folder) is None
    with Run(cfg):
        pass
    (folder / "config.yaml").unlink()
    write_json(folder / "status.json", {"status": "failed", "reason": "killed by SIGTERM"})
    assert "config.yaml is missing" in str(damage(folder))


def test_a_run_that_another_process_has_just_ended_does_not_run_again(cfg: DictConfig) -> None:
    late = Run(cfg)
    assert late.status() is None
    with Run(cfg) as run:
        pass
    before = {path.name: path.read_text() for path in run.folder.glob("*.*")}
    with pytest.raises(LeaseHeldError, match="another process has just finished it"), late:
        pass
    assert {path.name: path.read_text() for path in run.folder.glob("*.*")} == before
    assert owner(run.folder) is None


def test_a_folder_of_another_content_is_refused_with_the_difference(cfg: DictConfig) -> None:
    with Run(cfg) as run:
        pass
    other = cfg.copy()
    other.dropout, other.progress = 0.25, not cfg.progress
    write(run.folder / "config.yaml", OmegaConf.to_yaml(other, resolve=True))
    with pytest.raises(UsageError, match=r"\(dropout: 0.25 there, 0.0 now; "):
        Run(cfg).status()


def changed(key: str, value: Any) -> DictConfig:
    cfg = compose()
    OmegaConf.update(cfg, key, value, force_add=True)
    return cfg


def test_every_value_that_can_change_the_result_is_part_of_the_identity_and_none_of_the_machine() -> None:
    machine = {
        "sweep": "other", "ablation": {"question": "why?"}, "overrides": ["a=1"], "outputs": "elsewhere", "workers": 3,
        "progress": False, "force": True, "plan": True, "threads": 2, "checkpoint_minutes": 1,
        "utilisation_seconds": 0.03, "transcripts.every": 50, "transcripts.utterances": 1,
        "pruning": {"_target_": "asr_ablations.components.pruning.median.MedianStopping"},
        "until": {"_target_": "asr_ablations.components.until.verdict.UntilVerdict"}, "arms": [{}, {"norm": "none"}],
        "arm": "full", "hardware.price_per_hour": 2.5, "data.root": "elsewhere",
        "data.download": {"address": "elsewhere"},
    }  # fmt: skip
    default = identity(compose())
    assert [key for key, value in machine.items() if identity(changed(key, value)) != default] == []
    assert {identity(compose(f"logger={logger}")) for logger in group_options("logger")} == {default}

    def leaves(node: Any, prefix: str = "") -> Iterator[str]:
        """Dotted keys of all values but those of the machine."""
        for key, value in node.items() if isinstance(node, dict) else enumerate(node):
            path = f"{prefix}{key}"
            if path in (*machine, "logger", "gpus", "ranks", "cache.root", "cache.gigabytes", "weights"):
                continue
            yield from leaves(value, f"{path}.") if isinstance(value, (dict, list)) else [path]

    cfg = compose()
    keys = [*leaves(OmegaConf.to_container(cfg, resolve=True))]
    assert len(keys) > 50
    for key in keys:
        value = OmegaConf.select(cfg, key)
        other = another(value) if isinstance(value, (bool, int, float)) else f"{value}x"
        other = "pl" if key == "data.language" else other  # which alphabet depends on
        assert identity(changed(key, other)) != default, key


def test_another_option_of_a_group_is_another_run() -> None:
    for group in groups():
        if group not in MACHINE_KEYS:
            options = [name for name in group_options(group) if name != "language"][:2]  # which is another alphabet
            assert len({identity(compose(f"{group}={name}")) for name in options}) == len(options), group
    assert identity(compose("alphabet=en")) == identity(compose()), "named, or chosen by the language"


def test_folders_are_safe_names_and_unquoted_overrides(tmp_path: Path) -> None:
    convolutions = "model.convolutions=[{channels: 4, kernel: [3,3], stride: [1,1]}]"
    many = ["data=an4", *(f"key{i}=value{i}" for i in range(40))]
    cases: list[tuple[list[str], str | int]] = [
        *((["rnn=gru", "seed=1"], sweep) for sweep in ("single", "rnn type", "ć/../x", 2024)), ([], "rnn type"),
        (["optimizer.betas=[0.9,0.99]", "+new=1", "++other=2", "~gone", "alphabet.characters='a b'"], "single"),
        (["data.root=/a b/ć", "seed=3"], "single"), ([convolutions], "single"), (many, "ć/../x"),
        (["x='..'", "y=$y;rm"], "single"),
    ]  # fmt: skip
    for overrides, sweep in cases:
        cfg = changed("overrides", overrides)
        cfg.sweep, cfg.outputs = sweep, str(tmp_path)
        run = Run(cfg)
        assert run.folder.parent.parent == tmp_path
        assert run.folder.name.endswith(f"-{run.id}")
        assert len(run.folder.name) < 120
        run.folder.mkdir(parents=True, exist_ok=True)
        relative = str(run.folder.relative_to(tmp_path))
        (parsed,) = OverridesParser.create().parse_overrides([f"run={relative}"])
        assert parsed.value() == relative


def test_a_run_says_what_becomes_of_it(cfg: DictConfig) -> None:
    assert Run(cfg).status() is None
    memory = "DefaultCPUAllocator: can't allocate memory"

    def fail(run: Run, error: BaseException) -> None:
        assert (run.status(), status(run.folder)["status"]) == ("running", "running")
        assert status(run.folder)["pid"] > 0
        raise error

    errors: list[tuple[BaseException, str]] = [
        (RuntimeError("a\nreason"), "RuntimeError: a reason"), (KeyboardInterrupt(), "interrupted"),
        (RuntimeError(memory), f"out of memory: RuntimeError: {memory}"), (SystemExit(3), "SystemExit: 3"),
    ]  # fmt: skip
    for error, reason in errors:
        run = Run(cfg)
        with pytest.raises(type(error)), run:
            fail(run, error)
        assert run.status() == "failed"
        assert (status(run.folder)["status"], status(run.folder)["reason"]) == ("failed", reason)
    with Run(cfg) as again:
        pass
    assert again.status() == "done"
    assert "reason" not in status(again.folder)
    assert len(json.loads((again.folder / "environment.json").read_text())["resumed"]) == len(errors)


def test_a_file_that_is_there_is_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def crash(self: Path, target: Path) -> None:
        assert self.parent == target.parent, "a rename across file systems is none"
        raise KeyboardInterrupt

    path = tmp_path / "file"
    writers: list[tuple[Any, str]] = [
        (lambda: write(path, "zażółć\n"), "zażółć\n"),
        (lambda: write_json(path, {"a": "ż"}), '{\n  "a": "ż"\n}\n'),
        (lambda: write_csv(path, [{"a": 1, "b": 'x, "y"'}]), 'a,b\n1,"x, ""y"""\n'),
    ]
    for write_it, expected in writers:
        path.write_text("before", encoding="utf-8")
        with monkeypatch.context() as patched:
            patched.setattr(Path, "replace", crash)
            with pytest.raises(KeyboardInterrupt):
                write_it()
        assert path.read_text(encoding="utf-8") == "before"
        write_it()
        assert path.read_text(encoding="utf-8").replace("\r\n", "\n") == expected


def test_a_planned_run_is_counted_from_its_look_on(tmp_path: Path) -> None:
    """Looks at 3, 5 and 8 seeds; its state is that of its arm after the look before."""
    write_json(tmp_path / SWEEP, {"plan": plan(["lstm", "gru"]).as_json()})
    for seed, look in ((0, 1), (2, 1), (3, 2), (4, 2), (5, 3), (7, 3)):
        assert planned_run(tmp_path / "run", config("rnn=gru", seed)) == PlannedRun(look, 3, "rnn=gru", "open")
    assert planned_run(tmp_path / "run", config("rnn=gru", 8)) is None, "no look counts this seed"
    assert planned_run(tmp_path / "run", config("rnn=sru", 0)) is None
    assert planned_run(tmp_path / "elsewhere" / "run", config("rnn=gru", 0)) is None
    write_json(tmp_path / STANDING, {"arms": {"rnn=lstm": {"state": "decided"}, "rnn=gru": {"state": "worse"}}})
    states = {name: planned_run(tmp_path / "run", config(f"rnn={name}", 3)) for name in ("lstm", "gru")}
    assert {name: run.state for name, run in states.items() if run} == {"lstm": "decided", "gru": "worse"}
    for text in ("", "{}", '{"arms": []}', '{"arms": {"gru": 1}}'):
        (tmp_path / STANDING).write_text(text)
        run = planned_run(tmp_path / "run", config("rnn=gru", 3))
        assert run is not None
        assert run.state == "open"
    for text in ("[]", "{", '{"plan": {"arms": 3}}'):
        (tmp_path / SWEEP).write_text(text)
        assert planned_run(tmp_path / "run", config("rnn=gru", 0)) is None


def test_an_arm_is_named_by_its_keys_and_found_by_either_spelling() -> None:
    assert name_of({"order": "shuffled", "norm": "none"}) == "order=shuffled, norm=none"
    assert name_of({"arm": "no batch norm"}) == "no batch norm"
    assert (name_of({"system": "mine"}), name_of({})) == ("mine", "all")
    norms = [{"norm": norm, "batch.size": size} for norm, size in (("none", "8"), ("batch", "8"), ("layer", "16"))]
    crossed = [{"order": order, "norm": norm} for order in ("shuffled", "sortagrad") for norm in ("none", "batch")]
    lists = [{"data.train": "[clean100, clean360]"}, {"data.train": "[clean100]"}]

    def arms(choices: list[dict[str, str]]) -> list[PlannedArm]:
        return [PlannedArm(levels, [], {}) for levels in choices]

    cases: list[tuple[list[dict[str, str]], str, str | None]] = [
        (norms, "none", "norm=none, batch.size=8"), (norms, "norm=none", "norm=none, batch.size=8"),
        (norms, "norm=none, batch.size=8", "norm=none, batch.size=8"),
        (norms, "batch.size=16", "norm=layer, batch.size=16"),
        (norms, "8", None),  # two arms have it
        (norms, "nones", None), (norms, "", None), (crossed, "sortagrad,batch", "order=sortagrad, norm=batch"),
        (crossed, "norm=batch, order=sortagrad", "order=sortagrad, norm=batch"), (crossed, "sortagrad", None),
        (lists, "[clean100, clean360]", "data.train=[clean100, clean360]"),
    ]  # fmt: skip
    for choices, name, meant in cases:
        found = find_arm(name, arms(choices))
        assert (None if found is None else found.name) == meant
    said = {"none": 1, "norm=layer": 2, "Kaldi": 3}
    assert by_arm(said, arms(norms)) == {"norm=none, batch.size=8": 1, "norm=layer, batch.size=16": 2, "Kaldi": 3}


def test_a_plan_may_name_its_arms_by_their_choices_alone(tmp_path: Path) -> None:
    whole = plan(["lstm", "gru"])
    short = {**whole.as_json(), "baseline": "lstm", "contrasts": ["gru"]}
    write_json(tmp_path / "sweep.json", {"plan": short})
    assert read_plan(tmp_path) == whole
    assert replace(whole, baseline="lstm") != whole

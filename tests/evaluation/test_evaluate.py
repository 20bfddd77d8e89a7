"""The evaluation of a checkpoint, and its record."""

import csv
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from omegaconf import DictConfig, OmegaConf

from asr_ablations.comparison.folders import compare_folders
from asr_ablations.components.decoder.beam import split_batch
from asr_ablations.config.build import build
from asr_ablations.data.alphabet import Letters
from asr_ablations.data.utterances import Utterance
from asr_ablations.evaluation import evaluate as job
from asr_ablations.evaluation.evaluate import evaluate
from asr_ablations.evaluation.outputs import halved
from asr_ablations.evaluation.request import check_requests
from asr_ablations.experiment.utterances import utterance_row
from asr_ablations.runs.reader import NEEDED_COLUMNS
from asr_ablations.training.auxiliary import Activations, auxiliary_of
from asr_ablations.training.task import CTCTask
from asr_ablations.training.trained_model import load_run
from asr_verdicts.design import Options
from asr_verdicts.errors import UsageError
from asr_verdicts.record import rates
from asr_verdicts.table_columns import rate_rows
from tests.helpers.small_models import bigrams, lists
from tests.helpers.support import CONF, composed_by_hydra
from tests.helpers.trained_runs import write_trained

WORDS = ["a", "cab", "bad", "dad", "bed", "had", "be", "dab", "faded", "bee"]


def request(run: Path, *overrides: str) -> DictConfig:
    words = [f"run={run}", "processes=1", *overrides]
    cfg = composed_by_hydra(tuple(words), "evaluation")
    cfg.overrides = words
    check_requests(cfg)
    return cfg


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory: pytest.TempPathFactory, tiny_corpus: Path) -> Path:
    return write_trained(tmp_path_factory.mktemp("job"), tiny_corpus)


def evaluated(run: Path, *overrides: str) -> dict[str, Any]:
    ((evaluation,),) = evaluate([request(run, *overrides)])
    content: dict[str, Any] = json.loads((run / "evaluations" / f"{evaluation.name}.json").read_text())
    return {**content, "file": run / "evaluations" / f"{evaluation.name}.json"}


def test_a_record_is_whole(run_folder: Path) -> None:
    record = evaluated(run_folder, "processes=2")
    assert (record["name"], record["checkpoint"], record["test_sets"]) == ("greedy", "last.ckpt", ["test"])
    assert {name: result["utterances"] for name, result in record["sets"].items()} == {"dev": 6, "test": 2}
    file = record["file"]
    times = json.loads((file.parent / "timing" / file.name).read_text())
    assert times.keys() == record["sets"].keys()
    for name, result in record["sets"].items():
        own = times[name]
        assert own["real_time_factor"] == pytest.approx(
            (own["forward_seconds"] + own["decode_seconds"]) / result["audio_seconds"]
        )
        assert own["utterances_per_second"] == pytest.approx(result["utterances"] / own["decode_seconds"])
        assert own["processes"] == 2
        assert 0 <= result["cer_longer"] <= min(1.0, result["cer"])
    stem = str(record["file"]).removesuffix(".json")
    with open(f"{stem}.utterances.csv", newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [(row["set"], row["id"]) for row in rows] == sorted((row["set"], row["id"]) for row in rows)
    assert len({row["id"] for row in rows}) == len(rows) == 8
    errors = sum(
        int(row[key]) for row in rows for key in ("substitutions", "deletions", "insertions") if row["set"] == "dev"
    )
    assert errors == round(record["sets"]["dev"]["wer"] * record["sets"]["dev"]["words"])


def test_the_same_evaluation_gives_the_same_bytes(run_folder: Path) -> None:
    """In another number of processes, which changes the times alone."""
    words = ["decoder=beam", "decoder.beam_width=5", "untrained=decode", "sets=test"]

    def files(processes: int) -> dict[str, bytes]:
        ((evaluation,),) = evaluate([request(run_folder, *words, f"processes={processes}")])
        assert {times["processes"] for times in evaluation.times.values()} == {processes}
        return {path.name: path.read_bytes() for path in (run_folder / "evaluations").iterdir() if path.is_file()}

    assert files(2) == files(1)


def test_an_untrained_model_is_not_searched_unless_asked(run_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    skipped = request(run_folder, "decoder=beam", "decoder.beam_width=77")
    assert [len(evaluations) for evaluations in evaluate([skipped, request(run_folder)])] == [0, 1]
    output = capsys.readouterr().out
    assert "too little for decoder=beam (untrained=decode decodes it anyway)" in output
    assert output.count("a greedy WER of") == 1  # a greedy evaluation is not skipped
    assert "beam_width=77" not in output, "the row of another request has the overrides of the skipped one"


def test_the_acoustic_model_runs_once_for_all_arms(run_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    evaluate([request(run_folder, "sets=test")])
    monkeypatch.setattr(CTCTask, "forward", lambda *_: pytest.fail("the model ran again"))
    words = ["decoder=beam", "untrained=decode", "sets=test"]
    arms = [request(run_folder, *words, f"decoder.beam_width={n}") for n in (2, 8)]
    assert len({evaluation.name for (evaluation,) in evaluate(arms)}) == 2


def test_attention_chooses_among_the_texts_of_the_beam(tmp_path: Path, tiny_corpus: Path, run_folder: Path) -> None:
    """As a direct computation does: the layer's outputs, the beam's texts, and the sum of both log-probabilities."""
    attention = ("auxiliary=attention", "auxiliary.layer=recurrent.0", "auxiliary.heads=1", "auxiliary.smoothing=0")
    run = write_trained(tmp_path, tiny_corpus, *attention)
    words = ["decoder=attention_rescored", "decoder.beam_width=6", "untrained=decode", "sets=test"]
    trained = load_run(run, "last")
    beam = build(request(run, "decoder=beam", "decoder.beam_width=6").decoder)(trained.task.alphabet)
    head: Any = auxiliary_of(trained.task.model)
    scores: dict[str, list[tuple[str, float, float]]] = {}  # of an utterance: text, log P_ctc, log P_attention
    trained.data.read("test")
    for batch in trained.data.evaluation_dataloader("test"):
        with torch.no_grad(), Activations(trained.task.model) as kept:
            outputs, lengths = trained.task(batch)
        layer = kept.take()
        assert layer is not None
        for id_, row, output, length in zip(batch.ids, outputs, layer, lengths.tolist(), strict=True):
            log_probs = torch.from_numpy(halved(row[:length].numpy()).astype("float32"))
            (searched,) = split_batch(log_probs[None], torch.tensor([length]), beam.alphabet)
            for text, log_p in beam.best_texts(searched).items():
                labels = beam.alphabet.encode(text)
                single = replace(batch, targets=torch.tensor(labels), target_lengths=torch.tensor([len(labels)]))
                nats = head(output[None, :length], torch.tensor([length]), single).item() * max(1, len(labels))
                scores.setdefault(id_, []).append((text, log_p, -nats))
    chosen = []
    for weight in (0.0, 0.4, 1.0):
        file = evaluated(run, *words, f"decoder.weight={weight}")["file"]
        with open(str(file).replace(".json", ".utterances.csv"), newline="", encoding="utf-8") as rows:
            chosen.append({row["id"]: row["hypothesis"] for row in csv.DictReader(rows)})
        assert chosen[-1] == {
            id_: max(texts, key=lambda text: (1 - weight) * text[1] + weight * text[2])[0]
            for id_, texts in scores.items()
        }
    assert chosen[0] != chosen[2], "attention has a say"
    with pytest.raises(UsageError, match="decoder=attention_rescored: expected a run with auxiliary=attention"):
        evaluate([request(run_folder, *words)])


def test_weights_are_tuned_on_dev_and_travel_with_the_model(run_folder: Path) -> None:
    file = bigrams("job.arpa", WORDS)
    words = ["decoder=beam_lm", f"decoder.lm={file}", "decoder.beam_width=3", "untrained=decode", "sets=test"]
    words.append("tune.trials=6")
    record = evaluated(run_folder, *words)
    tuning = record["tuning"]
    assert (tuning["set"], tuning["trials"]) == ("dev", 6)
    assert {key: record["decoder"][key] for key in ("alpha", "beta")} == tuning["chosen"]
    assert tuning["wer"] <= tuning["wer_untuned"]
    assert record["files"]["lm"]["name"] == "job.arpa"
    assert len(record["files"]["lm"]["sha256"]) == 64
    stem = run_folder / tuning["file"].removesuffix(".json")
    trials = list(csv.DictReader(Path(f"{stem}.csv").read_text().splitlines()))
    assert float(trials[0]["alpha"]) == 0.5  # the first is what the yaml says
    best = min(trials, key=lambda row: (float(row["wer"]), float(row["cer"])))
    assert float(best["alpha"]) == tuning["chosen"]["alpha"]
    pruned = evaluated(run_folder, *words[:-1], "tune.trials=3", "tune.prune_beams=[4.0,20.0]")
    assert set(pruned["tuning"]["chosen"]) == {"alpha", "beta", "prune_beams"}


def test_a_test_set_under_another_name_is_not_tuned_on(tmp_path: Path, tiny_corpus: Path) -> None:
    """A validation set whose audio is a test set's."""
    root = tmp_path / "corpus"
    root.mkdir()
    for name, target in {"train": "train", "dev": "test", "test": "test"}.items():
        (root / name).symlink_to(tiny_corpus / target)
    run = write_trained(tmp_path, root)
    with pytest.raises(UsageError, match="shares utterances with the test set test"):
        evaluate([request(run, "decoder=beam_lm", f"decoder.lm={bigrams('job.arpa', WORDS)}", "tune.trials=2")])


def test_decoders_are_compared_as_arms(tmp_path: Path, tiny_corpus: Path) -> None:
    run = write_trained(tmp_path, tiny_corpus)
    record_as_a_run(run)
    words = lists(Letters("abdecfh "), 1)[0]
    arms = [
        [],
        ["decoder=beam", "decoder.beam_width=2"],
        ["decoder=beam", "decoder.beam_width=4"],
        ["decoder=lexicon", f"decoder.words={words}", "processes=2"],
    ]
    evaluate([request(run, "untrained=decode", "sets=test", *arm) for arm in arms])
    comparison = compare_folders([run / "evaluations"], Options())
    assert comparison.design.layout.factor == ["decoder"]
    names = {"greedy", "beam-beam_width-2", "beam-beam_width-4", "lexicon"}
    assert {arm.name for arm in comparison.arms} == {f"decoder={name}" for name in names}
    assert {row["set"] for row in rate_rows(comparison)} == {"test"}
    assert len(comparison.verdicts) == 3


def record_as_a_run(run: Path) -> None:
    """Write what compare needs of a run beside its checkpoints."""
    (run / "summary.json").write_text('{"sets": {}, "test_sets": ["test"], "parameters": 1}')
    (run / "metrics.csv").write_text("epoch,step\n")
    (run / "utterances.csv").write_text("set," + ",".join(NEEDED_COLUMNS) + "\n")


def test_a_sweeps_folder_stands_for_its_finished_runs(tmp_path: Path, tiny_corpus: Path) -> None:
    runs = [write_trained(tmp_path, tiny_corpus, f"seed={seed}") for seed in (0, 1)]
    (evaluations,) = evaluate([request(tmp_path / "single", "sets=test")])
    assert {evaluation.folder for evaluation in evaluations} == set(runs)


def test_sets_can_be_chosen_and_a_wrong_request_or_value_is_reported(run_folder: Path) -> None:
    assert list(evaluated(run_folder, "sets=test")["sets"]) == ["test"]
    for words, message in (
        (["decoder=beam", "decoder.beam_width=0"], "decoder.beam_width=0: expected"),
        (["decoder=beam_lm"], "decoder.lm is not set"),
        (["sets=[train]"], "sets=train: expected dev, test"),
        (["checkpoint=first"], "checkpoint=first: expected last, best"),
        (["root=/nowhere"], "/nowhere"),
    ):
        with pytest.raises(UsageError, match=message):
            evaluate([request(run_folder, *words)])
    lm = ["decoder=beam_lm", f"decoder.lm={bigrams('job.arpa', WORDS)}"]
    for words, message in (
        ([*lm, "tune.set=test"], "tune.set=test: expected dev"),
        (["decoder=greedy"], "this decoder has no weights"),
    ):
        with pytest.raises(UsageError, match=message):
            evaluate([request(run_folder, *words, "tune.trials=2")])


def test_every_yaml_key_is_one_that_the_job_reads() -> None:
    """No dead keys in conf/evaluation.yaml."""
    source = "".join(path.read_text() for path in Path(job.__file__).parent.glob("*.py"))
    keys = set(OmegaConf.load(CONF / "evaluation.yaml")) - {"defaults", "hydra"}
    assert {key for key in keys if f"cfg.{key}" not in source and f"requests[0].{key}" not in source} == set()


def test_the_rate_over_the_longer_string() -> None:
    """Baunsgaard2020 §4.1.1: e(x, y) / max(|x|, |y|). "ab" against "abcd": 2 / 4, where the usual rate is 2 / 2."""
    for pairs, rate in (
        ([("ab", "abcd")], 0.5), ([("abcd", "ab")], 0.5), ([("ab", "ab"), ("ab", "cd")], 0.5), ([("", "abc")], 1.0),
        ([("", "")], 0.0), ([], 0.0),
    ):  # fmt: skip
        rows = [
            utterance_row("test", Utterance("1", "s", Path("x.flac"), 0.0, 1.0, reference), reference, hypothesis)
            for reference, hypothesis in pairs
        ]
        assert rates(rows).cer_longer == rate

"""Systems of any toolkit: the sentence, the units, and NIST's, jiwer's and Kaldi's numbers."""

import re
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from asr_verdicts.comparison import Comparison, compare
from asr_verdicts.design import Options
from asr_verdicts.errors import UsageError
from asr_verdicts.one_arm import lone_rates
from asr_verdicts.record import Records
from asr_verdicts.statistics.distributions import t_bound
from asr_verdicts.statistics.intervals import speaker_interval
from asr_verdicts.statistics.sample import Array
from asr_verdicts.systems import compare_systems
from asr_verdicts.texts.entries import Entry, Reading, Texts
from asr_verdicts.texts.formats import read_texts
from asr_verdicts.texts.scoring import Scoring
from tests.helpers import hypotheses as toolkits
from tests.helpers.invented_records import record
from tests.helpers.support import shared_data

SPOKEN = toolkits.references()
BY_SPEAKER = Scoring(speaker_of="^([^-]+)-")


def made(words: toolkits.Words, name: str = "made") -> Texts:
    return Texts(name, "trn", {id_: Entry(id_, text) for id_, text in words.items()})


def compared(
    rates: dict[str, float],
    seeds: int,
    scoring: Scoring = BY_SPEAKER,
    declared: int | None = None,
    looks: bool = False,
    margin: str | None = None,
) -> Comparison:
    systems = {
        name: {"": [made(toolkits.recognised(SPOKEN, rate, seed), f"{name}/{seed}") for seed in range(seeds)]}
        for name, rate in rates.items()
    }
    return compare_systems(systems, {"": made(SPOKEN)}, scoring, Options(), seeds=declared, looks=looks, margin=margin)


def test_the_sentence_of_several_seeds() -> None:
    comparison = compared({"base": 0.15, "mine": 0.10}, 3, declared=3, margin="1.0")
    (verdict,) = comparison.answer
    assert (verdict.outcome, comparison.baseline) == ("better", "base")
    assert re.fullmatch(
        r"mine is better than base on test: [\d.]+ % against [\d.]+ % WER, a difference of −[\d.]+ points "
        r"\(95 % interval −[\d.]+ to −[\d.]+\)\. More than the margin of 1 point\. "
        r"Student's t: p [=<] [\d.]+; 3 seeds, 10 speakers\.",
        verdict.sentence,
    )
    assert comparison.evidence.procedure.name == "fixed"
    assert "60 utterances of test" in comparison.scored
    assert not comparison.warnings


def test_the_number_of_seeds_at_hand_is_taken_for_declared_and_the_sentence_says_so() -> None:
    declared, other, looked = (
        compared({"base": 0.15, "mine": 0.10}, 3, declared=count, looks=looks)
        for count, looks in ((3, False), (None, False), (None, True))
    )
    assert "Student's t, if the number of seeds was fixed beforehand: p " in other.answer[0].sentence
    assert "confirm it by --seeds 3, or deny it by --looks" in other.evidence.reason
    assert "if the number" not in declared.answer[0].sentence
    assert "Anytime-valid t test: p " in looked.answer[0].sentence
    narrow, same, wide = (one.answer[0] for one in (declared, other, looked))
    assert (narrow.low, narrow.high) == (same.low, same.high)
    assert narrow.high - narrow.low < wide.high - wide.low
    with pytest.raises(UsageError, match="--seeds 4: expected 4 files of each arm; base has 3, mine has 3"):
        compared({"base": 0.15, "mine": 0.10}, 3, declared=4)
    with pytest.raises(UsageError, match="--seeds 3 --looks: expected one of them"):
        compared({"base": 0.15, "mine": 0.10}, 3, declared=3, looks=True)


def test_a_copied_file_is_no_second_run() -> None:
    base, mine = (
        [made(toolkits.recognised(SPOKEN, rate, seed), f"{rate}/{seed}") for seed in range(3)] for rate in (0.15, 0.1)
    )
    copied = replace(mine[1], source="copy")
    systems = {"base": {"": base}, "mine": {"": [*mine, copied]}}
    comparison = compare_systems(systems, {"": made(SPOKEN)}, BY_SPEAKER, Options())
    assert [len(arm.results) for arm in comparison.arms] == [3, 3]
    assert (
        "test: 0.1/1 and copy have the same hypotheses: not independent, and counted once if they belong to one system"
        in comparison.warnings
    )


def test_of_one_system_each_the_sentence_speaks_of_these_alone() -> None:
    comparison = compared({"base": 0.15, "mine": 0.10}, 1)
    (verdict,) = comparison.answer
    assert verdict.sentence.endswith(
        "; 10 speakers. This is about these models: with one training of each, nothing is known about the methods."
    )
    assert verdict.outcome == "better"
    systems = {
        "base": {"": [made(toolkits.recognised(SPOKEN, 0.15, 0), "b")]},
        "mine": {"": [made(toolkits.recognised(SPOKEN, 0.10, seed), f"m{seed}") for seed in range(3)]},
    }
    (verdict,) = compare_systems(systems, {"": made(SPOKEN)}, BY_SPEAKER, Options()).answer
    assert verdict.outcome == "undecided"
    assert "with one seed of base the variation between seeds is unknown" in verdict.sentence


def test_three_arms_are_corrected_by_holm_and_two_sets_are_one_answer_and_a_description() -> None:
    def files(rate: float, salt: int) -> list[Texts]:
        return [made(toolkits.recognised(SPOKEN, rate, salt + seed), f"{rate} {salt} {seed}") for seed in range(3)]

    systems = {
        name: {"clean": files(rate, 0), "other": files(2 * rate, 100)}
        for name, rate in {"base": 0.1, "mine": 0.05, "third": 0.1001}.items()
    }
    references = {"clean": made(SPOKEN), "other": made(SPOKEN)}
    comparison = compare_systems(systems, references, BY_SPEAKER, Options(), seeds=3)
    assert [verdict.set for verdict in comparison.answer] == ["clean", "clean"]
    assert [verdict.family for verdict in comparison.answer] == [2, 2]
    assert {verdict.set for verdict in comparison.verdicts} == {"clean", "other"}
    del systems["mine"]["other"]
    with pytest.raises(UsageError, match="mine: no hypotheses of the set other, which other systems have"):
        compare_systems(systems, references, BY_SPEAKER, Options())


def test_counts_and_matched_pairs_are_those_that_sc_stats_printed() -> None:
    """NIST's pair: 9 and 7 errors, and Z = 2.000 over 3 segments (base_sc_stats/test1a.stats.mapsswe)."""

    def aligned(name: str) -> tuple[dict[str, str], dict[str, str]]:
        """References and hypotheses in sclite's alignment. Its fragment (ha-) counts as right: "had" on both sides."""
        spoken, heard = {}, {}
        text = shared_data(f"golden/wer/sctk/{name}").read_text()
        for id_, path in re.findall(r'<PATH id="\((.*?)\)".*?>\n(.*?)\n</PATH>', text, flags=re.DOTALL):
            path = re.sub(r'C,"\(ha-\)",(".*?")?,', 'C,"had","had",', path)
            words = re.findall(r'(?:^|:)([CSDI]),(?:"(.*?)")?,(?:"(.*?)")?', path)
            spoken[id_] = " ".join(theirs if kind == "C" else ours for kind, ours, theirs in words if kind != "I")
            heard[id_] = " ".join(theirs for kind, _, theirs in words if kind != "D")
        return spoken, heard

    (spoken, first), (other, second) = aligned("file1.sgml"), aligned("file2.sgml")
    printed = shared_data("golden/wer/sctk/base_sc_stats/test1a.stats.mapsswe").read_text()
    (z,) = (float(value) for value in re.findall(r"\(Z Stat: ([\d.]+)\)", printed))
    errors = [int(count) for count in re.findall(r"^Totals\s+13\s+(\d+)\s+(\d+)", printed, flags=re.MULTILINE)[0]]
    assert spoken == other
    systems = {"word_20": {"": [made(second, "b")]}, "mono_8": {"": [made(first, "a")]}}
    comparison = compare_systems(systems, {"": made(spoken)}, Scoring(), Options())
    rates = {arm.name: arm.runs[0].measured["test"] for arm in comparison.arms}
    counts = [(of.substitutions or 0) + (of.deletions or 0) + (of.insertions or 0) for of in rates.values()]
    assert dict(zip(rates, counts, strict=True)) == dict(zip(("mono_8", "word_20"), errors, strict=True))
    assert comparison.verdicts[0].p_pairs == pytest.approx(2 * stats.norm.sf(z), abs=2e-4)


def test_seeds_of_a_lone_arm_add_their_noise_to_its_interval() -> None:
    comparison = compared({"base": 0.15}, 3)
    (alone,) = lone_rates(comparison)
    rates = [run.value("test", "wer") for run in comparison.runs]
    seeds = np.std(rates, ddof=1) / np.sqrt(3)
    assert alone.rate.value == pytest.approx(np.mean(rates))
    assert (alone.rate.high - alone.rate.low) / 2 > 1.96 * seeds
    assert "3 seeds, 10 speakers)" in alone.sentence
    assert not lone_rates(compared({"base": 0.15, "mine": 0.10}, 3))


def test_the_verdict_is_that_of_the_same_runs() -> None:
    """An own sweep, and its hypotheses read back."""
    runs = [
        replace(record(f"rnn={name}", seed, rate), overrides=[f"rnn={name}"])
        for name, rate in {"lstm": 0.3, "gru": 0.2}.items()
        for seed in range(3)
    ]
    (own,) = compare(Records(runs), Options(), "own").answer
    systems: dict[str, dict[str, list[Texts]]] = {"lstm": {"": []}, "gru": {"": []}}
    for run in runs:
        words = {row["id"]: row["hypothesis"] for row in run.utterances}
        systems[run.overrides[0].removeprefix("rnn=")][""].append(made(words, f"{run.overrides} {run.seed}"))
    scoring = Scoring(speakers={row["id"]: row["speaker"] for row in runs[0].utterances})
    spoken = made({row["id"]: row["reference"] for row in runs[0].utterances})
    (foreign,) = compare_systems(systems, {"": spoken}, scoring, Options(), looks=True).answer
    assert (foreign.difference, foreign.low, foreign.high) == (own.difference, own.low, own.high)
    assert foreign.p_adjusted == own.p_adjusted
    with pytest.raises(UsageError, match="metric=loss: expected wer, cer or cer_longer: hypotheses have no loss"):
        compare_systems(systems, {"": spoken}, scoring, Options(metric="loss"))


def test_counts_are_sclites_on_csrnab() -> None:
    """expected/test1.raw of NIST's SCTK: 1406 words, 131 substitutions, 12 deletions, 26 insertions; by speaker."""
    files = [shared_data(f"golden/wer/sctk/csrnab.{side}") for side in ("hyp", "ref")]
    heard, spoken = (read_texts(path, None, Reading()) for path in files)
    scoring = Scoring(normalise="case", speaker_of="^(...)")
    (run,) = compare_systems({"hyp": {"": [heard]}}, {"": spoken}, scoring, Options()).runs
    rates = run.measured["test"]
    assert (rates.words, rates.substitutions, rates.deletions, rates.insertions) == (1406, 131, 12, 26)
    by_speaker = {
        name: tuple(
            sum(row[kind] for row in run.utterances if row["speaker"].lower() == name)
            for kind in ("words", "substitutions", "deletions", "insertions")
        )
        for name in ("4t0", "4t1", "4t2")
    }
    assert by_speaker == {"4t0": (458, 64, 9, 12), "4t1": (544, 32, 3, 4), "4t2": (404, 35, 0, 10)}


def test_the_interval_over_utterances_is_kaldis_but_for_students_t() -> None:
    """Ours is wider by t of n − 1 over 1.96 and by √(n / (n − 1)): 3.0 % of 60 utterances."""

    def compute_wer_bootci(errors: Array, words: Array, replications: int = 10_000) -> tuple[float, float]:
        """Kaldi's compute-wer-bootci, from its description: as many utterances as there are, drawn with replacement.
        The interval is the mean of the replications' rates ± 1.96 times their deviation (Bisani & Ney 2004).
        """
        generator = np.random.default_rng(1)
        rates = []
        for _ in range(replications):
            drawn = generator.integers(0, len(errors), len(errors))
            rates.append(np.sum(np.take(errors, drawn)) / np.sum(np.take(words, drawn)))
        return float(np.mean(rates)), 1.96 * float(np.std(rates))

    arms = compared({"base": 0.15, "mine": 0.10}, 1).arms
    rows = [arm.runs[0].utterances for arm in arms]
    errors = np.array(
        [[r["substitutions"] + r["deletions"] + r["insertions"] for r in of_arm] for of_arm in rows], float
    )
    words = np.array([row["words"] for row in rows[0]], float)
    difference = errors[1] - errors[0]
    ours = speaker_interval(difference, words, np.arange(60).astype(str))
    theirs, half = compute_wer_bootci(difference, words)
    wider = t_bound(0.025, 59) / 1.96 * np.sqrt(60 / 59)
    assert wider == pytest.approx(1.030, abs=0.001)
    assert ours.estimate == pytest.approx(theirs, abs=0.05 * half)
    assert ours.half_width == pytest.approx(wider * half, rel=0.03)
    (alone,) = lone_rates(compared({"base": 0.15}, 1, Scoring()))
    theirs, half = compute_wer_bootci(errors[0], words)
    assert alone.rate.value == pytest.approx(theirs, abs=0.05 * half)
    assert (alone.rate.high - alone.rate.low) / 2 == pytest.approx(1.030 * half, rel=0.03)
    assert alone.sentence.endswith(
        "; 60 utterances; speakers unknown, so the interval is too narrow if a speaker has several). This is about "
        "this model: with one training, nothing is known about the method."
    )
    # 10,000 draws of 3,000 units are 240 MB. The two standard errors agree within the noise of the draws
    generator = np.random.default_rng(0)
    words = generator.integers(5, 30, 3000).astype(float)
    errors = generator.binomial(words.astype(int), 0.1).astype(float)
    ours = speaker_interval(errors, words, np.arange(3000).astype(str))
    _, half = compute_wer_bootci(errors, words, 4000)
    assert ours.half_width == pytest.approx(half, rel=0.05)

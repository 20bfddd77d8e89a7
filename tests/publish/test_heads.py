"""The heads of sweep files."""

import copy
import re

import pytest

from publish.heads import describe_cost, format_commands, replace_head
from tests.helpers.sweep_files import NAMES, SWEEPS, arms, composed, is_decoding, is_search


def text_of(name: str) -> str:
    return (SWEEPS / f"{name}.yaml").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", NAMES)
def test_it_is_current_has_the_command_first_and_counts_the_runs(name: str) -> None:
    """The runs by the other count, which the tests compose."""
    cfg = composed(name)
    assert text_of(name) == replace_head(text_of(name), name, cfg), "make docs writes it anew"
    script = "evaluate" if is_decoding(name) else "train"
    question, first, second, *_ = text_of(name).splitlines()
    assert question.endswith("?")
    assert first.startswith(f"#   python src/{script}.py -m -cd sweeps -cn {name}")
    assert second.startswith("#   python src/compare.py ")
    runs = cfg.hydra.sweeper.n_trials if is_search(cfg) else len(arms(cfg))
    said = re.search(r"Cost computed by make docs: (?:at most )?(\d+)", text_of(name))
    assert said
    assert int(said[1]) == runs


def test_what_is_written_by_hand_stays() -> None:
    by_hand = (
        "# Why?\n#   python src/train.py -m -cd s -cn old\n# Held fixed: all.\n#   python src/lm.py\ndefaults: []\n"
    )
    head = replace_head(by_hand, "rnn_type", composed("rnn_type"))
    assert head.startswith(
        "# Why?\n#   python src/train.py -m -cd sweeps -cn rnn_type\n#   python src/compare.py outputs/"
    )
    assert "# Held fixed: all.\n#   python src/lm.py\n# Cost computed by make docs: 9 runs" in head
    assert head.endswith("measures the time.\ndefaults: []\n")
    assert replace_head(head, "rnn_type", composed("rnn_type")) == head
    assert "-cn old" not in head


def test_a_cost_follows_its_file() -> None:
    """Hours of speech: runs × epochs × 2."""
    cfg = copy.deepcopy(composed("rnn_type"))
    assert "9 runs (3 arms, 3 seeds) of 6 epochs, 108 hours of speech" in describe_cost(cfg)
    cfg.hydra.sweeper.params = {"rnn": "gru,lstm", "max_epochs": "10,30"}
    assert "4 runs (4 arms, 1 seed) of 10 to 30 epochs, 160 hours of speech" in describe_cost(cfg)


def test_a_command_gives_what_its_file_leaves_open() -> None:
    assert format_commands(composed("librispeech_hours"), "librispeech_hours")[0].endswith(
        "librispeech_hours data.root=<folder>"
    )
    decoding = format_commands(composed("language_models"), "language_models")
    assert decoding[0].endswith("run=<folder of runs> models.words=<folder> models.letters=<folder>")
    assert decoding[1] == "#   python src/compare.py <a run's folder>/evaluations"

"""What a sweep file declares, and what it may not."""

import pytest

from asr_ablations.comparison.declaration import Declaration, parse
from asr_ablations.tools.errors import UsageError


def test_a_whole_declaration() -> None:
    node = {
        "question": "?", "source": "Shi2016 §4", "claim": "yes", "factor": ["order", "norm"], "baseline": 256,
        "set": "test", "metric": "loss", "contrasts": "factorial", "targets": [0.2], "published": {"a": {"test": 5}},
        "expected": {0.2: "better", "b": ["worse", "equivalent"]},
    }  # fmt: skip
    assert parse(node) == Declaration(
        "?", "Shi2016 §4", "yes", ["order", "norm"], "256", "test", "loss", ["factorial"], [0.2], {"a": {"test": 5.0}},
        {"0.2": ["better"], "b": ["worse", "equivalent"]},
    )  # fmt: skip
    assert parse({"factor": "rnn", "baseline": None}) == Declaration(factor=["rnn"])


@pytest.mark.parametrize(
    ("node", "message"),
    [
        ({"facto": "rnn"}, "ablation=facto: expected one of question, source"),
        ("rnn", "ablation=rnn: expected keys"),
        ({"targets": ["low"]}, r"ablation\.targets=\['low'\]: expected rates"),
        ({"published": {"a": 3}}, r"ablation\.published="),
        ({"published": {"a": {"test": "x"}}}, r"ablation\.published="),
        ({"expected": {"a": "good"}}, r"ablation\.expected=.*better, worse, equivalent"),
        ({"expected": "worse"}, r"ablation\.expected=worse"),
    ],
)
def test_mistakes_are_one_line(node: object, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        parse(node)

"""What a benchmark returns: single figures, tables, notes and plots, as result.json holds them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from asr_ablations.tools.files import Json
from asr_benchmarks.plots import Plot

Row: TypeAlias = Mapping[str, object]
"""A row of a table, by column: text, a number, or None where a value is not known."""

Table: TypeAlias = Sequence[Row]

PUBLISHED = "published"
"""How the names of tables and lines begin that hold the numbers of a paper, the same for every machine."""

FRAMEWORKS = ("python", "torch", "jax", "keras", "tensorflow", "tensorflow-cpu", "returnn")
"""What a result's machine says the version of, where it is installed."""


@dataclass
class Result:
    """What a benchmark has measured.

    figures: single values by name; tables: rows by the table's name; notes: lines for the reader; machine: what it was
    measured on. relative: the columns of a table that are also shown in % of the first result's where several results
    stand side by side.
    """

    figures: dict[str, object] = field(default_factory=dict)
    tables: dict[str, Table] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    plots: list[Plot] = field(default_factory=list)
    relative: dict[str, list[str]] = field(default_factory=dict)
    machine: dict[str, object] = field(default_factory=dict)

    def to_json(self) -> Json:
        """The content of result.json: figures and tables by name, then the other fields."""
        others = {name: getattr(self, name) for name in OTHERS}
        return {**self.figures, **self.tables, **others}

    @classmethod
    def from_json(cls, content: Json) -> "Result":
        """The result that a result.json holds: lists are tables, single values are figures."""
        own = {key: value for key, value in content.items() if key not in OTHERS}
        return cls(
            figures={key: value for key, value in own.items() if not isinstance(value, (list, dict))},
            tables={key: value for key, value in own.items() if isinstance(value, list)},
            **{key: value for key, value in content.items() if key in OTHERS},
        )


OTHERS = ("notes", "plots", "relative", "machine")
"""The fields of a result that result.json holds under their own names."""

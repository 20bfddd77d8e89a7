"""The places in the source where a small fault can be planted, and a draw of them by a seed."""

import ast
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PACKAGES = ("asr_ablations", "asr_verdicts", "asr_benchmarks", "asr_serving", "hydra_plugins")
JUDGING_ROOMS = ("asr_verdicts", "comparison", "runs", "training", "data")
"""The rooms whose faults would change an answer in silence: they get SHARE of the faults."""
SHARE = 0.6
PAIRS = ((ast.Lt, ast.LtE), (ast.Gt, ast.GtE), (ast.Eq, ast.NotEq), (ast.In, ast.NotIn), (ast.Is, ast.IsNot))
TWO_WAYS: list[Any] = [pair[::way] for pair in (*PAIRS, (ast.Add, ast.Sub), (ast.And, ast.Or)) for way in (1, -1)]
OTHER: dict[type, Any] = dict(TWO_WAYS)
LOGS = ("log", "warnings.", "print(", "console.")
LEFT_OUT = (ast.Raise, ast.Assert, ast.Import, ast.ImportFrom, ast.JoinedStr)
"""Errors, and formatted texts, where Python 3.11 gives wrong positions."""
NOT_RUN = ("annotation", "returns", "decorator_list", "bases", "pattern")
"""Fields of a node."""
TEXTS = (ast.JoinedStr, ast.List, ast.ListComp, ast.Tuple)
"""Operands of a + that adds no numbers: turned, it would only raise TypeError."""


@dataclass(frozen=True)
class Fault:
    """A piece of a source file, by its byte offsets, and its replacement. room: the package."""

    room: str
    path: str
    line: int
    kind: str
    start: int
    end: int
    before: str
    after: str

    def planted(self, source: bytes) -> bytes:
        """The file with the fault. Raises ValueError where the file is another than the one of the draw."""
        if source[self.start : self.end].decode() != self.before:
            raise ValueError(f"{self.path}:{self.line}: the file does not have {self.before!r} there")
        return source[: self.start] + self.after.encode() + source[self.end :]


def draw(tree: Path, number: int, seed: int) -> list[Fault]:
    """SHARE of the faults are in JUDGING_ROOMS, which come first, in case of a break. A room is as likely as its lines
    are many, and within a room every kind is equally likely.
    """
    generator = random.Random(seed)
    files = rooms(tree)
    lines = {room: sum(len(path.read_bytes().splitlines()) for path in paths) for room, paths in files.items()}
    judging = [room for room in JUDGING_ROOMS if room in files]
    first = round(SHARE * number)
    drawn = []
    for names, count in ((judging, first), (sorted(files.keys() - {*judging}), number - first)):
        left = {name: [fault for path in files[name] for fault in places(path, name, tree)] for name in names}
        for name in generator.choices(names, [lines[name] for name in names], k=count):
            kind = generator.choice(sorted({fault.kind for fault in left[name]}))
            fault = generator.choice([fault for fault in left[name] if fault.kind == kind])
            left[name].remove(fault)
            drawn.append(fault)
    return drawn


def rooms(tree: Path) -> dict[str, list[Path]]:
    """The Python files of each room: the packages of asr_ablations, and each other package as one room."""
    files: dict[str, list[Path]] = {}
    for package in PACKAGES:
        for path in sorted((tree / "src" / package).rglob("*.py")):
            inner = path.relative_to(tree / "src" / package).parts
            if package != PACKAGES[0] or len(inner) > 1:
                files.setdefault(inner[0] if package == PACKAGES[0] else package, []).append(path)
    return files


def places(path: Path, room: str, tree: Path) -> Iterator[Fault]:
    """Every fault that can be planted in a file; none in kernels that run on a GPU alone."""
    source = path.read_bytes()
    starts = [0]
    for text in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(text))
    if b"import triton" in source:
        return
    for found, in_function in _inside(ast.parse(source), False):
        for kind, node, after in [*(_dropped(found) if in_function else ()), *_turned(found)]:
            start = starts[node.lineno - 1] + node.col_offset
            end = starts[(node.end_lineno or 0) - 1] + (node.end_col_offset or 0)
            name, before = path.relative_to(tree).as_posix(), source[start:end].decode()
            yield Fault(room, name, node.lineno, kind, start, end, before, after)


def _inside(node: ast.AST, in_function: bool) -> Iterator[tuple[ast.stmt | ast.expr, bool]]:
    """All statements and expressions below a node that do something in a run, and whether they stand in a function."""
    for name, value in ast.iter_fields(node):
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and name not in NOT_RUN and not _is_left_out(child):
                if isinstance(child, ast.stmt | ast.expr):
                    yield child, in_function
                yield from _inside(child, in_function or isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef))


def _is_left_out(node: ast.AST) -> bool:
    """Docstrings and log messages, errors, assertions, __all__, Protocols, and branches for type checkers."""
    if isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Constant) or ast.unparse(node).lower().startswith(LOGS)
    if isinstance(node, ast.ClassDef):
        return any("Protocol" in ast.unparse(base) for base in node.bases)
    if isinstance(node, ast.If):
        return any(name in ast.unparse(node.test) for name in ("TYPE_CHECKING", "__name__"))
    return isinstance(node, LEFT_OUT) or (isinstance(node, ast.Assign) and ast.unparse(node).startswith("__all__"))


Turned = Iterator[tuple[str, ast.stmt | ast.expr, str]]
"""A kind of fault, the node that it replaces, and by what."""


def _dropped(node: ast.stmt | ast.expr) -> Turned:
    if isinstance(node, ast.Return) and node.value and ast.unparse(node.value) != "None":
        yield "statement dropped", node, "return None"
    elif isinstance(node, ast.Expr | ast.Assign | ast.AugAssign) or (isinstance(node, ast.AnnAssign) and node.value):
        yield "statement dropped", node, "pass"


def _turned(node: ast.stmt | ast.expr) -> Turned:
    match node:
        case ast.Compare(left, operators, values):
            for place, one in enumerate(operators):
                others = [*operators[:place], OTHER[type(one)](), *operators[place + 1 :]]
                yield "comparison turned", node, f"({ast.unparse(ast.Compare(left, others, values))})"
        case ast.BoolOp(one, values):
            yield "and, or", node, f"({ast.unparse(ast.BoolOp(OTHER[type(one)](), values))})"
        case ast.BinOp(left, ast.Add() | ast.Sub() as one, right) if not (_is_text(left) or _is_text(right)):
            yield "sign turned", node, f"({ast.unparse(ast.BinOp(left, OTHER[type(one)](), right))})"
        case ast.AugAssign(target, ast.Add() | ast.Sub() as one, value) if not _is_text(value):
            yield "sign turned", node, ast.unparse(ast.AugAssign(target, OTHER[type(one)](), value))
        case ast.If(test) | ast.IfExp(test):
            yield "branch inverted", test, f"(not ({ast.unparse(test)}))"
        case ast.Constant(int() | float() as number) if not isinstance(number, bool):
            yield "number changed", node, repr(number + 1 if isinstance(number, int) else 1.5 * number or 1.0)


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, TEXTS) or (isinstance(node, ast.Constant) and isinstance(node.value, str | bytes))

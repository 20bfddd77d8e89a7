"""The places in the source where a small fault can be planted, and a draw of them by a seed."""

import ast
import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

PACKAGES = ("asr_ablations", "asr_verdicts", "asr_benchmarks", "asr_serving", "hydra_plugins")
JUDGING_ROOMS = ("asr_verdicts", "comparison", "runs", "training", "data")
"""The rooms whose faults would change an answer in silence: they get SHARE of the faults."""
SHARE = 0.6
COMPARISONS: dict[type[ast.cmpop], tuple[str, str]] = {
    ast.Lt: (r"<(?!=)", "<="), ast.LtE: (r"<=", "<"), ast.Gt: (r">(?!=)", ">="), ast.GtE: (r">=", ">"),
    ast.Eq: (r"==", "!="), ast.NotEq: (r"!=", "=="), ast.In: (r"\bin\b", "not in"),
    ast.NotIn: (r"\bnot\s+in\b", "in"), ast.Is: (r"\bis\b", "is not"), ast.IsNot: (r"\bis\s+not\b", "is"),
}  # fmt: skip
"""The pattern of each operator and its replacement."""
LOGS = {"log", "logger", "logging", "warnings", "print", "console"}
TEXTS = (ast.JoinedStr, ast.List, ast.ListComp, ast.Tuple)
"""Operands of a + that adds no numbers: turned, it would only raise TypeError."""


@dataclass(frozen=True)
class Fault:
    """A piece of a source file and its replacement.

    room: the package; path: in the tree; start, end: byte offsets in the file; before, after: the two texts.
    """

    room: str
    path: str
    line: int
    kind: str
    start: int
    end: int
    before: str
    after: str

    @property
    def name(self) -> str:
        return f"{self.path}:{self.line}:{self.start}:{self.kind}"

    def planted(self, source: bytes) -> bytes:
        """The file with the fault. Raises ValueError where the file is another than the one of the draw."""
        if source[self.start : self.end].decode() != self.before:
            raise ValueError(f"{self.name}: the file does not have {self.before!r} there")
        return source[: self.start] + self.after.encode() + source[self.end :]


def draw(tree: Path, number: int, seed: int) -> list[Fault]:
    """Faults of all rooms. JUDGING_ROOMS share 60 of 100, half of them equally and half by lines; the other rooms share
    the rest by lines. Within a room every kind is equally likely.

    The draw is from the files as they are: after these are reshaped, the same seed draws other faults from the same
    distribution.
    """
    files = rooms(tree)
    lines = {room: sum(len(path.read_bytes().splitlines()) for path in paths) for room, paths in files.items()}
    judging = [room for room in JUDGING_ROOMS if room in lines]
    others = [room for room in sorted(lines) if room not in judging]
    total = sum(lines[room] for room in judging)
    shares = [0.5 / len(judging) + 0.5 * lines[room] / total for room in judging]
    first = -(-int(100 * SHARE) * number // 100)
    counts = {
        **divided(judging, shares, first),
        **divided(others, [float(lines[room]) for room in others], number - first),
    }
    drawn = [
        fault for room in sorted(counts) for fault in _of_room(tree, room, files[room], counts[room], f"{seed}-{room}")
    ]
    random.Random(seed).shuffle(drawn)
    return sorted(drawn, key=lambda fault: fault.room not in judging)  # first where it matters, in case of a break


def rooms(tree: Path) -> dict[str, list[Path]]:
    """The Python files of each room: the packages of asr_ablations, and each other package as one room."""
    files: dict[str, list[Path]] = {}
    for package in PACKAGES:
        root = tree / "src" / package
        for path in sorted(root.rglob("*.py")):
            inner = path.relative_to(root).parts
            room = inner[0] if package == PACKAGES[0] else package
            if not (package == PACKAGES[0] and len(inner) == 1):
                files.setdefault(room, []).append(path)
    return files


def divided(names: Sequence[str], weights: Sequence[float], number: int) -> dict[str, int]:
    """The number in whole parts by weight, the largest remainders rounded up."""
    exact = [number * weight / sum(weights) for weight in weights]
    counts = [int(share) for share in exact]
    for place in sorted(range(len(names)), key=lambda k: counts[k] - exact[k])[: number - sum(counts)]:
        counts[place] += 1
    return dict(zip(names, counts, strict=True))


def _of_room(tree: Path, room: str, files: Sequence[Path], number: int, seed: str) -> list[Fault]:
    generator = random.Random(seed)
    by_kind: dict[str, list[Fault]] = {}
    for path in files:
        for fault in places(path.read_bytes(), room, path.relative_to(tree).as_posix()):
            by_kind.setdefault(fault.kind, []).append(fault)
    drawn: list[Fault] = []
    while by_kind and len(drawn) < number:
        kind = generator.choice(sorted(by_kind))
        fault = by_kind[kind].pop(generator.randrange(len(by_kind[kind])))
        if not by_kind[kind]:
            del by_kind[kind]
        drawn.append(fault)
    return drawn


def places(source: bytes, room: str, path: str) -> list[Fault]:
    """Every fault that can be planted in a file, in the order of the file."""
    tree = ast.parse(source)
    if any(isinstance(node, ast.Import) and node.names[0].name == "triton" for node in ast.walk(tree)):
        return []  # kernels that run on a GPU alone
    found = _Places(source, room, path)
    found.read(tree.body, in_function=False)
    return sorted(found.faults, key=lambda fault: (fault.start, fault.kind))


class _Places:
    def __init__(self, source: bytes, room: str, path: str) -> None:
        self._source, self._room, self._path = source, room, path
        self._starts = [0]
        for line in source.splitlines(keepends=True):
            self._starts.append(self._starts[-1] + len(line))
        self.faults: list[Fault] = []

    def read(self, statements: Sequence[ast.stmt], in_function: bool) -> None:
        for statement in statements:
            if not _is_left_out(statement):
                self._statement(statement, in_function)

    def _statement(self, node: ast.stmt, in_function: bool) -> None:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            for default in (*node.args.defaults, *(value for value in node.args.kw_defaults if value)):
                self._expression(default)
            self.read(node.body, in_function=True)
            return
        if isinstance(node, ast.ClassDef):
            self.read(node.body, in_function=False)
            return
        if in_function:
            self._dropped(node)
        if isinstance(node, ast.If):
            self._inverted(node.test, "branch inverted")
        if isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add | ast.Sub):
            self._sign(node.op, node.target, node.value)
        for field, value in ast.iter_fields(node):
            if field == "annotation":
                continue
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.expr):
                    self._expression(child)
                elif isinstance(child, ast.stmt):
                    self.read([child], in_function)
                elif isinstance(child, ast.ExceptHandler | ast.match_case):
                    self.read(child.body, in_function)
                elif isinstance(child, ast.withitem):
                    self._expression(child.context_expr)

    def _expression(self, root: ast.expr) -> None:
        for node in _inside(root):
            if isinstance(node, ast.Compare):
                sides = [node.left, *node.comparators]
                for left, right, operator in zip(sides, sides[1:], node.ops, strict=False):
                    pattern, other = COMPARISONS[type(operator)]
                    self._between(left, right, pattern, other, "comparison turned")
            elif isinstance(node, ast.BoolOp):
                word, other = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
                for left, right in zip(node.values, node.values[1:], strict=False):
                    self._between(left, right, rf"\b{word}\b", other, "and, or")
            elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub):
                self._sign(node.op, node.left, node.right)
            elif isinstance(node, ast.IfExp):
                self._inverted(node.test, "branch inverted")
            elif isinstance(node, ast.Constant) and isinstance(node.value, int | float):
                value = node.value
                if not isinstance(value, bool):
                    self._add(node, node, "number changed", repr(_other(value)))

    def _dropped(self, node: ast.stmt) -> None:
        if isinstance(node, ast.Return) and node.value is not None and not _is_none(node.value):
            self._add(node, node, "statement dropped", "return None")
        elif isinstance(node, ast.Expr | ast.Assign | ast.AugAssign) or (
            isinstance(node, ast.AnnAssign) and node.value
        ):
            self._add(node, node, "statement dropped", "pass")

    def _inverted(self, test: ast.expr, kind: str) -> None:
        self._add(test, test, kind, f"(not ({self._text(test)}))")

    def _sign(self, operator: ast.operator, left: ast.expr, right: ast.expr) -> None:
        if not any(isinstance(side, TEXTS) or _is_text(side) for side in (left, right)):
            pattern, other = (r"\+", "-") if isinstance(operator, ast.Add) else ("-", "+")
            self._between(left, right, pattern, other, "sign turned")

    def _between(self, left: ast.expr, right: ast.expr, pattern: str, other: str, kind: str) -> None:
        """A fault in the one operator that stands between two expressions."""
        start, end = self._range(left)[1], self._range(right)[0]
        matches = list(re.finditer(pattern.encode(), self._source[start:end]))
        if len(matches) == 1 and b"#" not in self._source[start:end]:
            match = matches[0]
            self._put(left.end_lineno or left.lineno, kind, start + match.start(), start + match.end(), other)

    def _add(self, first: ast.stmt | ast.expr, last: ast.stmt | ast.expr, kind: str, other: str) -> None:
        self._put(first.lineno, kind, self._range(first)[0], self._range(last)[1], other)

    def _put(self, line: int, kind: str, start: int, end: int, other: str) -> None:
        before = self._source[start:end].decode()
        self.faults.append(Fault(self._room, self._path, line, kind, start, end, before, other))

    def _range(self, node: ast.stmt | ast.expr) -> tuple[int, int]:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return self._starts[node.lineno - 1] + node.col_offset, self._starts[node.end_lineno - 1] + node.end_col_offset

    def _text(self, node: ast.expr) -> str:
        start, end = self._range(node)
        return self._source[start:end].decode()


def _is_left_out(node: ast.stmt) -> bool:
    """Docstrings and log messages, errors, assertions, __all__, Protocols, and branches for type checkers."""
    if isinstance(node, ast.Raise | ast.Assert | ast.Import | ast.ImportFrom):
        return True
    if isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Constant) or (
            isinstance(node.value, ast.Call) and _first_name(node.value) in LOGS
        )
    if isinstance(node, ast.ClassDef):
        return any(_last_name(base) == "Protocol" for base in node.bases)
    if isinstance(node, ast.If):
        return _last_name(node.test) == "TYPE_CHECKING" or (
            isinstance(node.test, ast.Compare) and _last_name(node.test.left) == "__name__"
        )
    return isinstance(node, ast.Assign) and any(_last_name(target) == "__all__" for target in node.targets)


def _inside(node: ast.AST) -> Iterator[ast.AST]:
    """The node and all below it, without formatted texts, where Python 3.11 gives wrong positions."""
    if not isinstance(node, ast.JoinedStr):
        yield node
        for child in ast.iter_child_nodes(node):
            yield from _inside(child)


def _other(number: float) -> float:
    return number + 1 if isinstance(number, int) else 1.5 * number or 1.0


def _first_name(node: ast.expr) -> str:
    while isinstance(node, ast.Call | ast.Attribute):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id.lower() if isinstance(node, ast.Name) else ""


def _last_name(node: ast.expr) -> str:
    node = node.value if isinstance(node, ast.Subscript) else node
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str | bytes)

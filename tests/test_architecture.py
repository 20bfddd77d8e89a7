"""Imports point downwards, those inside functions too: a package imports only from the floors below its own."""

import ast
import functools
import importlib
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[1] / "src"
FLOORS = (
    {"asr_verdicts"}, {"tools"}, {"native"}, {"runs", "data", "synthesis"},
    {"config", "language_models", "comparison"},
    {"training", "reproduction"}, {"components", "experiment"},
    {"evaluation", "sweep", "report"}, {"asr_benchmarks", "asr_serving"}, {"commands"},
    {"hydra_plugins", "scripts"},
)  # fmt: skip
"""From the ground up. `scripts` are the files src/*.py."""
PACKAGES = {"asr_verdicts", "asr_benchmarks", "asr_serving", "hydra_plugins"}
"""Those next to asr_ablations."""
FLOOR = {package: number for number, packages in enumerate(FLOORS) for package in packages}
HEAVY = {"torch", "torchaudio", "torchmetrics", "pytorch_lightning", "lightning", "lightning_fabric", "wandb"}
"""What takes seconds to import."""


def module_name(path: Path) -> str:
    """asr_ablations.data.audio for src/asr_ablations/data/audio.py; a package is named without its __init__."""
    parts = path.relative_to(SOURCE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def package(module: str) -> str | None:
    """The package on whose floor a module lies; None for modules from elsewhere and for asr_ablations itself."""
    first, *rest = module.split(".")
    if module in (*SCRIPTS, "asr_ablations.__main__"):
        return "scripts"
    if first == "asr_ablations":
        return rest[0] if rest else None
    return first if first in PACKAGES else None


FILES = {module_name(path): path for path in sorted(SOURCE.rglob("*.py"))}
SCRIPTS = {path.stem for path in SOURCE.glob("*.py")}


def imports(tree: ast.AST, module: str) -> Iterator[tuple[int, str]]:
    """(line, imported module) of every import statement at any depth, each name of a package as its own module."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module}: relative import"
            for alias in node.names:
                full = f"{node.module}.{alias.name}"
                yield node.lineno, full if full in FILES else str(node.module)


@functools.cache
def parsed(module: str) -> ast.Module:
    return ast.parse(FILES[module].read_text(encoding="utf-8"))


@functools.cache
def imports_of(module: str) -> list[tuple[int, str]]:
    return list(imports(parsed(module), module))


def upward(module: str, imported_names: list[tuple[int, str]]) -> list[str]:
    """The imports of a module that do not point to a floor below, as lines of a report."""
    own = package(module)
    lines = []
    for line, imported in imported_names:
        other = package(imported) if imported in FILES else None
        if own and other and other != own and FLOOR[other] >= FLOOR[own]:
            lines.append(f"{module}:{line}: {own} imports {imported}")
    return lines


def test_every_package_has_a_floor() -> None:
    folders = {path.name for path in (SOURCE / "asr_ablations").iterdir() if path.is_dir() and path.name[0] != "_"}
    modules = {path.stem for path in (SOURCE / "asr_ablations").glob("*.py")}
    assert modules == {"__init__", "__main__"}, "a module of asr_ablations lies in a package"
    assert folders | PACKAGES | {"scripts"} == FLOOR.keys()
    assert sum(map(len, FLOORS)) == len(FLOOR), "a package lies on one floor"


def test_imports_point_downwards() -> None:
    wrong = [line for module in FILES for line in upward(module, imports_of(module))]
    assert not wrong, "\n".join(wrong)


def test_an_import_that_is_not_allowed_is_seen() -> None:
    for line in (
        "from asr_ablations.report import sections",
        "def late():\n    from asr_ablations.sweep.launch import freeze",
        "from asr_ablations.data import word_times as timed",  # a neighbour on the same floor
    ):
        assert upward("asr_ablations.runs.layout", list(imports(ast.parse(line), "x")))
    for line in (
        "import torch",
        "def late():\n    from omegaconf import OmegaConf",
        "from asr_ablations.runs import layout",
    ):
        assert strangers("asr_verdicts.comparison", list(imports(ast.parse(line), "x")))


OF_VERDICTS = {"numpy", "scipy", "rapidfuzz", "rich", "matplotlib", "pandas", "whisper_normalizer"}
"""What asr_verdicts imports from elsewhere: what its wheel needs, and what its extras or the user bring."""


def strangers(module: str, imported_names: list[tuple[int, str]]) -> list[str]:
    """The imports of a module of asr_verdicts that neither it, its wheel nor Python itself has."""
    known = {"asr_verdicts", *OF_VERDICTS, *sys.stdlib_module_names}
    return [f"{module}:{line}: {name}" for line, name in imported_names if name.partition(".")[0] not in known]


def test_the_verdicts_need_nothing_of_the_suite() -> None:
    modules = [module for module in FILES if package(module) == "asr_verdicts"]
    assert len(modules) > 30
    assert [line for module in modules for line in strangers(module, imports_of(module))] == []


def test_the_wheel_of_the_verdicts_has_all_its_packages() -> None:
    project = (SOURCE / "asr_verdicts" / "pyproject.toml").read_text(encoding="utf-8")
    (listed,) = re.findall(r"^packages = (\[.*\])$", project, re.MULTILINE)
    folders = {path.parent.relative_to(SOURCE) for path in (SOURCE / "asr_verdicts").rglob("*.py")}
    assert sorted(ast.literal_eval(listed)) == sorted(".".join(folder.parts) for folder in folders)


def test_no_package_imports_what_publishes() -> None:
    assert [module for module in FILES for _, name in imports_of(module) if name.startswith("publish")] == []


def test_no_module_imports_itself_in_a_circle() -> None:
    graph = {module: {name for _, name in imports_of(module) if name in FILES} for module in FILES}
    try:
        tuple(TopologicalSorter({module: names - {module} for module, names in graph.items()}).static_order())
    except CycleError as error:
        pytest.fail(" → ".join(error.args[1]))


def test_a_run_folder_is_read_without_torch() -> None:
    """A comparison starts fast: what reads runs imports neither torch nor Lightning nor W&B before it needs them."""
    modules = [module for module in FILES if package(module) in ("runs", "comparison", "asr_verdicts")]
    program = f"import sys, {', '.join(modules)}; print(*sorted({HEAVY} & set(sys.modules)))"
    environment = {**os.environ, "PYTHONPATH": str(SOURCE)}
    heavy = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    assert heavy.stdout.split() == []


def test_torchs_compiler_is_imported_only_if_it_is_used() -> None:
    program = """if True:
        import sys, asr_ablations.commands, asr_ablations.experiment.run, torch
        weight = torch.ones(2, requires_grad=True)
        weight.sum().backward()
        torch.optim.AdamW([weight]).step()
        loaded = {"sympy", "scipy.signal", "matplotlib", "torch._dynamo.utils"} & set(sys.modules)
        import torch._dynamo.utils as utils
        compiled = torch.compile(lambda x: 2 * x, backend="eager")(torch.ones(1)).item()
        print(loaded, utils is torch._dynamo.utils is sys.modules["torch._dynamo.utils"], compiled)
    """
    environment = {**os.environ, "PYTHONPATH": str(SOURCE)}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["set()", "True", "2.0"]


def test_names_of_the_run_folder_stand_in_runs_only() -> None:
    constants = vars(importlib.import_module("asr_ablations.runs.layout"))
    names = {value for key, value in constants.items() if key.isupper() and isinstance(value, str) and "." in value}
    assert {"summary.json", "utterances.csv", "sweep.json", "last.ckpt"} <= names
    literals = [
        f"{module}:{node.lineno}: {node.value}"
        for module in FILES
        if package(module) not in ("runs", "tools", "asr_verdicts")  # which reads no folder, and writes its own files
        for node in ast.walk(parsed(module))
        if isinstance(node, ast.Constant) and node.value in names
    ]
    assert not literals, "\n".join(literals)

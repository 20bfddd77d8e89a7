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
PACKAGES = {"asr_verdicts", "asr_benchmarks", "asr_serving", "hydra_plugins"}
FLOOR = {package: number for number, packages in enumerate(FLOORS) for package in packages}


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


def test_every_package_has_a_floor() -> None:
    folders = {path.name for path in (SOURCE / "asr_ablations").iterdir() if path.is_dir() and path.name[0] != "_"}
    modules = {path.stem for path in (SOURCE / "asr_ablations").glob("*.py")}
    assert modules == {"__init__", "__main__"}, "a module of asr_ablations lies in a package"
    assert folders | PACKAGES | {"scripts"} == FLOOR.keys()
    assert sum(map(len, FLOORS)) == len(FLOOR), "a package lies on one floor"


def test_imports_point_downwards() -> None:
    wrong = []
    for module in FILES:
        own = package(module)
        for line, imported in imports_of(module):
            other = package(imported) if imported in FILES else None
            if own and other and other != own and FLOOR[other] >= FLOOR[own]:
                wrong.append(f"{module}:{line}: {own} imports {imported}")
    assert not wrong, "\n".join(wrong)
    assert [module for module in FILES for _, name in imports_of(module) if name.startswith("publish")] == []


def test_the_verdicts_need_nothing_of_the_suite() -> None:
    """They import what their wheel needs, and what its extras or the user bring."""
    others = {"numpy", "scipy", "rapidfuzz", "rich", "matplotlib", "pandas", "whisper_normalizer"}
    known = {"asr_verdicts", *others, *sys.stdlib_module_names}
    modules = [module for module in FILES if package(module) == "asr_verdicts"]
    assert len(modules) > 30
    imported = [(module, line, name) for module in modules for line, name in imports_of(module)]
    assert [one for one in imported if one[2].partition(".")[0] not in known] == []


def test_the_wheel_of_the_verdicts_has_all_its_packages() -> None:
    project = (SOURCE / "asr_verdicts" / "pyproject.toml").read_text(encoding="utf-8")
    (listed,) = re.findall(r"^packages = (\[.*\])$", project, re.MULTILINE)
    folders = {path.parent.relative_to(SOURCE) for path in (SOURCE / "asr_verdicts").rglob("*.py")}
    assert sorted(ast.literal_eval(listed)) == sorted(".".join(folder.parts) for folder in folders)


def test_no_module_imports_itself_in_a_circle() -> None:
    graph = {module: {name for _, name in imports_of(module) if name in FILES} for module in FILES}
    try:
        tuple(TopologicalSorter({module: names - {module} for module, names in graph.items()}).static_order())
    except CycleError as error:
        pytest.fail(" → ".join(error.args[1]))


def test_a_run_folder_is_read_without_torch() -> None:
    """A comparison starts fast: what reads runs imports neither torch nor Lightning nor W&B before it needs them."""
    modules = [module for module in FILES if package(module) in ("runs", "comparison", "asr_verdicts")]
    slow = {"torch", "torchaudio", "torchmetrics", "pytorch_lightning", "lightning", "lightning_fabric", "wandb"}
    program = f"import sys, {', '.join(modules)}; print(*sorted({slow} & set(sys.modules)))"
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

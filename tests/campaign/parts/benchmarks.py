"""The frameworks that the benchmarks compare with PyTorch: their tests need 1.6 GB that no other test does."""

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from xml.etree import ElementTree

from asr_ablations.tools.files import REPOSITORY
from tests.campaign.part import Context, Report

NAME = "benchmarks"
DESCRIPTION = "JAX, Keras, TensorFlow and RETURNN compute what PyTorch does, and their benchmarks run"
FOLDER = Path(__file__).parents[1] / "frameworks"
PACKAGES = ("jax", "keras", "tensorflow", "returnn", "tree", "h5py")


def run(context: Context) -> Report:
    """The tests of each file in tests/campaign/frameworks."""
    report = context.report("tests of", "tests", "passed")
    if absent := [name for name in PACKAGES if find_spec(name) is None]:
        report.failures.append(f"{', '.join(absent)} not installed: make install EXTRAS=dev,benchmarks")
        return report
    files = [file for file in sorted(FOLDER.glob("*.py")) if file.stem != "conftest"]
    for file in context.while_time(files, len(files)):
        results = context.folder / f"{file.stem}.xml"
        options = ["-q", "-n", "0", "-p", "no:cacheprovider", f"--junitxml={results}"]
        command = [sys.executable, "-m", "pytest", *options, str(file)]
        ended = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
        cases = list(ElementTree.parse(results).iter("testcase")) if results.exists() else []
        failed = [
            case.attrib["name"] for case in cases if case.find("failure") is not None or case.find("error") is not None
        ]
        report.count("tests", len(cases))
        report.rows.append([file.stem, str(len(cases)), str(len(cases) - len(failed))])
        report.failures += [f"{file.stem}: {name}" for name in failed]
        if ended.returncode and not failed:
            report.failures.append(f"{file.stem}: {(ended.stdout + ended.stderr).strip().splitlines()[-1]}")
    return report

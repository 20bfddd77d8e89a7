"""The native library under AddressSanitizer: no read and no write past an end, over odd shapes."""

import subprocess
import sys

from asr_ablations.native import extension
from asr_ablations.tools.files import REPOSITORY
from tests.campaign.native_shapes import environment
from tests.campaign.part import Context, Report

NAME = "sanitizer"
DESCRIPTION = "the native library compiled with AddressSanitizer, over shapes drawn at random"
SHAPES = 100
"""Of each start of a process, which takes seconds itself."""
STARTS = 20
SECONDS = 900


def run(context: Context) -> Report:
    """All targets of this processor in turn."""
    report = context.report("target", "first seed", "shapes", "ended")
    words = extension.processor_words()
    targets = [name for name, needed in extension.TARGETS.items() if words.issuperset(needed)]
    if not targets:
        report.failures.append("this processor has no target")
        return report
    variables = environment(extension.compiler()[0])
    variables["XDG_CACHE_HOME"] = str(context.folder)  # no sanitized library among the others
    for number in context.while_time(range(STARTS * len(targets)), STARTS * len(targets)):
        target, first = targets[number % len(targets)], context.seed + SHAPES * (number // len(targets))
        command = [sys.executable, "-m", "tests.campaign.native_shapes", target, str(first), str(SHAPES)]
        ended = subprocess.run(
            command, cwd=REPOSITORY, env=variables, capture_output=True, text=True, timeout=SECONDS, check=False
        )
        fine = ended.returncode == 0 and ended.stdout.split() == [str(SHAPES)]
        report.count("shapes", SHAPES if fine else 0)
        report.rows.append([target, str(first), str(SHAPES), "fine" if fine else "failed"])
        if not fine:
            lines = ended.stderr.splitlines()
            last = next((line for line in reversed(lines) if line.startswith("seed ")), "before the first shape")
            error = next((line for line in lines if "ERROR" in line or "Error" in line), lines[-1] if lines else "?")
            report.failures.append(f"{target}: {last}: {error.strip()}")
    return report

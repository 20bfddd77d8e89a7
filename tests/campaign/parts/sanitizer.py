"""The native library under AddressSanitizer: no read and no write past an end, over odd shapes."""

import os
import subprocess
import sys

import torch

from asr_ablations.native import extension, operations
from asr_ablations.tools.files import REPOSITORY
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
        command = [sys.executable, "-m", "tests.campaign.parts.sanitizer", target, str(first), str(SHAPES)]
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


SANITIZED = ("-fsanitize=address", "-g", "-fno-omit-frame-pointer")


def environment(compiler: str) -> dict[str, str]:
    """Variables for a process with the sanitizer. Raises OSError and CalledProcessError where the compiler has none."""
    asked = subprocess.run([compiler, "-print-file-name=libasan.so"], capture_output=True, text=True, check=True)
    # what Python and torch leave behind at their end is theirs
    return {**os.environ, "LD_PRELOAD": asked.stdout.strip(), "ASAN_OPTIONS": "detect_leaks=0"}


def drawn(seed: int) -> str:
    """Run every operation once, forwards and backwards, and return the shape in words."""
    generator = torch.Generator().manual_seed(seed)

    def number(least: int, most: int) -> int:
        return int(torch.randint(least, most + 1, (), generator=generator))

    B, T, D, H = number(0, 9), number(0, 30), number(1, 70), number(1, 70)
    kind = list(operations.KINDS)[number(0, 3)]
    directions, concatenate, bfloat16 = number(1, 2), bool(number(0, 1)), bool(number(0, 1))
    torch.set_num_threads(number(1, 4))
    lengths = torch.randint(0, T + 2, (B,), generator=generator)
    words = f"seed {seed}: {kind} B={B} T={T} D={D} H={H} directions={directions} {concatenate} {bfloat16} {lengths}"
    print(words, file=sys.stderr, flush=True)  # the last line before a report
    gates = operations.KINDS[kind][1] * H
    shapes = ((gates, D), (gates, H), (gates,), (gates,))
    cells = [
        operations.Cell(kind, [torch.randn(s, requires_grad=True) for s in shapes], 1.0) for _ in range(directions)
    ]
    x = torch.randn(B, T, D, requires_grad=True)
    y = operations.recurrence(x, lengths, cells, concatenate=concatenate, bfloat16=bfloat16)
    operations.dropout(y, 0.3).sum().backward()
    inner, channels = number(1, 5), number(1, 300)
    image = torch.randn(B, T, inner, channels, requires_grad=True)
    weight, bias = torch.ones(channels, requires_grad=True), torch.zeros(channels, requires_grad=True)
    running = torch.zeros(channels), torch.ones(channels)
    bounds = {"momentum": 0.1, "epsilon": 1e-5, "low": 0.0, "high": 1.0}
    operations.batch_norm(image, lengths, weight, bias, running, **bounds).sum().backward()
    V = number(2, 40)
    counts = torch.randint(0, T + 2, (B,), generator=generator)
    labels = torch.randint(1, V, (int(counts.sum()),), generator=generator)
    log_probs = torch.randn(B, T, V).log_softmax(-1).requires_grad_()
    operations.ctc(log_probs, labels, lengths, counts).sum().backward()
    return words


def main() -> None:
    target, first, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    extension.EXTRA = SANITIZED
    extension.use(target)
    for seed in range(first, first + count):
        drawn(seed)
    print(count)


if __name__ == "__main__":
    main()

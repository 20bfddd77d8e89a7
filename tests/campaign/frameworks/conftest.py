from tests.asr_benchmarks.conftest import no_framework_but_torch
from tests.commands.conftest import corpora

__all__ = ["corpora", "no_framework_but_torch"]

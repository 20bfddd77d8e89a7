from tests.asr_benchmarks.conftest import no_framework_but_torch

__all__ = ["no_framework_but_torch"]

"""The rate of the library's matrix products."""

import subprocess
import time
from pathlib import Path

import pytest

from asr_ablations.native import extension

TIMED = """
#include "recurrence.h"
#include <chrono>
#include <cstdio>
template <class Op> double seconds(long m, long k, long n) {  // of the fastest of 20 products
  Buffer<uint32_t> left(m * words<Op>(k));
  Panels<Op> right(k, n);
  std::vector<float> to(m * n);
  left.zero(m * words<Op>(k));
  for (long p = 0; p < n / PANEL; p++) std::fill_n(right.panel(p), right.deep * PANEL, 0);
  double best = 1;
  for (int i = 0; i < 20; i++) {
    auto start = std::chrono::steady_clock::now();
    multiply<Op>(m, Left{left.data, words<Op>(k), 1, 0}, right, to.data(), n, false);
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  return best;
}
int main() { std::printf("%f", seconds<Float32>(8, 768, 768) / seconds<BFloat16>(8, 768, 768)); }
"""


def test_eight_rows_in_bfloat16_take_at_most_two_thirds_of_float32s_time(tmp_path: Path) -> None:
    if "avx512_bf16" not in extension.processor_words():
        pytest.skip("this processor has no AVX512-BF16")
    (tmp_path / "timed.cpp").write_text(TIMED)
    flags = [f"-I{extension.SOURCES[0].parent}", *extension.MACHINES["avx512_bf16"].split()]
    options = [flag for flag in extension.FLAGS if flag != "-shared"]
    command = [*extension.compiler(), *options, *flags, "timed.cpp", "-o", "timed"]
    subprocess.run(command, cwd=tmp_path, check=True)
    ratio, end = 0.0, time.monotonic() + 60
    while ratio < 1.5 and time.monotonic() < end:  # other processes may slow down either of them, but not for a minute
        ratio = max(ratio, float(subprocess.check_output([tmp_path / "timed"])))
    assert ratio >= 1.5

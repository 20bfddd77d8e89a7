"""Bus and links of GPUs from what nvidia-smi prints: texts written after NVIDIA's description of its format."""

from pathlib import Path

import pytest

from asr_ablations.runs.environment import buses, links, topology

MATRIX = """\
\t\x1b[4mGPU0\tGPU1\tGPU2\tGPU3\tNIC0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\x1b[0m
GPU0\t X \tNV2\tPHB\tSYS\tPIX\t0-19,40-59\t0\t\tN/A
GPU1\tNV2\t X \tSYS\tNV1\tNODE\t0-19,40-59\t0\t\tN/A
GPU2\tPHB\tSYS\t X \tNV2\tSYS\t20-39,60-79\t1\t\tN/A
GPU3\tSYS\tNV1\tNV2\t X \tSYS\t20-39,60-79\t1\t\tN/A
NIC0\tPIX\tNODE\tSYS\tSYS\t X \t\t\t\t

Legend:

  X    = Self
  NV#  = Connection traversing a bonded set of # NVLinks

NIC Legend:

  NIC0: mlx5_0
"""


def test_every_pair_has_its_link() -> None:
    assert links(MATRIX) == {
        "GPU0-GPU1": "NV2", "GPU0-GPU2": "PHB", "GPU0-GPU3": "SYS",
        "GPU1-GPU2": "SYS", "GPU1-GPU3": "NV1",
        "GPU2-GPU3": "NV2",
    }  # fmt: skip


def test_two_digits_are_no_other_gpu() -> None:
    """Of eleven GPUs: GPU1 and GPU10 are two."""
    names = [f"GPU{number}" for number in range(11)]
    rows = ["\t".join([row, *("X" if row == name else f"NV{len(row) + len(name)}" for name in names)]) for row in names]
    pairs = links("\n".join(["\t" + "\t".join(names), *rows]))
    assert len(pairs) == 11 * 10 // 2
    assert (pairs["GPU0-GPU1"], pairs["GPU1-GPU10"]) == ("NV8", "NV9")


@pytest.mark.parametrize(
    "answer", ["", "\tGPU0\tCPU Affinity\tNUMA Affinity\nGPU0\t X \t0-15\t0\n", "Unable to determine topology\n"]
)
def test_where_there_is_no_pair_there_is_no_link(answer: str) -> None:
    assert links(answer) == {}


def test_a_bus_has_generation_width_and_address() -> None:
    answer = "00000000:06:00.0, 3, 16\n00000000:07:00.0, [N/A], [N/A]\n"
    assert buses(answer) == ["PCIe 3 x16 at 00000000:06:00.0", "00000000:07:00.0"]
    assert buses("") == []


def test_a_machine_whose_tool_fails_shows_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool = tmp_path / "nvidia-smi"
    tool.write_text("#!/bin/sh\necho 'NVIDIA-SMI has failed'\nexit 9\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert topology() == ([], {})
    tool.unlink()
    assert topology() == ([], {})

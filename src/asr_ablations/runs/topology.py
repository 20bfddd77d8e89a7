"""How the GPUs of a machine are connected, as nvidia-smi tells it: their bus, and the link of each pair."""

import re
import subprocess
from collections.abc import Sequence

from asr_ablations.tools.files import Json

BUS = ("--query-gpu=pci.bus_id,pcie.link.gen.max,pcie.link.width.max", "--format=csv,noheader")
LINKS = ("topo", "-m")
SECONDS = 20
"""For one answer: a driver that hangs must not hold up a run."""

_STYLE = re.compile(r"\x1b\[[\d;]*m")
_GPU = re.compile(r"GPU\d+")


def topology() -> Json:
    """buses: a line per GPU; links: by pair of GPUs. Empty where nvidia-smi is absent or fails."""
    return {"buses": buses(_answer(BUS)), "links": links(_answer(LINKS))}


def buses(answer: str) -> list[str]:
    """Bus and address of each GPU: `PCIe 3 x16 at 00000000:06:00.0`; the address alone where the bus is not shown."""
    rows = [[cell.strip() for cell in line.split(",")] for line in answer.splitlines() if line.count(",") == 2]
    return [
        f"PCIe {generation} x{width} at {address}" if generation.isdecimal() and width.isdecimal() else address
        for address, generation, width in rows
    ]


def links(answer: str) -> dict[str, str]:
    """The link of each pair of GPUs from the matrix of `nvidia-smi topo -m`, in its words: NV2 is two NVLinks; PIX,
    PXB, PHB, NODE and SYS are ever longer ways over PCIe. Empty for a single GPU.
    """
    rows = [_STYLE.sub("", line).split() for line in answer.splitlines()]
    head = next((row for row in rows if len(row) > 1 and all(map(_GPU.fullmatch, row[:2]))), [])
    places = {name: place for place, name in enumerate(head, start=1) if _GPU.fullmatch(name)}
    cells = {row[0]: row for row in rows if row and row[0] in places and row is not head and len(row) > len(places)}
    return {
        f"{first}-{second}": cells[first][places[second]]
        for first in cells
        for second in places
        if places[first] < places[second]
    }


def _answer(words: Sequence[str]) -> str:
    try:
        command = ["nvidia-smi", *words]
        return subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return ""

"""A comparison as one HTML file that needs no network."""

import base64
import gzip
import json
import math
import re
from importlib.resources import files
from pathlib import Path
from typing import Any

from asr_ablations.comparison.result import Comparison
from asr_ablations.report.page.content import content
from asr_ablations.tools.files import write

_PLACE = re.compile(r"@@(\w+)@@")
SCRIPTS = ("tables.js", "curves.js", "main.js")


def write_page(comparison: Comparison, folder: Path) -> list[Path]:
    """<folder>/index.html with its data, its code and plotly inside; its path."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "index.html"
    write(path, render(comparison))
    return [path]


def render(comparison: Comparison) -> str:
    """The page's text."""
    parts = {
        "style": _own("style.css"),
        "script": "\n".join(_own(name) for name in SCRIPTS),
        "data": embedded(content(comparison)),
        "plotly": _plotly(),
    }
    pieces = _PLACE.split(_own("page.html"))  # text, name, text, …: what is put in is not searched again
    return "".join(parts[piece] if number % 2 else piece for number, piece in enumerate(pieces))


def embedded(value: Any) -> str:
    """JSON that can stand inside a <script>: no text in it can end the element or begin another."""
    text = json.dumps(_finite(value), ensure_ascii=False, separators=(",", ":"), default=str)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text.encode("utf-8", "replace").decode()


def _finite(value: Any) -> Any:
    """The value with None in place of nan and infinities, which JSON has not."""
    if isinstance(value, dict):
        return {str(key): _finite(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(inner) for inner in value]
    if hasattr(value, "item"):  # numpy's scalars
        value = value.item()
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _own(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


def _plotly() -> str:
    """plotly.js as its Python package carries it, compressed: 4.8 MB become 2.0."""
    code = files("plotly").joinpath("package_data", "plotly.min.js").read_bytes()
    return base64.b64encode(gzip.compress(code, 9, mtime=0)).decode()

"""A comparison as a single HTML file that needs no network."""

import base64
import gzip
import json
import re
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path

from asr_ablations.report.inspection import Inspected
from asr_ablations.report.page.content import content
from asr_verdicts.files import write
from asr_verdicts.report.document import Report
from asr_verdicts.report.files import plain

_PLACE = re.compile(r"@@(\w+)@@")
SCRIPTS = ("tables.js", "curves.js", "main.js")


def write_page(
    report: Report, folder: Path, figures: Sequence[Path] = (), inspected: Sequence[Inspected] = ()
) -> list[Path]:
    """Write <folder>/index.html, which includes data, code, plotly and figures; return its path."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "index.html"
    write(path, render(report, figures, inspected))
    return [path]


def render(report: Report, figures: Sequence[Path] = (), inspected: Sequence[Inspected] = ()) -> str:
    """Return the page's HTML."""
    parts = {
        "style": _read_own("style.css"),
        "script": "\n".join(_read_own(name) for name in SCRIPTS),
        "data": embedded(content(report, figures, inspected)),
        "plotly": _read_plotly(),
    }
    pieces = _PLACE.split(_read_own("page.html"))  # text, name, text, …; placeholders in inserted parts stay
    return "".join(parts[piece] if number % 2 else piece for number, piece in enumerate(pieces))


def embedded(value: object) -> str:
    """Return JSON for use inside <script>: its texts cannot end the element or start another."""
    text = json.dumps(plain(value), ensure_ascii=False, separators=(",", ":"), default=str)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text.encode("utf-8", "replace").decode()


def _read_own(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


def _read_plotly() -> str:
    """Return plotly.js from its Python package, compressed from 4.8 MB to 2.0 MB."""
    code = files("plotly").joinpath("package_data", "plotly.min.js").read_bytes()
    return base64.b64encode(gzip.compress(code, 9, mtime=0)).decode()

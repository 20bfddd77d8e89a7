"""Write docs/options.md, the reference of every option and key in conf/, from the yaml files and their comments.

make docs
"""

import ast
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from asr_ablations.tools.files import CONF, REPOSITORY, SOURCE, write

PAGE = REPOSITORY / "docs" / "options.md"
INTERNAL = ("_target_", "_partial_", "defaults", "hydra")
"""Keys of Hydra's own; users set none of them."""

TRAINING = "config"
"""The config of train.py, which others build upon."""

GLOBAL = "@package _global_"
LONGEST = 60
"""Characters of a default value; a longer one is cut off, since the file itself shows it."""

HEAD = """\
# Options

Every option of every group and every key, with its default value. This page is generated from `conf/` by `make docs`;
a test holds it current. On the command line, `group=option` chooses the file `conf/<group>/<option>.yaml`, and
`key=value` sets a plain value. [papers.md](papers.md) lists what is cited by a key, such as Doetsch2016 §4.3.
"""
COMMANDS = (
    ("evaluation", "evaluate.py", ()),
    ("transcribe", "transcribe.py", ()),
    ("export", "export.py", ()),
    ("language_model", "lm.py", ("lm",)),
    ("benchmarks", "benchmark.py", ("benchmark",)),
    ("prepare", "prepare.py", ()),
)
"""Configs of the commands other than train.py, each with its script and the groups that it alone has."""


@dataclass(frozen=True)
class Key:
    """One key of a yaml file with its default value as it is written there, and the comment beside it."""

    name: str
    default: str
    comment: str


def main() -> int:
    write(PAGE, page())
    print(f"wrote {PAGE.relative_to(REPOSITORY)}")
    return 0


def page() -> str:
    """The whole page as Markdown."""
    own = {group for _, _, groups in COMMANDS for group in groups}
    config = (CONF / f"{TRAINING}.yaml").read_text(encoding="utf-8")
    groups = [name for name in sorted(path.name for path in CONF.iterdir() if path.is_dir()) if name not in own]
    parts = [HEAD, _contents(groups), "## Keys of a training run\n", *_plain_keys(config)]
    chosen = _defaults(config)
    for group in groups:
        parts += _group(group, chosen.get(group))
    for name, script, more in COMMANDS:
        parts += _command(name, script, more)
    return "\n".join(parts)


def _contents(groups: Sequence[str]) -> str:
    links = ", ".join(f"[`{group}`](#{group})" for group in groups)
    scripts = ", ".join(f"[`{script}`](#{script.replace('.', '')})" for _, script, _ in COMMANDS)
    return f"[Plain keys](#keys-of-a-training-run). Groups: {links}. Other commands: {scripts}.\n"


def _plain_keys(text: str) -> Iterator[str]:
    """The keys of conf/config.yaml; a comment at the left margin begins another table."""
    parts: dict[str, list[Key]] = {}
    for heading, key in _headed(text):
        parts.setdefault(heading, []).append(key)
    for heading, keys in parts.items():
        yield from [f"{_plain(_sentence(heading))}\n"] if heading else []
        rows = [(_code(key.name), _code(key.default), _plain(key.comment)) for key in keys]
        yield _table(("key", "default", "meaning"), rows)


def _headed(text: str) -> Iterator[tuple[str, Key]]:
    """Each key with the comment at the left margin above it; the one at the head of the file is no heading."""
    lines = text.splitlines()
    starts = [number for number, line in enumerate(lines) if line and line[0] not in " #"]
    headings = {
        number: " ".join(line.lstrip("# ") for line in _comment_above(lines, number)) if number != starts[0] else ""
        for number in starts
    }
    heading = ""
    for number, key in _leaves(text):
        above = max(start for start in starts if start <= number)
        heading = headings[above] or heading
        yield heading, key


def _comment_above(lines: Sequence[str], number: int) -> list[str]:
    first = number
    while first and lines[first - 1].startswith("#"):
        first -= 1
    return list(lines[first:number])


def _group(group: str, default: str | None, level: str = "##", package: str = "") -> list[str]:
    """The options of one folder of conf/, and the keys of each.

    package: what the keys begin with, where that is not the name of the group.
    """
    files = sorted((CONF / group).glob("*.yaml"))
    options = [(_option(path.stem, path.stem == default), _plain(_meaning(path))) for path in files]
    parts = [f"{level} {group}\n", _table(("option", "what"), options)]
    if rows := _shared(files, package or group):
        parts.append(_table(("key", "of", "default", "meaning"), rows))
    return parts


def _option(name: str, is_default: bool) -> str:
    return f"**{_code(name)}** (default)" if is_default else _code(name)


def _shared(files: Iterable[Path], package: str) -> list[tuple[str, ...]]:
    """A row per key, with the options that have it with that default and comment."""
    rows: dict[tuple[str, str, str], list[str]] = {}
    for path in files:
        text = path.read_text(encoding="utf-8")
        prefix = "" if GLOBAL in text or not package else f"{package}."
        for _, key in _leaves(text):
            if key.name == path.parent.name:  # null: the option `none`
                continue
            rows.setdefault((f"{prefix}{key.name}", key.default, key.comment), []).append(path.stem)
        for group, option in _overrides(text):
            rows.setdefault((group, option, "the option chosen with it"), []).append(path.stem)
    return [
        (_code(name), ", ".join(map(_code, options)), _code(default), _plain(comment))
        for (name, default, comment), options in sorted(rows.items(), key=lambda row: row[0][0])
    ]


def _command(name: str, script: str, groups: Sequence[str]) -> list[str]:
    """The section of one command: its own keys, and its own groups."""
    path = CONF / f"{name}.yaml"
    text = path.read_text(encoding="utf-8")
    keys = [(_code(key.name), _code(key.default), _plain(key.comment)) for _, key in _leaves(text)]
    based = any(entry == TRAINING for entry in yaml.safe_load(text).get("defaults", []))
    also = f" It takes the keys and groups of a training run, too; see `conf/{name}.yaml`." if based else ""
    parts = [f"## {script}\n", f"{_plain(_sentence(_head(text)))}{also}\n"]
    parts += [_table(("key", "default", "meaning"), keys)] if keys else []
    for group in groups:
        parts += _group(group, _defaults(text).get(group), "###")
        inner = sorted(folder for folder in (CONF / group).rglob("*") if folder.is_dir() and [*folder.glob("*.yaml")])
        for folder in inner:
            parts += _group(folder.relative_to(CONF).as_posix(), None, "####", "…")
    return parts


def _defaults(text: str) -> dict[str, str]:
    """Group → option of a file's defaults list, `override /group` for what replaces another file's choice."""
    entries = (yaml.safe_load(text) or {}).get("defaults", [])
    return {key: str(option) for entry in entries if isinstance(entry, dict) for key, option in entry.items()}


def _overrides(text: str) -> list[tuple[str, str]]:
    """(group, option) of every `override` in a file's defaults list."""
    chosen = _defaults(text).items()
    return [(key.removeprefix("override /"), option) for key, option in chosen if key.startswith("override /")]


def _meaning(path: Path) -> str:
    """Describe an option: by the comment at the head of its file, else by the docstring of the module it names."""
    text = path.read_text(encoding="utf-8")
    if head := _head(text):
        return head
    target = str((yaml.safe_load(text) or {}).get("_target_", ""))
    if target.startswith("torch."):
        return f"`{target}`"
    module = SOURCE / f"{target.rpartition('.')[0].replace('.', '/')}.py"
    docstring = ast.get_docstring(ast.parse(module.read_text(encoding="utf-8"))) if module.is_file() else ""
    return _joined((docstring or "").partition("\n\n")[0].splitlines())


def _head(text: str) -> str:
    """The comment at the head of a file, without its package and without commands."""
    lines = []
    for line in text.splitlines():
        if not line.startswith("#"):
            break
        if GLOBAL not in line and not line.startswith("#   "):
            lines.append(line.removeprefix("#"))
    return _joined(lines)


def _leaves(text: str) -> Iterator[tuple[int, Key]]:
    """(line, key) of every value that a user can set; a mapping with a comment of its own is a key, too."""
    node = yaml.compose(text, Loader=yaml.SafeLoader)
    lines = text.splitlines()
    if isinstance(node, yaml.MappingNode):
        yield from _below(node, "", lines)


def _below(node: yaml.MappingNode, prefix: str, lines: Sequence[str]) -> Iterator[tuple[int, Key]]:
    for name, value in node.value:
        if name.value in INTERNAL:
            continue
        number = name.start_mark.line
        comment = _comment(lines, number)
        key = f"{prefix}{name.value}"
        if not isinstance(value, yaml.MappingNode) or _is_one_value(value):
            yield number, Key(key, _text(value, lines), comment)
            continue
        own = not value.flow_style
        if own and comment:
            yield number, Key(key, "", comment)
        yield from _below(value, f"{key}.", lines)


def _is_one_value(node: yaml.MappingNode) -> bool:
    """True if a mapping is shown as one value: it is empty, or its keys are file names and not settings."""
    return not node.value or any("-" in name.value for name, _ in node.value)


def _text(node: yaml.Node, lines: Sequence[str]) -> str:
    """A value as it is written, in one line."""
    if isinstance(node, yaml.ScalarNode):
        return node.value if node.style is None else f'"{node.value}"'
    start, end = node.start_mark, node.end_mark
    if node.flow_style and start.line == end.line:
        return _shortened(lines[start.line][start.column : end.column])
    value = yaml.safe_load("\n".join(lines[start.line : end.line]))
    return _shortened(yaml.safe_dump(_settings(value), default_flow_style=True, width=10_000, sort_keys=False).strip())


def _settings(value: Any) -> Any:
    """A value without Hydra's own keys."""
    if isinstance(value, dict):
        return {key: _settings(child) for key, child in value.items() if key not in INTERNAL}
    return [_settings(child) for child in value] if isinstance(value, list) else value


def _shortened(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[:LONGEST].rstrip()} …"


def _comment(lines: Sequence[str], number: int) -> str:
    """The comment beside a line and the lines of comment, indented, that continue it."""
    parts = [lines[number][len(_without_comment(lines[number])) :]]
    if not parts[0]:
        return ""
    for line in lines[number + 1 :]:
        if not (line.startswith(" ") and line.lstrip().startswith("#")):
            break
        parts.append(line.lstrip())
    return _joined(part.lstrip().removeprefix("#") for part in parts)


def _without_comment(line: str) -> str:
    """A line up to its comment, which `#` after a blank begins; none of the values of conf/ holds such a sign."""
    return line.partition(" #")[0]


def _joined(lines: Iterable[str]) -> str:
    return " ".join(" ".join(lines).split())


def _sentence(text: str) -> str:
    return text if not text or text.endswith((".", ":", "!")) else f"{text}."


def _plain(text: str) -> str:
    """Text in which Markdown sees no tag."""
    return text.replace("<", "\\<")


def _code(text: str) -> str:
    return f"`{text}`" if text else ""


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *([cell.replace("|", "\\|") for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |".replace("|  |", "| |") for line in lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())

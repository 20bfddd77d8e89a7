"""Write docs/options.md, the reference of all options and keys in conf/ and of the sweep files: make docs."""

import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import yaml

from asr_ablations.tools.files import CONF, REPOSITORY
from asr_ablations.tools.reference import GLOBAL, Key, defaults, head, headed, leaves, meaning, overrides, place
from asr_verdicts.files import write

PAGE = REPOSITORY / "docs" / "options.md"

TRAINING = "config"  # the config of train.py, on which others build

HEAD = """\
# Options

Every option of every group and every key, with its default value. This page is generated from `conf/` by `make docs`;
a test holds it current. On the command line, `group=option` chooses the file `conf/<group>/<option>.yaml`, and
`key=value` sets a plain value. [papers.md](papers.md) lists what is cited by a key, such as Doetsch2016 §4.3.
"""
COMMANDS = (
    ("evaluation", "evaluate.py", ("condition",)),
    ("transcribe", "transcribe.py", ()),
    ("export", "export.py", ()),
    ("language_model", "lm.py", ("lm",)),
    ("benchmarks", "benchmark.py", ("benchmark",)),
    ("prepare", "prepare.py", ()),
)
"""Configs of the commands other than train.py, with their scripts and the groups that only they have."""


def main() -> int:
    write(PAGE, page())
    print(f"wrote {PAGE.relative_to(REPOSITORY)}")
    return 0


def page() -> str:
    """Return the page as Markdown."""
    others = {group for _, _, groups in COMMANDS for group in groups}
    config = (CONF / f"{TRAINING}.yaml").read_text(encoding="utf-8")
    groups = [name for name in sorted(path.name for path in CONF.iterdir() if path.is_dir()) if name not in others]
    links = ", ".join(f"[`{group}`](#{group})" for group in groups)
    scripts = ", ".join(f"[`{script}`](#{script.replace('.', '')})" for _, script, _ in COMMANDS)
    contents = (
        "[Plain keys](#keys-of-a-training-run). [Sweep files](#sweep-files). "
        f"Groups: {links}. Other commands: {scripts}.\n"
    )
    parts = [HEAD, contents, "## Keys of a training run\n", *_plain_keys(config)]
    chosen = defaults(config)
    for group in groups:
        parts += _group(group, chosen.get(group))
    for name, script, more in COMMANDS:
        parts += _command(name, script, more)
    questions = {path.stem: meaning(path).partition("?")[0] for path in sorted((REPOSITORY / "sweeps").glob("*.yaml"))}
    rows = [(_code(name), f"{_plain(question)}?") for name, question in questions.items()]
    parts += ["## Sweep files\n", _table(("file", "question"), rows)]
    return "\n".join(parts)


def _plain_keys(text: str) -> Iterator[str]:
    """Yield tables of the keys in conf/config.yaml; a comment at the left margin begins a new table."""
    parts: dict[str, list[Key]] = {}
    for heading, key in headed(text):
        parts.setdefault(heading, []).append(key)
    for heading, keys in parts.items():
        yield from [f"{_plain(_sentence(heading))}\n"] if heading else []
        rows = [(_code(key.name), _code(key.default), _plain(key.comment)) for key in keys]
        yield _table(("key", "default", "meaning"), rows)


def _group(group: str, default: str | None, level: str = "##", package: str = "") -> list[str]:
    """Describe the options of a folder of conf/, and their keys. package: prefix of the keys, by default the group."""
    files = sorted((CONF / group).glob("*.yaml"))
    names = {path: f"**{_code(path.stem)}** (default)" if path.stem == default else _code(path.stem) for path in files}
    options = [(name, _plain(meaning(path))) for path, name in names.items()]
    parts = [f"{level} {group}\n", _table(("option", "what"), options)]
    if rows := _shared(files, package):
        parts.append(_table(("key", "of", "default", "meaning"), rows))
    return parts


def _shared(files: Iterable[Path], package: str) -> list[tuple[str, ...]]:
    """Return a row per key, default and comment, with the options that share them."""
    rows: dict[tuple[str, str, str], list[str]] = {}
    for path in files:
        text = path.read_text(encoding="utf-8")
        prefix = "" if GLOBAL in text else f"{package or place(path)}."
        for _, key in leaves(text):
            if key.name == path.parent.name:  # null: the option `none`
                continue
            rows.setdefault((f"{prefix}{key.name}", key.default, key.comment), []).append(path.stem)
        for group, option in overrides(text):
            rows.setdefault((group, option, "the option chosen with it"), []).append(path.stem)
    return [
        (_code(name), ", ".join(map(_code, options)), _code(default), _plain(comment))
        for (name, default, comment), options in sorted(rows.items(), key=lambda row: row[0][0])
    ]


def _command(name: str, script: str, groups: Sequence[str]) -> list[str]:
    """Return the section of one command: the keys and groups that only it has."""
    path = CONF / f"{name}.yaml"
    text = path.read_text(encoding="utf-8")
    keys = [(_code(key.name), _code(key.default), _plain(key.comment)) for _, key in leaves(text)]
    based = any(entry == TRAINING for entry in yaml.safe_load(text).get("defaults", []))
    also = f" It takes the keys and groups of a training run, too; see `conf/{name}.yaml`." if based else ""
    parts = [f"## {script}\n", f"{_plain(_sentence(head(text)))}{also}\n"]
    parts += [_table(("key", "default", "meaning"), keys)] if keys else []
    for group in groups:
        parts += _group(group, defaults(text).get(group), "###")
        inner = sorted(folder for folder in (CONF / group).rglob("*") if folder.is_dir() and [*folder.glob("*.yaml")])
        for folder in inner:
            parts += _group(folder.relative_to(CONF).as_posix(), None, "####", "…")
    return parts


def _sentence(text: str) -> str:
    return text if not text or text.endswith((".", ":", "!")) else f"{text}."


def _plain(text: str) -> str:
    """Escape text so that Markdown sees no tags."""
    return text.replace("<", "\\<")


def _code(text: str) -> str:
    return f"`{text}`" if text else ""


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *([cell.replace("|", "\\|") for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |".replace("|  |", "| |") for line in lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())

"""Help texts for the options and keys in conf/, generated from the comments in its yaml files."""

import ast
import difflib
import itertools
import re
import shutil
import textwrap
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from asr_ablations.tools.files import CONF, DEFAULTS, SOURCE, typed
from asr_ablations.tools.launchers import LAUNCHERS
from asr_verdicts.errors import UsageError

INTERNAL = ("_target_", "_partial_", "defaults", "hydra")  # Hydra's keys, which users do not set
GLOBAL = "@package _global_"
SEVERAL = ("callbacks", "condition")
"""Groups of which a config may choose several options: an option's keys lie below its name."""
LONGEST = 60  # maximum number of characters of a printed default value; longer values are cut off


@dataclass(frozen=True)
class Key:
    """A key of a yaml file, with its default value as written in the file and the comment next to it."""

    name: str
    default: str
    comment: str


def headed(text: str) -> Iterator[tuple[str, Key]]:
    """Yield (heading, key) for each key in a yaml text. A heading is the unindented comment above a group of keys.

    The comment at the top of the file is not a heading.
    """
    lines = text.splitlines()
    starts = [number for number, line in enumerate(lines) if line and line[0] not in " #"]
    headings = dict.fromkeys(starts[:1], "")
    for number in starts[1:]:
        above = [*itertools.takewhile(lambda line: line.startswith("#"), reversed(lines[:number]))]
        headings[number] = " ".join(line.lstrip("# ") for line in reversed(above))
    heading = ""
    for number, key in leaves(text):
        heading = headings[max(start for start in starts if start <= number)] or heading
        yield heading, key


def meaning(path: Path) -> str:
    """Return the comment at the top of an option's file, or else the first paragraph of its module's docstring."""
    if title := head(text := path.read_text(encoding="utf-8")):
        return title
    target = str((yaml.safe_load(text) or {}).get("_target_", ""))
    if target.startswith("torch."):
        return f"`{target}`"
    module = SOURCE / f"{target.rpartition('.')[0].replace('.', '/')}.py"
    docstring = ast.get_docstring(ast.parse(module.read_text(encoding="utf-8"))) if module.is_file() else ""
    return _join((docstring or "").partition("\n\n")[0].splitlines())


def head(text: str) -> str:
    """Return the comment at the top of a yaml file, without Hydra's package line and without example commands."""
    lines = itertools.takewhile(lambda line: line.startswith("#"), text.splitlines())
    return _join(line.removeprefix("#") for line in lines if GLOBAL not in line and not line.startswith("#   "))


def leaves(text: str) -> Iterator[tuple[int, Key]]:
    """Yield (line number, key) for every value that a user can set. A mapping with a comment also counts as a key."""
    node = yaml.compose(text, Loader=yaml.SafeLoader)
    if isinstance(node, yaml.MappingNode):
        yield from _walk(node, "", text.splitlines())


def _walk(node: yaml.MappingNode, prefix: str, lines: Sequence[str]) -> Iterator[tuple[int, Key]]:
    for name, value in node.value:
        if name.value in INTERNAL:
            continue
        number = name.start_mark.line
        comment = _read_comment(lines, number)
        key = f"{prefix}{name.value}"
        # a mapping is a single value if it is empty, or if its keys are file names instead of settings
        parts = value.value if isinstance(value, yaml.MappingNode) else []
        if not parts or any("-" in part.value for part, _ in parts):
            yield number, Key(key, _format_value(value, lines), comment)
            continue
        if comment and not value.flow_style:
            yield number, Key(key, "", comment)
        yield from _walk(value, f"{key}.", lines)


def _format_value(node: yaml.Node, lines: Sequence[str]) -> str:
    """Format a yaml value in one line, as it is written in the file."""
    if isinstance(node, yaml.ScalarNode):
        return node.value if node.style is None else f'"{node.value}"'
    start, end = node.start_mark, node.end_mark
    if node.flow_style and start.line == end.line:
        text = lines[start.line][start.column : end.column]
    else:
        value = _strip(yaml.safe_load("\n".join(lines[start.line : end.line])))
        text = yaml.safe_dump(value, default_flow_style=True, width=10_000, sort_keys=False).strip()
    return text if len(text) <= LONGEST else f"{text[:LONGEST].rstrip()} …"


def _strip(value: Any) -> Any:
    """Remove Hydra's keys from a value, at any depth."""
    if isinstance(value, dict):
        return {key: _strip(child) for key, child in value.items() if key not in INTERNAL}
    return [_strip(child) for child in value] if isinstance(value, list) else value


def _read_comment(lines: Sequence[str], number: int) -> str:
    """Return the comment at the end of a line, and the indented comment lines below that continue the comment."""
    comment = lines[number].partition(" #")[2]  # values in conf/ never contain " #"
    below = itertools.takewhile(lambda line: line[:1] == " " and line.lstrip()[:1] == "#", lines[number + 1 :])
    return _join([comment, *(line.lstrip().removeprefix("#") for line in below)]) if comment else ""


def _join(lines: Iterable[str]) -> str:
    return " ".join(" ".join(lines).split())


def defaults(text: str) -> dict[str, str]:
    """Return the option of each group in a file's defaults list. Overrides have keys such as `override /group`."""
    entries = (yaml.safe_load(text) or {}).get("defaults", [])
    return {key: str(option) for entry in entries if isinstance(entry, dict) for key, option in entry.items()}


def overrides(text: str) -> list[tuple[str, str]]:
    """Return (group, option) for every `override` in a file's defaults list."""
    chosen = defaults(text).items()
    return [(key.removeprefix("override /"), option) for key, option in chosen if key.startswith("override /")]


KEYS = "keys"  # argument of --help that explains all plain keys of a command
NARROWEST = 60


@dataclass(frozen=True)
class Help:
    """The help that a command prints for --help.

    file: the command's main file in conf/. plain: the command's keys outside groups. groups: the command's groups.
    adds_keys: whether `--help keys` also explains keys in groups. folders: conf/ and the user's config folder, if any.
    header: examples of the command, by default those in its file.
    """

    file: Path
    plain: Collection[str]
    groups: Collection[str]
    adds_keys: bool
    folders: Sequence[Path]
    header: str | None = None

    def overview(self) -> str:
        """Return examples of the command, its groups with their options, and how to get more help."""
        content = yaml.safe_load(self.file.read_text(encoding="utf-8"))
        words = content.get("hydra", {}).get("help", {}) if self.header is None else {"header": self.header}
        name = "train" if self.file == DEFAULTS else self.file.stem
        head = words.get("header", "").replace("${hydra.help.app_name}", name).rstrip()
        parts = [re.sub(r"python src/(\w+)\.py", lambda command: typed(command[1]), head), ""]
        if self.groups:
            parts.append("== Configuration groups ==")
            options = {group: ", ".join(file.stem for file in self._files(group)) for group in sorted(self.groups)}
            parts += [_wrap(f"{group}: ", names) for group, names in options.items() if names]
            group = "norm" if "norm" in self.groups else min(self.groups)
            parts += ["", f"--help <group>   explains its options and their keys, for example --help {group}"]
        key = "precision" if "precision" in self.plain else min(self.plain)
        parts += [f"--help keys      explains the plain keys; --help <key> explains one key, for example --help {key}"]
        return "\n".join([*parts, "", words.get("footer", "").strip()]).rstrip()

    def explain(self, topic: str) -> str:
        """Explain a group, a key or all keys. Raises UsageError for any other topic."""
        texts = dict.fromkeys(file.read_text(encoding="utf-8") for file in (self.file, DEFAULTS))
        chosen = {group: option for text in reversed(texts) for group, option in defaults(text).items()}
        plain = [key for text in texts for _, key in headed(text) if key.name.split(".")[0] in self.plain]
        if topic == KEYS:
            added = [group for group in defaults(next(iter(texts))) if self.adds_keys and " " not in group]
            keys = [*_once(plain), *_once(key for group in added for file in self._files(group) for key in _keys(file))]
            return "\n".join(map(_describe, keys))
        if topic in ("launcher", "hydra/launcher", "hydra.launcher"):
            return "\n\n".join(map(_explain_launcher, LAUNCHERS))
        if (CONF / topic).is_dir():
            return self._explain_group(topic, chosen.get(topic))
        within = [key for file in self._files(topic.partition(".")[0]) for key in _keys(file)]
        if wanted := [key for key in [*_once(plain), *within] if f"{key.name}.".startswith(f"{topic}.")]:
            return "\n".join(dict.fromkeys(map(_describe, wanted)))
        names = [*self.groups, *(key.name for key in _once(plain)), KEYS, "launcher"]
        near = ", ".join(difflib.get_close_matches(topic, names, n=2)) or f"a group: {', '.join(sorted(self.groups))}"
        raise UsageError(f"--help {topic}: there is no such key or group; expected keys, or {near}")

    def _explain_group(self, group: str, default: str | None) -> str:
        files = self._files(group)
        example = f", for example {typed('train')} {group}={files[0].stem}"
        parts = [group + example * (group in defaults(DEFAULTS.read_text(encoding="utf-8"))), ""]
        for file in files:
            mark = " (default)" if file.stem == default else ""
            parts.append(_wrap(f"{group}={file.stem}{mark}  ", meaning(file)))
            parts += [textwrap.indent(_describe(key), "    ") for key in _keys(file)]
        return "\n".join(parts)

    def _files(self, group: str) -> list[Path]:
        return [file for folder in self.folders for file in sorted((folder / group).glob("*.yaml"))]


def _explain_launcher(name: str) -> str:
    default = " (default)" if name == "processes" else ""
    keys = [Key(f"hydra.launcher.{key}", value, comment) for key, value, comment in LAUNCHERS[name]]
    return "\n".join([f"hydra/launcher={name}{default}", *(textwrap.indent(_describe(key), "    ") for key in keys)])


def _once(keys: Iterable[Key]) -> list[Key]:
    """Return each key once, with its first default value and its first comment."""
    by_name: dict[str, Key] = {}
    for key in keys:
        first = by_name.setdefault(key.name, key)
        by_name[key.name] = replace(first, comment=first.comment or key.comment)
    return list(by_name.values())


def _keys(file: Path) -> list[Key]:
    """Return the keys in an option's file, with the names that a user types."""
    text, group = file.read_text(encoding="utf-8"), file.parent.name
    prefix = "" if GLOBAL in text else f"{place(file)}."
    return [replace(key, name=f"{prefix}{key.name}") for _, key in leaves(text) if key.name != group]


def place(file: Path) -> str:
    """Return the key below which an option's file places its keys."""
    group = file.parent.name
    return f"{group}.{file.stem}" if group in SEVERAL else group


def _describe(key: Key) -> str:
    return _wrap(f"{key.name}={key.default}  ", key.comment)


def _wrap(head: str, text: str) -> str:
    width = max(NARROWEST, shutil.get_terminal_size((100, 24)).columns)
    return textwrap.fill(f"{head}{text}".rstrip(), width, subsequent_indent="    ", break_long_words=False)

"""The documented commands compose, and the trainings among them run; what the pages say is so."""

import re
import shlex
from functools import cache
from pathlib import Path

import pytest
import yaml
from hydra.core.override_parser.overrides_parser import OverridesParser

from asr_ablations.commands import compare, doctor, housekeeping, new_variant, overview, reproduce
from asr_ablations.runs import layout
from asr_ablations.tools.files import REPOSITORY
from publish import options
from tests.helpers.command import (
    SHORT_SPEECH,
    SMALL_MODEL,
    documented_commands,
    documented_lines,
    pages,
    run,
    run_folders,
)
from tests.helpers.interpreter import expect
from tests.helpers.run_results import train
from tests.helpers.support import CONF, composed_by_hydra, group_options
from tests.helpers.sweep_files import composed

PYTHON = documented_commands()
WRITTEN = [page for page in pages() if page != options.PAGE]
"""The pages that people write."""
every_page = pytest.mark.parametrize("page", WRITTEN, ids=lambda page: page.stem)


def test_each_entry_script_is_shown():
    shown = " ".join(PYTHON)
    assert all(f"src/{script.name}" in shown for script in (REPOSITORY / "src").glob("*.py"))


def test_each_benchmark_is_shown():
    shown = re.findall(r"benchmark=(\w+)", " ".join(PYTHON))
    assert sorted(shown) == group_options("benchmark")


def test_other_commands_are_targets_of_the_makefile():
    makefile = (REPOSITORY / "Makefile").read_text(encoding="utf-8")
    for line in documented_lines():
        command, target = line.split()[:2]
        assert command != "make" or re.search(rf"^{target}:.*##", makefile, flags=re.MULTILINE), line
        assert command != "asr-ablations" or (REPOSITORY / "src" / f"{target}.py").exists(), line
    assert re.search(r"^train: install .*\n\t\.venv/bin/python src/train\.py \$\(ARGS\)$", makefile, re.MULTILINE)


def test_the_readme_is_for_the_first_five_minutes_and_links_every_page():
    content = (REPOSITORY / "README.md").read_bytes()
    assert len(content) <= 9 * 1024
    assert [page.name for page in pages()[1:] if f"docs/{page.name}" not in content.decode()] == []


def test_the_options_page_is_current():
    assert options.PAGE.read_text(encoding="utf-8") == options.page(), "make docs writes it anew"


def code(page: Path) -> list[str]:
    """What a page sets in `code`, its blocks left out."""
    return re.findall(r"`([^`\n]+)`", re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL))


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.stem)
def test_every_link_leads_somewhere(page):
    def anchors(page: Path) -> set[str]:
        """What links to a page's headings may end in, as GitHub makes them."""
        text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
        headings = re.findall(r"^#+ (.*)$", text, flags=re.MULTILINE)
        return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}

    links = re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8"))
    for link in links:
        if link.startswith("https://"):
            continue
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


def test_the_installation_page_lists_the_extras():
    page = (REPOSITORY / "docs" / "installation.md").read_text(encoding="utf-8")
    (listed,) = re.findall(r"The extras: (.*?)\.\n", page, flags=re.DOTALL)
    text = (REPOSITORY / "pyproject.toml").read_text(encoding="utf-8")
    section = text.partition("[project.optional-dependencies]\n")[2].partition("\n[")[0]
    extras = set(re.findall(r"^([\w-]+) = \[", section, flags=re.MULTILINE))
    assert set(re.findall(r"`(\w+)`", listed)) - {"make"} == extras - {"dev"}


@cache
def groups() -> dict[str, list[str]]:
    return {folder.name: group_options(folder.name) for folder in CONF.iterdir() if folder.is_dir()}


@cache
def known_keys() -> set[str]:
    """Every group, every key that the page of options shows, and those that sweep files have for themselves."""
    rows = [re.split(r"(?<!\\)\|", line)[1:-1] for line in options.page().splitlines() if line.startswith("| `")]
    keys = {row[0].strip(" `") for row in rows if len(row) > 2} | set(groups())
    for file in (REPOSITORY / "sweeps").glob("*.yaml"):
        own = {key: value for key, value in yaml.safe_load(file.read_text("utf-8")).items() if isinstance(value, dict)}
        keys |= {f"{key}.{one}" for key, value in own.items() if key not in ("hydra", "ablation") for one in value}
    return keys


@every_page
def test_every_key_and_option_exists(page):
    """In `code`, key=value is an override; `wandb=` is compare's, and what begins with + or hydra is Hydra's."""
    overrides = [word for text in code(page) for word in text.split() if re.fullmatch(r"[a-z][\w.]*=[^()]*", word)]
    for override in overrides:
        key, _, value = override.partition("=")
        if key == "wandb" or key.startswith("hydra."):
            continue
        assert key in known_keys(), override
        if key in groups() and re.fullmatch(r"[\w,]+", value) and value != "mine":
            assert set(value.split(",")) <= set(groups()[key]), override


@every_page
def test_every_file_exists(page):
    """Paths are from the repository, or from a package in src/; `mine` is the reader's own."""
    paths = [text for text in code(page) if re.fullmatch(r"[\w.-]+(/[\w.*-]+)+", text)]
    files = [path for path in paths if path.endswith((".py", ".yaml", ".md")) and not path.startswith("outputs/")]
    for path in files:
        starts = [REPOSITORY / folder for folder in ("", "src", "src/asr_ablations", "src/asr_verdicts")]
        assert "mine" in path or path == "sweeps/RESULTS.md" or any([*start.glob(path)] for start in starts), path


def test_every_file_of_a_run_is_explained():
    page = (REPOSITORY / "docs" / "runs.md").read_text(encoding="utf-8")
    names = [value for name, value in vars(layout).items() if name.isupper() and isinstance(value, str)]
    assert len(names) > 20
    assert [name for name in names if name not in page] == []


def first_values(words: list[str]) -> list[str]:
    """Overrides of one arm: of each value with commas the first, something for each placeholder."""
    parser = OverridesParser.create()
    parsed = parser.parse_overrides([re.sub("<.*?>", "placeholder", word) for word in words if "=" in word])
    swept = [next(iter(one.sweep_string_iterator())) if one.is_sweep_override() else None for one in parsed]
    return [
        f"{one.key_or_group}={value}" if value else one.input_line for one, value in zip(parsed, swept, strict=True)
    ]


@pytest.mark.parametrize("line", PYTHON)
def test_its_keys_and_options_exist(line):
    """The config of every documented command composes, and its options are those of its parser."""
    configs = {
        **{"train": "config", "prepare": "prepare", "evaluate": "evaluation", "transcribe": "transcribe"},
        **{"check": "config", "export": "export", "lm": "language_model", "benchmark": "benchmarks"},
    }
    parsers = {"compare": compare.parser, "reproduce": reproduce.parser}
    parsers |= {"ls": overview.list_parser, "status": overview.status_parser, "diff": overview.diff_parser}
    parsers |= {
        "sweeps": overview.sweep_files_parser,
        "rm": housekeeping.remove_parser,
        "mv": housekeeping.rename_parser,
    }
    parsers |= {"new": new_variant.parser, "doctor": doctor.doctor_parser}
    script, *words = shlex.split(re.sub("<.*?>", "placeholder", line))
    name = Path(script).stem
    if name in parsers:
        parsers[name]().parse_known_args(words)
    elif "-cn" in words:
        composed(words[words.index("-cn") + 1], *first_values(words), "overrides=[]")
    else:
        composed_by_hydra(tuple(first_values(words)), configs[name])


@pytest.mark.slow
def test_every_training_runs(manifests, corpora, tmp_path, monkeypatch):
    """One arm of each, shrunken. Tests of their own run those that need a folder, a file in sweeps/ or a launcher."""
    monkeypatch.setenv("ASR_ABLATIONS_DATA", str(corpora))
    of_others = ("<", "-cn", "arms=", "hydra/launcher=")
    lines = [line for line in PYTHON if line.startswith("src/train.py") and not any(mark in line for mark in of_others)]
    folders = set()
    for line in lines:
        small = [*SMALL_MODEL, "max_epochs=1", "logger=csv", "plan=false", "sweep=s", f"outputs={tmp_path}"]
        small += [f"data.root={manifests}"] if "data=manifest" in line else SHORT_SPEECH
        small += ["model.convolutions.0.channels=8"] if "model=itu" in line else []  # of 600
        folders.add(train(composed_by_hydra((*first_values(shlex.split(line)[1:]), *small))))
    assert 6 <= len(folders) == len(run_folders(tmp_path)) <= len(lines)


@pytest.mark.slow
@pytest.mark.parametrize("line", [line for line in PYTHON if line.startswith("src/lm.py")])
def test_every_language_model_is_made(line, corpora, tmp_path):
    done = expect(0, run([*shlex.split(line), *SHORT_SPEECH, *SMALL_MODEL], corpora, tmp_path))
    assert "Warning" not in done.stderr
    assert run_folders(tmp_path)

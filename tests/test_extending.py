"""A new variant is one Python file and one yaml: in a copy of the repository, the tests find it and judge it."""

import os
import re
import shutil
import sys
from pathlib import Path

import pytest

from tests.helpers.interpreter import program
from tests.helpers.support import REPOSITORY

SOURCE = "src/asr_ablations"
NORM = {
    f"{SOURCE}/components/norm/frame_rms.py": '''
        """Root mean square normalisation of each frame (Zhang & Sennrich 2019)."""

        from torch import nn


        class FrameRMS(nn.Module):
            def __init__(self, frame, *, epsilon):
                super().__init__()
                self.axes, self.epsilon = tuple(range(-len(frame), 0)), epsilon

            def forward(self, x, lengths):
                return x * (x.float().square().mean(self.axes, keepdim=True) + self.epsilon).rsqrt().to(x.dtype)
        ''',
    "conf/norm/frame_rms.yaml": """
        _target_: asr_ablations.components.norm.frame_rms.FrameRMS
        _partial_: true
        epsilon: 1.0e-3
        """,
}
LEAKING = {
    f"{SOURCE}/components/norm/leaking.py": '''
        """A wrong one: the mean over time holds the padding."""

        from torch import nn


        class Leaking(nn.Module):
            def __init__(self, frame):
                super().__init__()

            def forward(self, x, lengths):
                return x - x.mean(dim=1, keepdim=True)
        ''',
    "conf/norm/leaking.yaml": """
        _target_: asr_ablations.components.norm.leaking.Leaking
        _partial_: true
        """,
}
CORPUS = {
    f"{SOURCE}/components/data/sheets.py": '''
        """A table per split, <root>/<split>.tsv: id, speaker, audio file and text."""

        from pathlib import Path

        from asr_ablations.data.corpus import Corpus, file_utterance, text_of
        from asr_ablations.tools.errors import UsageError


        class Sheets(Corpus):
            def prepare(self):
                for split in self.folders():
                    if self.root is None or not (self.root / f"{split}.tsv").is_file():
                        raise UsageError(f"no {split}.tsv in {self.root}; to prepare it: {self.prepare_command()}")

            def find(self, split):
                rows = [line.split("\\t") for line in text_of(self.root / f"{split}.tsv").splitlines()]
                return [file_utterance(id_, speaker, Path(audio), text) for id_, speaker, audio, text in rows]

            def write(self, split, utterances):
                self.root.mkdir(parents=True, exist_ok=True)
                rows = [f"{u.id}\\t{u.speaker}\\t{u.audio}\\t{u.text}\\n" for u in utterances]
                (self.root / f"{split}.tsv").write_text("".join(rows), encoding="utf-8")
        ''',
    "conf/data/sheets.yaml": """
        _target_: asr_ablations.components.data.sheets.Sheets
        root: null
        language: en
        train: [train]
        validation: [dev]
        test: [test]
        max_seconds: null
        max_evaluated_seconds: null
        on_bad: stop

        # tests:
        #   beside: [data.root=<sheets>, batch.size=4, max_epochs=1]
        #   root: <sheets-copy>
        #   language: pl
        #   train.0: dev
        #   validation.0: test
        #   test.0: dev
        #   max_seconds: 0.8
        #   max_evaluated_seconds: 0.8
        #   on_bad: {to: skip, beside: ["alphabet.characters='abcde '"], refused: data.on_bad=skip leaves}
        """,
}
LANGUAGE = {
    f"{SOURCE}/synthesis/languages/esperanto.py": '''
        """Esperanto: an accusative in -n, and no exceptions."""

        from asr_ablations.synthesis.languages import Language, parse_grammar, words

        NOUNS = words("""hundo kato domo arbo libro tablo seĝo pano akvo lakto pomo floro birdo fiŝo ĉevalo strato urbo
            monto maro suno luno stelo knabo knabino viro virino patro patrino frato fratino amiko kampo ĝardeno""")
        VERBS = words("vidas havas amas trovas portas aĉetas vendas donas prenas legas manĝas trinkas serĉas aŭdas")
        ADJECTIVES = words("granda malgranda bela bona nova malnova ruĝa verda blanka nigra")
        GRAMMAR = """
        SENTENCE
          3 la SUBJECT VERB la OBJECT | 1 la SUBJECT kaj la SUBJECT VERB OBJECT
          1 la ADJECTIVE SUBJECT VERB la WHICH OBJECT
        """


        def language():
            objects, which = [f"{noun}n" for noun in NOUNS], [f"{adjective}n" for adjective in ADJECTIVES]
            categories = {"SUBJECT": NOUNS, "OBJECT": objects, "VERB": VERBS, "ADJECTIVE": ADJECTIVES, "WHICH": which}
            return Language(parse_grammar(GRAMMAR), categories, list, {"clean": ("eo",), "other": ("eo",)})
        ''',
    "conf/alphabet/esperanto.yaml": """
        _target_: asr_ablations.components.alphabet.spelled.spelled
        _partial_: true
        characters: "abcĉdefgĝhĥijĵklmnoprsŝtuŭvz '"
        separation: null

        # tests:
        #   characters: "abcdefgh"
        #   separation: "_"
        """,
}
GROUP = {
    f"{SOURCE}/training/jitter.py": '''
        """A factor that shakes the loss."""

        from typing import Protocol


        class Jitter(Protocol):
            """jitter: a factor."""

            def __call__(self) -> float:
                """A number above 0."""
        ''',
    **{
        f"{SOURCE}/components/jitter/{name}.py": f'''
        """The factor {factor}."""


        def {name}():
            return {factor}
        '''
        for name, factor in (("still", 1.0), ("shaken", 1.1))
    },
    **{
        f"conf/jitter/{name}.yaml": f"""
        _target_: asr_ablations.components.jitter.{name}.{name}
        _partial_: true
        """
        for name in ("still", "shaken")
    },
}
FOUND = {
    "tests/components/test_contracts.py": ["norm-frame_rms", "data-sheets", "alphabet-esperanto", "jitter-shaken"],
    "tests/components/norm/test_norm_contract.py": ["frame_rms", "leaking"],
    "tests/components/model/test_model_contract.py": ["frame_rms"],
    "tests/components/init/test_init_contract.py": ["frame_rms"],
    "tests/components/alphabet/test_alphabet_contract.py": ["esperanto"],
    "tests/data/test_corpora.py": ["sheets"],
    "tests/synthesis/test_synthesis.py": ["esperanto", "esperanto-97"],
    "tests/config/test_config.py": [
        "norm-frame_rms",
        "data-sheets",
        "alphabet-esperanto",
        "jitter-still",
        "jitter-shaken",
    ],
    "tests/runs/test_folder.py": ["jitter"],
    "tests/comparison/test_confounds.py": ["jitter"],
    "tests/test_no_dead_knobs.py": [
        *("norm=frame_rms", "norm=frame_rms/norm.epsilon", "norm=leaking", "jitter=shaken"),
        *("data=sheets", "data=sheets/data.root", "data=sheets/data.train.0", "data=sheets/data.on_bad"),
        *("alphabet=esperanto", "alphabet=esperanto/alphabet.characters", "alphabet=esperanto/alphabet.separation"),
    ],
}
"""The ids, by file, that parametrised tests must have for the variants above."""

NAMES = "frame_rms|leaking|sheets|esperanto|jitter"
KNOBS = "norm=frame_rms|data=sheets/data.train.0|alphabet=esperanto|jitter=shaken"
RUN = rf"(?<!model_contract)(?<!init_contract)(?<!dead_knobs)\.py::.*\[.*({NAMES})|dead_knobs.py::.*\[({KNOBS})\]"
"""The ids of as many tests of the variants as take a quarter of a minute."""

CONFTEST = """
        from pathlib import Path
        import re


        def pytest_collection_modifyitems(items):
            Path("found.txt").write_text("\\n".join(item.nodeid for item in items), encoding="utf-8")
            items[:] = [item for item in items if re.search({run!r}, item.nodeid)]
        """

WRONG = {
    "test_padding_never_enters": "leaking",
    "test_evaluation_alone_is_as_in_a_batch": "leaking",
    "test_a_key_acts_or_is_declared_to_steer_the_machine": "jitter=shaken",
}
"""What the tests must refuse: padding that enters a norm, and a group that nothing reads."""

Outcomes = dict[str, str]
"""PASSED, FAILED, … by the id of a test."""


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the repository with the variants."""
    root = tmp_path_factory.mktemp("extended")
    for folder in ("src", "conf", "tests"):
        shutil.copytree(REPOSITORY / folder, root / folder)
    shutil.copy(REPOSITORY / "pyproject.toml", root)
    assert all(len(files) == 2 for files in (NORM, LEAKING, CORPUS, LANGUAGE)), "one Python file and one yaml"
    new = NORM | LEAKING | CORPUS | LANGUAGE | GROUP | {"conftest.py": CONFTEST.format(run=RUN)}
    for path, text in new.items():
        assert not (root / path).exists()
        (root / path).parent.mkdir(exist_ok=True)
        (root / path).write_text(without_margin(text), encoding="utf-8")
    insert(root / "conf" / "config.yaml", "  - norm: batch\n", "  - jitter: still\n")
    entry = '    "jitter": "asr_ablations.training.jitter.Jitter",\n'
    insert(root / SOURCE / "components" / "__init__.py", "CONTRACTS = {\n", entry)
    return root


def insert(file: Path, line: str, more: str) -> None:
    text = file.read_text(encoding="utf-8")
    assert line in text
    file.write_text(text.replace(line, line + more), encoding="utf-8")


def without_margin(text: str) -> str:
    """A file's text; the lines above stand eight columns to the right."""
    return re.sub(r"^ {8}", "", text.strip("\n"), flags=re.MULTILINE).rstrip() + "\n"


@pytest.fixture(scope="module")
def outcomes(copy: Path) -> Outcomes:
    """What came of the tests that were run in the copy."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTEST")}
    command = [sys.executable, "-m", "pytest", "-n", "0", "-p", "no:cacheprovider", f"--basetemp={copy / 'temporary'}"]
    done = program([*command, "-rA", "--tb=line", *FOUND], environment, copy)
    lines = re.findall(r"^(PASSED|FAILED|ERROR|SKIPPED) (\S+::.*?\])(?: - .*)?$", done.stdout, flags=re.MULTILINE)
    assert lines, done.stdout + done.stderr
    print(done.stdout)
    return {id_: outcome for outcome, id_ in lines}


@pytest.mark.slow
@pytest.mark.parametrize("file", FOUND)
def test_contract_tests_find_new_variants(file: str, copy: Path, outcomes: Outcomes) -> None:
    found = (copy / "found.txt").read_text(encoding="utf-8").splitlines()
    ids = [id_ for id_ in found if id_.startswith(f"{file}::")]
    missing = [name for name in FOUND[file] if not any(re.search(rf"[\[-]{re.escape(name)}[\]-]", id_) for id_ in ids)]
    assert not missing, f"{file} has no test of {', '.join(missing)}"


@pytest.mark.slow
def test_right_variants_pass_and_wrong_ones_fail(outcomes: Outcomes) -> None:
    wrong = {id_ for id_ in outcomes if any(test in id_ and name in id_ for test, name in WRONG.items())}
    assert {id_ for id_, outcome in outcomes.items() if outcome != "PASSED"} == wrong
    assert all(any(test in id_ for id_ in wrong) for test in WRONG)
    assert len(outcomes) > 50

"""The processes that tests run commands in: as a user's, and gone when the tests are."""

import json
import os
import subprocess
import sys
from pathlib import Path

from asr_ablations.sweep.processes import PRELOAD
from tests.helpers.command import clean_environment
from tests.helpers.ending import end_with_parent
from tests.helpers.interpreter import REPOSITORY, SOURCE, expect, python
from tests.helpers.processes import living_in, wait_for
from tests.helpers.support import tiny_overrides
from tests.helpers.survival import results

SMALL = ["width=8", "layers=1", "max_epochs=2", "gpus=0", "progress=false"]
PROBE = f"""
import importlib, json, logging, os, random, resource, signal, sys, threading, warnings
sys.path.insert(1, {str(SOURCE)!r})
for name in {PRELOAD}:
    importlib.import_module(name)
del sys.path[1]
import numpy, torch
from hydra.core.global_hydra import GlobalHydra
from multiprocessing import current_process, process
seen = {{
    "arguments": sys.argv, "environment": dict(os.environ), "folder": os.getcwd(), "stdin": sys.stdin.read(),
    "path": sys.path, "name": __name__, "file": __file__, "main": sys.modules["__main__"].__file__,
    "warnings": [str(line) for line in warnings.filters], "hydra": GlobalHydra.instance().is_initialized(),
    "logging": [str(handler) for handler in logging.getLogger().handlers], "level": logging.getLogger().level,
    "signals": [str(signal.getsignal(number)) for number in sorted(signal.valid_signals())],
    "threads": [thread.name for thread in threading.enumerate()], "torch threads": torch.get_num_threads(),
    "cuda": torch.cuda.is_initialized(), 
    "leads a session": os.getsid(0) == os.getpid(), "umask": os.umask(0o22), "excepthook": sys.excepthook.__qualname__,
    "process": current_process().name, "original folder": str(process.ORIGINAL_DIR),
    "limits": [resource.getrlimit(number) for number in range(10)], "recursion": sys.getrecursionlimit(),
    "streams": [(stream.name, stream.encoding, stream.errors) for stream in (sys.stdin, sys.stdout, sys.stderr)],
}}
drawn = [random.random(), numpy.random.rand(), torch.initial_seed()]
print(json.dumps([seen, drawn]))
"""


def test_a_forked_command_finds_what_a_fresh_one_does(tmp_path: Path) -> None:
    (tmp_path / "probe.py").write_text(PROBE)
    environment = clean_environment(tmp_path, tmp_path, OWN="mine")
    words = ["probe.py", "a b", "--c"]
    done = [python(words, environment, tmp_path, "typed\n", fresh=fresh) for fresh in (True, False, False)]
    assert [one.stderr for one in done] == ["", "", ""]
    seen, drawn = zip(*(json.loads(one.stdout) for one in done), strict=True)
    assert seen[0]["environment"]["OWN"] == "mine"
    assert seen[0]["stdin"] == "typed\n"
    assert seen[1] == seen[0]
    assert seen[2] == seen[0]
    assert len({number for pair in drawn for number in pair}) == 9, "random numbers that nobody has seeded are alike"


def test_it_ends_as_a_fresh_one_does(tmp_path: Path) -> None:
    environment = clean_environment(tmp_path, tmp_path)
    for ending in (
        "sys.exit('told')", "sys.exit(256 + 7)", "1 / 0", "os.kill(os.getpid(), 9)", "os._exit(4)",
        "atexit.register(print, 'last')", "threading.Thread(target=print, args=['beside']).start()",
    ):  # fmt: skip
        (tmp_path / "ends.py").write_text(f"import atexit, os, sys, threading\n\ndef main():\n    {ending}\n\nmain()\n")
        fresh, forked = (python(["ends.py"], environment, tmp_path, fresh=fresh) for fresh in (True, False))
        assert (forked.returncode, forked.stdout, forked.stderr) == (fresh.returncode, fresh.stdout, fresh.stderr)


def test_a_run_is_the_same_to_the_bit(tiny_corpus: Path, tmp_path: Path) -> None:
    outputs = [tmp_path / name for name in ("fresh", "forked")]
    for folder in outputs:
        words = ["src/train.py", *tiny_overrides(tiny_corpus), *SMALL, "logger=csv", f"outputs={folder}"]
        expect(0, python(words, clean_environment(tmp_path, tmp_path), fresh=folder.name == "fresh"))
    fresh, forked = (results(folder) for folder in outputs)
    assert fresh
    assert fresh == forked


SESSION = """
import pytest
from pathlib import Path
from tests.helpers.command import clean_environment
from tests.helpers.interpreter import SOURCE, start

@pytest.mark.parametrize("fresh", [True, False])
def test_endless(fresh, tmp_path):
    here = Path.cwd()
    with start(["endless.py"], clean_environment(tmp_path, tmp_path), here, fresh=fresh) as command:
        assert next(command.lines()) == "ready"
        (here / f"ready-{fresh}").touch()
        command.wait(1e6)
"""
ENDLESS = "import subprocess, sys\nprint('ready', flush=True)\nsubprocess.run(['sleep', '100000'])\n"


def test_tests_that_are_killed_leave_no_process(tmp_path: Path) -> None:
    """Two processes that share the tests, the interpreters that they fork from, and commands that never end."""
    (tmp_path / "test_session.py").write_text(SESSION)
    (tmp_path / "endless.py").write_text(ENDLESS)
    options = ["-n", "2", "-p", "tests.conftest", "-p", "no:cacheprovider", f"--basetemp={tmp_path / 'temporary'}"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    environment["PYTHONPATH"] = os.pathsep.join([str(REPOSITORY), str(SOURCE)])
    with (tmp_path / "output").open("w") as output:
        session = subprocess.Popen(
            [sys.executable, "-m", "pytest", *options, "test_session.py"],
            cwd=tmp_path, env=environment, stdout=output, stderr=output, start_new_session=True,
            preexec_fn=end_with_parent,
        )  # fmt: skip
    try:
        ready = [tmp_path / f"ready-{fresh}" for fresh in (True, False)]
        wait_for(lambda: all(path.exists() for path in ready) or session.poll() is not None)
        assert session.poll() is None, (tmp_path / "output").read_text()
        assert len(living_in(tmp_path)) >= 8, "the session, two sharing it, an interpreter, two commands"
        session.kill()
        session.wait()
        wait_for(lambda: not living_in(tmp_path))
    finally:
        for process in living_in(tmp_path):
            process.kill()

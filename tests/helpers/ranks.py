"""A script in several processes that train together, as torchrun starts them: with its variables and a common store,
but forked from an interpreter that has torch imported. torchrun itself is in tests of its own.
"""

import os
import subprocess
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from torch.distributed import TCPStore

from tests.helpers.interpreter import start

HOST = "127.0.0.1"


def run_ranks(script: Path, arguments: Sequence[object] = (), ranks: int = 2) -> subprocess.CompletedProcess[str]:
    """Wait for all; the first exit code that is not 0 ends the others. What they print stands in the order of ranks."""
    store = TCPStore(HOST, 0, is_master=True, wait_for_workers=False)
    common = {
        "MASTER_ADDR": HOST, "MASTER_PORT": store.port, "TORCHELASTIC_USE_AGENT_STORE": True,
        "TORCHELASTIC_RUN_ID": script.stem, "TORCHELASTIC_RESTART_COUNT": 0, "TORCHELASTIC_MAX_RESTARTS": 0,
        "WORLD_SIZE": ranks, "LOCAL_WORLD_SIZE": ranks, "GROUP_RANK": 0, "GROUP_WORLD_SIZE": 1, "OMP_NUM_THREADS": 1,
    }  # fmt: skip
    with ExitStack() as stack:
        commands = []
        for rank in range(ranks):
            own = {"RANK": rank, "LOCAL_RANK": rank, "ROLE_RANK": rank, "ROLE_WORLD_SIZE": ranks}
            environment = {**os.environ, **{name: str(value) for name, value in {**common, **own}.items()}}
            commands.append(stack.enter_context(start([script, *arguments], environment, script.parent, fresh=False)))
        while None in (codes := [command.poll() for command in commands]) and not any(codes):
            time.sleep(0.02)
        code = next((code for code in codes if code), 0)
        for command in commands:
            command.kill()
        done = [command.finish() for command in commands]
    printed = ("".join(texts) for texts in zip(*((one.stdout, one.stderr) for one in done), strict=True))
    return subprocess.CompletedProcess([str(script)], code, *printed)

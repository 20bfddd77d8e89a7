"""The commands that src/*.py run."""

from asr_ablations.tools.lean_imports import lean_imports

lean_imports()  # it has to precede the first import of Lightning, whichever module that stands in

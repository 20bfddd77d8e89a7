"""Corpora whose splits are files or folders anywhere, named by the user."""

from collections.abc import Sequence
from pathlib import Path

from asr_ablations.data.corpus import Corpus
from asr_ablations.tools.errors import UsageError
from asr_ablations.tools.paths import expanded


class Paths(Corpus):
    """train, validation, test: paths, relative to `root`, which is the current folder where it is null.

    A set has the name of its file or folder, without the ending.
    """

    root: Path

    def __init__(
        self,
        *,
        root: str | Path | None,
        train: str | Sequence[str],
        validation: str | Sequence[str],
        test: str | Sequence[str],
        language: str,
        max_seconds: float | None,
        max_evaluated_seconds: float | None,
        on_bad: str,
    ) -> None:
        super().__init__(
            root=root or ".",
            train=train,
            validation=validation,
            test=test,
            language=language,
            max_seconds=max_seconds,
            max_evaluated_seconds=max_evaluated_seconds,
            on_bad=on_bad,
        )
        self.paths = name_paths(self.root, [*self.train, *self.validation, *self.test])
        names = {path: name for name, path in self.paths.items()}
        self.train, self.validation, self.test = (
            [names[path] for path in splits] for splits in (self.train, self.validation, self.test)
        )


def name_paths(root: Path, paths: Sequence[str]) -> dict[str, str]:
    """Return the paths by short names: that of the file without ending, with as many folders, and the ending, as it
    takes to distinguish it from the others.

    Raises UsageError if two of the paths are the same file.
    """
    unique = list(dict.fromkeys(paths))
    absolute = {path: expanded(root / path).resolve() for path in unique}
    stems = {
        path: full.with_suffix("") if full.suffix in (".json", ".jsonl") else full for path, full in absolute.items()
    }
    for candidates in (stems, absolute):
        for depth in range(1, max((len(full.parts) for full in candidates.values()), default=1)):
            names = {"-".join(full.parts[-depth:]): path for path, full in candidates.items()}
            if len(names) == len(unique):
                return names
    raise UsageError(f"{', '.join(unique)}: expected different files")

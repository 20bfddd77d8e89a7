"""Corpora whose splits are files or folders that the user names, anywhere."""

from collections.abc import Sequence
from pathlib import Path

from asr_ablations.data.corpus import Corpus
from asr_ablations.tools.errors import UsageError


class Paths(Corpus):
    """train, validation, test: paths, relative to `root`, which is the current folder where it is null. A set is called
    as its file or folder, without ending.
    """

    root: Path

    def __init__(self, *, root: str | Path | None, **options: object) -> None:
        super().__init__(root=root or ".", **options)  # type: ignore[arg-type]
        self.paths = name_paths(self.root, [*self.train, *self.validation, *self.test])
        names = {path: name for name, path in self.paths.items()}
        self.train, self.validation, self.test = (
            [names[path] for path in splits] for splits in (self.train, self.validation, self.test)
        )


def name_paths(root: Path, paths: Sequence[str]) -> dict[str, str]:
    """Paths by a short name each: that of the file without ending, with as many folders and the ending if that is what
    it takes to tell it from the others.
    """
    unique = list(dict.fromkeys(paths))
    whole = {path: (root / path).expanduser().resolve() for path in unique}
    bare = {path: at.with_suffix("") if at.suffix in (".json", ".jsonl") else at for path, at in whole.items()}
    for parts in (bare, whole):
        for depth in range(1, max((len(at.parts) for at in parts.values()), default=1)):
            names = {"-".join(at.parts[-depth:]): path for path, at in parts.items()}
            if len(names) == len(unique):
                return names
    raise UsageError(f"{', '.join(unique)}: expected different files")

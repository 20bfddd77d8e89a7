"""Corpora whose splits are files or folders that the user names, anywhere."""

from collections.abc import Sequence
from pathlib import Path

from asr_ablations.data.corpus import Corpus


class Paths(Corpus):
    """train, validation, test: paths, relative to `root`, which is the current folder where it is null. A set is called
    as its file or folder, without ending.
    """

    root: Path

    def __init__(self, *, root: str | Path | None, **options: object) -> None:
        super().__init__(root=root or ".", **options)  # type: ignore[arg-type]
        self.paths = name_paths([*self.train, *self.validation, *self.test])
        names = {path: name for name, path in self.paths.items()}
        self.train, self.validation, self.test = (
            [names[path] for path in splits] for splits in (self.train, self.validation, self.test)
        )


def name_paths(paths: Sequence[str]) -> dict[str, str]:
    """Paths by a short name each: that of the file, with as many folders as tell it from the others."""
    unique = list(dict.fromkeys(paths))
    parts = {path: Path(path).with_suffix("").parts for path in unique}
    for depth in range(1, max(map(len, parts.values()), default=1) + 1):
        names = {path: "-".join(part.strip("/.") for part in parts[path][-depth:]).strip("-") for path in unique}
        if len(set(names.values())) == len(unique):
            break
    return {name: path for path, name in names.items()}

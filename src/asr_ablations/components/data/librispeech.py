"""LibriSpeech's layout: <root>/<split>/<speaker>/<chapter>/*.flac and <speaker>-<chapter>.trans.txt.

LibriSpeech (Panayotov et al. 2015) is used in Ambroszczyk2019 §2.8 and Baunsgaard2020 §4.3. AN4 and the built-in corpus
have the same layout.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from typing_extensions import Unpack

from asr_ablations.data.corpus import (
    Corpus,
    CorpusOptions,
    entries,
    faulty,
    file_utterance,
    indexed,
    list_folders,
    listed,
    text_of,
)
from asr_ablations.data.download import Archive, Download, check_source, fetch
from asr_ablations.data.utterances import Utterance
from asr_verdicts.errors import UsageError, choices
from asr_verdicts.text import clean


class Folders(Corpus):
    """A corpus in LibriSpeech's layout, with a folder under `root` for each split."""

    download: Download

    def folder(self, split: str) -> Path:
        assert self.root is not None
        return self.root / split

    def prepare(self) -> None:
        folders, remedy = ", ".join(self.folders()), f"to prepare it: {self.prepare_command()}"
        if self.root is None:
            raise UsageError(f"data.root is not set: expected the folder that contains {folders}; {remedy}")
        for name in self.missing():
            raise UsageError(f"data.root={self.root}: no folder {name} in it (expected {folders}); {remedy}")

    def archives(self, missing: list[str]) -> list[Archive]:
        """Return the archives that contain the missing splits. Corpora without a download have none."""
        return []

    def fetch(self) -> None:
        """Download, verify and unpack the archives of missing splits. Then check that every split is present."""
        if self.root is not None and (archives := self.archives(self.missing())):
            fetch(archives, self.root, self.download["address"])
        self.prepare()

    def enter(self, folder: str) -> None:
        """If splits are missing, replace the root by its subfolder `folder`, because archives contain such a folder."""
        if self.root is not None and self.missing() and (self.root / folder).is_dir():
            self.root = self.root / folder

    def missing(self) -> list[str]:
        """Return the names of all splits whose folder is missing."""
        return [name for name in self.folders() if not self.folder(name).exists()]

    @indexed("folder")
    def find(self, split: str) -> list[Utterance]:
        return list_folder(self.folder(split))


class LibriSpeech(Folders):
    """LibriSpeech, with one archive <split>.tar.gz per split.

    named: list of splits for each name of a joined training set, such as clean460, which consists of two splits
    """

    licence = "CC BY 4.0 (LICENSE.TXT of the corpus)"

    def __init__(
        self, *, named: Mapping[str, Sequence[str]], download: Download, **options: Unpack[CorpusOptions]
    ) -> None:
        super().__init__(**options)
        check_source(download["address"], download["sha256"], digits=64)
        joined = {name: listed(f"data.named.{name}", splits) for name, splits in named.items()}
        self.train = [split for name in self.train for split in joined.get(name, [name])]
        self.download = download
        self.enter("LibriSpeech")

    def archives(self, missing: list[str]) -> list[Archive]:
        checksums = self.download["sha256"]
        for split in missing:
            if split not in checksums:
                raise choices("split", split, f"a folder in {self.root}, or an archive: {', '.join(checksums)}")
        return [Archive(split, "LibriSpeech", [split], checksums[split]) for split in missing]


def list_folder(folder: Path) -> list[Utterance]:
    """Return the utterances of a split in the order of its transcripts.

    Audio files without a transcript become utterances with a fault. Raises UsageError if there are no utterances.
    """
    chapters = (chapter for speaker in list_folders(folder) for chapter in list_folders(speaker))
    utterances = [utterance for chapter in chapters for utterance in _list_chapter(chapter)]
    if not utterances:
        raise UsageError(f"no utterances in {folder} (expected <speaker>/<chapter>/*.trans.txt)")
    return utterances


def _list_chapter(chapter: Path) -> Iterator[Utterance]:
    paths = {clean(path.name): path for path in entries(chapter)}
    for name in [name for name in paths if name.endswith(".trans.txt")]:
        for line in filter(None, map(str.strip, text_of(paths[name]).split("\n"))):
            id_, _, text = line.partition(" ")
            id_ = clean(id_)
            file = paths.pop(f"{id_}.flac", None) or chapter / f"{id_}.flac"
            yield file_utterance(id_, chapter.parent.name, file, text)
    for name, file in paths.items():
        if name.endswith(".flac"):
            yield faulty(file.stem, file, "audio without a transcript: no line in the chapter's *.trans.txt")

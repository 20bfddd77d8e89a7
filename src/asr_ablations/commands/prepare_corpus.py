"""Generate or download a corpus, decode every audio file, and list all faults."""

import logging
import sys
from collections.abc import Mapping
from pathlib import Path

from omegaconf import DictConfig
from rich.table import Column, Table

from asr_ablations.config.build import build
from asr_ablations.config.keys import print_unread
from asr_ablations.config.plain_keys import check
from asr_ablations.data.corpus import Corpus
from asr_ablations.data.description import describe_set, fingerprint, in_training, warnings_of
from asr_ablations.data.utterance_selection import complaints, judge, select
from asr_ablations.training.assembly import assemble
from asr_verdicts.errors import UsageError
from asr_verdicts.files import Json
from asr_verdicts.terminal import console, harmless_line

log = logging.getLogger(__name__)


def prepare(cfg: DictConfig) -> None:
    """Prepare the corpus of a config, and print a table of its sets.

    The faults of unusable utterances are printed first, with counts and examples. Raise UsageError if there are any and
    data.on_bad=stop, or if the corpus cannot be prepared.
    """
    check(cfg)
    corpus: Corpus = build(cfg.data)
    corpus.thorough = True
    corpus.fetch()
    task, _ = assemble(cfg, corpus)  # for the alphabet, and for the number of output frames of each utterance
    judged = judge(corpus, task.alphabet)
    causes = complaints(judged, corpus, task.alphabet)
    for cause in causes:
        examples = [f"  {harmless_line(f'{u.id}: {u.fault}')}" for u in cause.utterances[:3]]
        print(harmless_line(cause.text), *examples, sep="\n", file=sys.stderr)
    if causes and corpus.on_bad == "stop":
        count = sum(len(cause.utterances) for cause in causes)
        raise UsageError(f"{count} utterances cannot be used (reasons above); data.on_bad=skip leaves them out")
    screened = select(judged, corpus, task.alphabet, task.output_frames)
    _print({name: describe_set(speech) for name, speech in screened.items()})
    used = {name: speech.kept for name, speech in screened.items()}
    shared = {name: in_training(used[name], used["train"]) for name in used if name != "train"}
    for warning in warnings_of(used, shared, corpus):
        log.warning(warning)
    for name, counts in shared.items():
        if sentences := counts["sentences"]:
            print(f"{sentences} of {len(used[name])} sentences of {harmless_line(name)} are also in the training set")
    place = "" if corpus.root in (None, Path()) else f", {corpus.root}"
    print(f"alphabet {task.alphabet.key!r}, fingerprint {fingerprint(corpus)}{place}")
    print_unread(cfg, "prepare")


def _print(sets: Mapping[str, Json]) -> None:
    names = "utterances", "speakers", "words", "vocabulary", "hours", "left out"
    table = Table("set", *(Column(name, justify="right") for name in names))
    for name, content in sets.items():
        speakers = content["speakers"] or "unknown"
        counts = content["utterances"], speakers, content["words"], content["vocabulary"]
        left_out = sum(map(len, content["left_out"].values()))
        table.add_row(name, *map(str, counts), f"{content['hours']:.2f}", str(left_out))
    console().print(table)

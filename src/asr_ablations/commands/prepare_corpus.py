"""Make or fetch a corpus, decode every file of it, and list all that is wrong."""

import sys
from collections.abc import Mapping

from omegaconf import DictConfig, OmegaConf
from rich.table import Table

from asr_ablations.config.build import build
from asr_ablations.config.keys import unread
from asr_ablations.config.plain_keys import check
from asr_ablations.data.corpus import Corpus
from asr_ablations.data.fingerprint import SetDescription, describe_set, fingerprint
from asr_ablations.data.utterance_selection import judge, select
from asr_ablations.tools.errors import UsageError
from asr_ablations.tools.terminal import console, harmless_line
from asr_ablations.training.assembly import assemble


def prepare(cfg: DictConfig) -> None:
    """Prepare the corpus of a config and print a table of its sets.

    Raises UsageError for a corpus that cannot be made or has unusable utterances, which are listed before, a line each;
    with data.on_bad=skip they are listed and left out of the table.
    """
    check(cfg)
    corpus: Corpus = build(cfg.data)
    corpus.thorough = True
    corpus.fetch()
    task, _ = assemble(cfg, corpus)  # for its alphabet, and for how many frames its model makes of an utterance
    judged = judge(corpus, task.alphabet)
    bad = {name: utterances.take(utterances.has("fault")) for name, utterances in judged.items()}
    faults = [f"{name}: {u.id}: {u.fault}" for name, utterances in bad.items() for u in utterances]
    print("".join(f"{harmless_line(fault)}\n" for fault in faults), end="", file=sys.stderr)
    if faults and corpus.on_bad == "stop":
        raise UsageError(f"{len(faults)} utterances cannot be used, listed above; data.on_bad=skip leaves them out")
    screened = select(judged, corpus, task.alphabet, task.output_frames)
    _print({name: describe_set(speech) for name, speech in screened.items()})
    print(f"alphabet {task.alphabet.characters!r}, fingerprint {fingerprint(corpus)}, {corpus.root}")
    if line := unread(OmegaConf.to_container(cfg.overrides), "prepare"):
        print(line)


def _print(sets: Mapping[str, SetDescription]) -> None:
    table = Table()
    table.add_column("set")
    for column in ("utterances", "speakers", "words", "vocabulary", "hours", "left out"):
        table.add_column(column, justify="right")
    for name, content in sets.items():
        speakers = content["speakers"] or "unknown"
        counts = content["utterances"], speakers, content["words"], content["vocabulary"]
        left_out = sum(map(len, content["left_out"].values()))
        table.add_row(name, *map(str, counts), f"{content['hours']:.2f}", str(left_out))
    console().print(table)

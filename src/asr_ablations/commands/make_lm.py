"""Make a language model in a run folder, with a record of its training texts."""

from pathlib import Path

from omegaconf import DictConfig
from rich.table import Column, Table

from asr_ablations.config.build import build
from asr_ablations.config.keys import print_unread
from asr_ablations.config.plain_keys import check
from asr_ablations.data.corpus import Corpus
from asr_ablations.language_models.model import ARPA, BINARY, RECORD, RECURRENT, Fit, fit, load
from asr_ablations.language_models.ngram import find_program, run_program
from asr_ablations.language_models.text import transcripts
from asr_ablations.runs.folder import Run
from asr_ablations.tools.files import format_override, typed
from asr_verdicts.files import Json, write_json
from asr_verdicts.terminal import console


def make(cfg: DictConfig) -> Path:
    """Make a language model and return its folder, where lm.json records its sources and its perplexities."""
    check(cfg)
    source, corpus = build(cfg.lm), build(cfg.data)
    alphabet = build(cfg.alphabet)(corpus)
    record = Run(cfg)
    record.keep_previous()
    with record:
        content = source(corpus, alphabet, record.folder)
        content["binary"] = (record.folder / ARPA).is_file() and _write_binary(record.folder)
        content["fit"] = _fit(corpus, record.folder, content["unit"])
        write_json(record.folder / RECORD, content)
    _print(content, record.folder)
    print_unread(cfg, "language_model")
    return record.folder


def _write_binary(folder: Path) -> bool:
    program = find_program("build_binary")
    if program is None:
        print("build_binary is not on the PATH (make lmplz builds it): decoders load the ARPA file, which takes longer")
        return False
    run_program(folder / BINARY, program, folder / ARPA)
    return True


def _fit(corpus: Corpus, folder: Path, unit: str) -> dict[str, Fit]:
    """Measure how well the model fits each validation set; empty if no corpus is given."""
    if corpus.root is None:
        return {}
    corpus.prepare()
    sets = {name: [text.split() for text in transcripts(corpus, name)] for name in corpus.validation}
    if (folder / RECURRENT).is_file():
        from asr_ablations.language_models import recurrent  # imports torch

        model, _ = recurrent.load(str(folder))
        return {name: recurrent.fit(model, sentences) for name, sentences in sets.items()}
    ngrams = load(str(folder)).ngrams
    if ngrams.score("<unk>", bos=False, eos=False) <= -100:  # KenLM's score for a missing <unk>
        print("the model has no <unk>: the perplexity counts unknown words with a probability of 1e-100")
    return {name: fit(ngrams, sentences, unit) for name, sentences in sets.items()}


DECODERS = {"word": "beam_lm", "character": "beam_charlm", "letter": "beam_rescored"}
"""The decoder to propose for a language model, by the model's unit."""


def _print(content: Json, folder: Path) -> None:
    terminal = console(soft_wrap=True)
    for source in content["sources"]:
        size = f": {source['sentences']} sentences, {source['words']} words" if "sentences" in source else ""
        warning = ", HELD-OUT TEXT: error rates on this set are now meaningless" if source.get("held_out") else ""
        terminal.print(f"from {source['source']}{size}{warning}", markup=False)
    names = "sentences", "words", "unknown %", "perplexity", "without unknown"
    title = f"{content['vocabulary']} different {content['unit']}s, {content['estimator']}"
    table = Table("set", *(Column(name, justify="right") for name in names), title=title, title_justify="left")
    for name, fitted in content["fit"].items():
        sizes, unknown = [str(fitted["sentences"]), str(fitted["words"])], f"{100 * fitted['oov_rate']:.2f}"
        perplexities = [f"{fitted['perplexity']:.1f}", f"{fitted['perplexity_without_oov']:.1f}"]
        table.add_row(name, *sizes, unknown, *perplexities)
    if content["fit"]:
        terminal.print(table)
    model, decoder = format_override("decoder.lm", folder), DECODERS[content["unit"]]
    words = "run=<folder>", f"decoder={decoder}", model, "tune.trials=50"
    terminal.print(f"language model  {folder}\ntry next        {typed('evaluate', *words)}", markup=False)

"""The model card: what somebody who is given an exported model has to know about it, as Markdown."""

from collections.abc import Mapping

from asr_ablations.runs.identity import of_the_experiment, without_folder
from asr_ablations.runs.layout import ENVIRONMENT, SUMMARY
from asr_ablations.runs.reader import read_data, read_environment, read_overrides, read_summary
from asr_ablations.tools.files import Json
from asr_ablations.tools.terminal import harmless
from asr_ablations.training.load import Trained

UNKNOWN = "not recorded"


def card(trained: Trained, file: str) -> str:
    """The card of an exported run. file: the name of the exported file.

    What the run folder does not tell, as that of an unfinished run, is called not recorded.
    """
    finished = (trained.folder / SUMMARY).is_file()
    summary = read_summary(trained.folder) if finished else {}
    environment = read_environment(trained.folder) if (trained.folder / ENVIRONMENT).is_file() else {}
    sets = read_data(trained.folder)["sets"] if finished else {}
    parameters = sum(p.numel() for p in trained.task.parameters())
    code, corpus, characters = environment.get("code") or {}, trained.data.corpus, trained.task.alphabet.characters
    settings = [without_folder(word) for word in of_the_experiment(read_overrides(trained.folder))]
    lines = [
        f"# {file}",
        "",
        f"Speech recognition by CTC: {parameters / 1e6:.2f} million parameters, waveforms at 16 kHz in, "
        f"log-probabilities of {len(characters)} characters out ({_listed(characters)}).",
        "",
        "## Training",
        "",
        f"- Data: {type(corpus).__name__}, language `{corpus.language}`. {_size(sets.get('train'))}",
        f"- Rights in the data: {corpus.licence}.",
        f"- Settings: {' '.join(f'`{word}`' for word in settings) or 'the defaults'}; "
        f"{summary.get('epochs', UNKNOWN)} epochs, checkpoint `{trained.checkpoint.name}`.",
        f"- Run `{environment.get('id', UNKNOWN)}`, code {str(code.get('commit') or UNKNOWN)[:12]}.",
        "",
        "## Error rates",
        "",
        *_rates(summary, sets),
        "",
        "## Limits",
        "",
        *_limits(sets.get("train")),
        "",
        "## Licence of the weights",
        "",
        "Not chosen: whoever trained the model writes it here, having looked at the rights in the data.",
    ]
    return "".join(f"{harmless(line)}\n" for line in lines)


def _listed(characters: str) -> str:
    return " ".join("space" if character == " " else f"`{character}`" for character in characters)


def _size(train: Json | None) -> str:
    if train is None:
        return f"Its size is {UNKNOWN}."
    return (
        f"{train['hours']:.2f} hours, {train['utterances']:,} utterances of {train['speakers']:,} speakers, "
        f"{train['vocabulary']:,} different words."
    )


def _rates(summary: Json, sets: Mapping[str, Json]) -> list[str]:
    if not summary.get("sets"):
        return [f"{UNKNOWN.capitalize()}: the run has not ended."]
    rows = [
        f"| {name} | {sets.get(name, {}).get('speakers', UNKNOWN)} | {rates['words']:,} | {100 * rates['wer']:.2f} | "
        f"{100 * rates['cer']:.2f} |"
        for name, rates in summary["sets"].items()
    ]
    text = (
        "Of the last checkpoint, with greedy decoding and no language model unless the settings name another decoder."
    )
    return [text, "", "| set | speakers | words | WER % | CER % |", "| --- | ---: | ---: | ---: | ---: |", *rows]


def _limits(train: Json | None) -> list[str]:
    lines = ["- It writes what it was trained to write: the characters above, no punctuation, one case."]
    if train is not None:
        lines.append(
            f"- It was trained on {train['speakers']:,} speakers and {train['vocabulary']:,} words. For other voices, "
            "rooms, microphones, languages or words the rates above say nothing; expect far worse."
        )
    lines.append("- Confidences are not calibrated. A confidence low throughout means speech that it does not know.")
    return lines

"""prepare.py weights=<file>: random encoders in the layouts of torchaudio, fairseq, Microsoft and transformers."""

import json
import os
import re
import shlex
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from omegaconf import OmegaConf
from torchaudio.models import Wav2Vec2Model, wav2vec2_model, wavlm_model

from asr_ablations.commands.import_weights import import_weights
from asr_ablations.tools.files import sha256
from asr_ablations.training.assembly import assemble
from asr_ablations.training.trained_model import start_from
from asr_verdicts.errors import UsageError
from tests.helpers.command import run_folders
from tests.helpers.interpreter import expect, python
from tests.helpers.support import compose, standing_corpus, tiny_overrides

State = dict[str, torch.Tensor]
CONVOLUTIONS = [(8, 10, 5), *[(8, 3, 2)] * 4, *[(8, 2, 2)] * 2]
SIZES: dict[str, Any] = {
    "extractor_conv_layer_config": CONVOLUTIONS, "encoder_embed_dim": 24, "encoder_projection_dropout": 0.0,
    "encoder_pos_conv_kernel": 16, "encoder_pos_conv_groups": 4, "encoder_num_layers": 3, "encoder_num_heads": 6,
    "encoder_attention_dropout": 0.0, "encoder_ff_interm_features": 40, "encoder_ff_interm_dropout": 0.0,
    "encoder_dropout": 0.0, "encoder_layer_drop": 0.0, "aux_num_out": None,
}  # fmt: skip
BASE = {"extractor_mode": "group_norm", "extractor_conv_bias": False, "encoder_layer_norm_first": False}
LARGE = {"extractor_mode": "layer_norm", "extractor_conv_bias": True, "encoder_layer_norm_first": True}


def network(kind: str) -> Wav2Vec2Model:
    """A model of torchaudio's, whose norms and biases are not 0 and 1."""
    torch.manual_seed(5)
    if kind == "wavlm":
        model = wavlm_model(**SIZES, **BASE, encoder_num_buckets=16, encoder_max_distance=30)
    else:
        model = wav2vec2_model(**SIZES, **(LARGE if kind == "large" else BASE))
    for parameter in model.parameters():
        parameter.data += 0.1 * torch.randn_like(parameter)
    return model.eval()


def split_projections(state: State) -> State:
    """WavLM's query, key and value as separate matrices; a normalised weight named as before torch 2.0."""
    split: State = {}
    for key, value in state.items():
        key = key.replace("parametrizations.weight.original0", "weight_g")
        key = key.replace("parametrizations.weight.original1", "weight_v")
        if ".attention.attention.in_proj_" in key:
            for part, rows in zip("qkv", value.chunk(3), strict=True):
                split[key.replace("attention.in_proj_", f"{part}_proj.")] = rows
        else:
            split[key.replace(".attention.attention.out_proj", ".attention.out_proj")] = value
    return split


def transformers_names(state: State, prefix: str) -> State:
    """modeling_wav2vec2.py: feature_extractor, feature_projection and encoder, below the model's name."""
    named = {}
    for key, value in split_projections(state).items():
        key = key.replace("encoder.transformer.", "encoder.")
        named[f"{prefix}.{key.replace('encoder.feature_projection.', 'feature_projection.')}"] = value
    return {**named, f"{prefix}.masked_spec_embed": torch.zeros(24), "lm_head.weight": torch.zeros(32, 24)}


FAIRSEQ = {
    "encoder.transformer.": "encoder.", "encoder.feature_projection.projection": "post_extract_proj",
    "encoder.feature_projection.layer_norm": "layer_norm", "pos_conv_embed.conv": "pos_conv.0",
    ".attention.gru_rel_pos_linear": ".self_attn.grep_linear", ".attention.gru_rel_pos_const": ".self_attn.grep_a",
    ".attention.rel_attn_embed": ".self_attn.relative_attention_bias", ".attention": ".self_attn",
    ".feed_forward.intermediate_dense": ".fc1", ".feed_forward.output_dense": ".fc2",
}  # fmt: skip


def fairseq_names(state: State, prefix: str = "") -> State:
    """wav2vec2.py, hubert.py and Microsoft's WavLM.py: layers of an nn.Sequential are numbers."""
    layered = "feature_extractor.conv_layers.1.layer_norm.weight" in state
    named: State = {}
    for key, value in split_projections(state).items():
        for part, name in FAIRSEQ.items():
            key = key.replace(part, name)
        key = re.sub(r"^encoder\.(layers\.\d+)\.layer_norm", r"encoder.\1.self_attn_layer_norm", key)
        key = re.sub(r"(conv_layers\.\d+)\.conv", r"\1.0", key)
        key = re.sub(r"(conv_layers\.\d+)\.layer_norm", r"\1.2.1" if layered else r"\1.2", key)
        named[f"{prefix}{key}"] = value
    return {**named, f"{prefix}mask_emb": torch.zeros(24), f"{prefix}quantizer.vars": torch.zeros(2)}


def safetensors(state: State) -> bytes:
    """https://github.com/huggingface/safetensors, "Format"."""
    header, data = {}, b""
    for key, value in state.items():
        raw = value.contiguous().numpy().tobytes()
        header[key] = {"dtype": "F32", "shape": list(value.shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps({"__metadata__": {"format": "pt"}, **header}).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text + data


def config_json(kind: str) -> str:
    """The keys of transformers' Wav2Vec2Config and WavLMConfig that say what shapes do not."""
    large = kind == "large"
    sizes = {"num_attention_heads": 6, "conv_stride": [5, 2, 2, 2, 2, 2, 2], "do_stable_layer_norm": large}
    return json.dumps({"model_type": kind, **sizes, **({"max_bucket_distance": 30} if kind == "wavlm" else {})})


OPTIONS = {
    "encoder_attention_heads": 6, "layer_norm_first": False, "max_distance": 30,
    "conv_feature_layers": "[(8, 10, 5)] + [(8, 3, 2)] * 4 + [(8,2,2)] + [(8,2,2)]",
}  # fmt: skip


def torchaudio_file(kind: str, folder: Path) -> Path:
    torch.save(network(kind).state_dict(), folder / "encoder.pth")
    return folder / "encoder.pth"


def fairseq_file(kind: str, folder: Path) -> Path:
    """Of 2020: an argparse.Namespace, in the format that torch wrote before 1.6."""
    args = Namespace(**{**OPTIONS, "layer_norm_first": kind == "large"}, task="audio_pretraining")
    content = {"args": args, "model": fairseq_names(network(kind).state_dict()), "extra_state": {"epoch": 3}}
    torch.save(content, folder / "wav2vec_small.pt", _use_new_zipfile_serialization=False)
    return folder / "wav2vec_small.pt"


def tuned_fairseq_file(kind: str, folder: Path) -> Path:
    """Of 2021 and later: OmegaConf's objects, and a network that was trained on transcripts."""
    options = {**OPTIONS, "layer_norm_first": kind == "large"}
    cfg = OmegaConf.create(
        {"model": {"_name": "wav2vec_ctc", "w2v_args": {"model": options}}, "task": {"labels": "ltr"}}
    )
    model = fairseq_names(network(kind).state_dict(), "w2v_encoder.w2v_model.")
    torch.save(
        {"args": None, "cfg": cfg, "model": {**model, "w2v_encoder.proj.bias": torch.zeros(32)}}, folder / "tuned.pt"
    )
    return folder / "tuned.pt"


def safetensors_folder(kind: str, folder: Path) -> Path:
    prefix = {"wavlm": "wavlm", "large": "wav2vec2"}.get(kind, "hubert")
    (folder / "model.safetensors").write_bytes(safetensors(transformers_names(network(kind).state_dict(), prefix)))
    (folder / "config.json").write_text(config_json(kind))
    return folder


def converted(path: Path, folder: Path, *words: str) -> Path:
    words = (f"weights={path}", f"outputs={folder}", *words)
    cfg = compose(*words)
    cfg.overrides = list(words)
    return import_weights(cfg)


@pytest.mark.parametrize(
    ("make", "kind"),
    [
        (torchaudio_file, "large"),
        (fairseq_file, "wavlm"),
        (tuned_fairseq_file, "large"),
        (safetensors_folder, "base"),
        (safetensors_folder, "wavlm"),
    ],
)
def test_a_layouts_weights_give_torchaudios_features(
    make: Callable[[str, Path], Path], kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The command that is printed builds a model that takes them; its encoder gives what torchaudio's gives alone."""
    path = make(kind, tmp_path)
    heads = ["model=wav2vec2", "model.heads=6"] if make is torchaudio_file else []
    file = converted(path, tmp_path, *heads)
    printed = capsys.readouterr().out.splitlines()[-1]
    _, _, *words = shlex.split(printed.removeprefix("train with it: "))
    assert words[-2:] == [f"weights={file}", "weights_parts=[encoder]"]
    task, _ = assemble(compose(*words[:-2]), standing_corpus())
    start_from(task, file, sha256(file), ["encoder"])
    reference, samples = network(kind), torch.randn(2, 4000, generator=torch.Generator().manual_seed(2))
    lengths = torch.tensor([4000, 2500])
    _, frames = task.eval().model(samples[..., None] * (torch.arange(4000) < lengths[:, None])[..., None], lengths)
    seen: list[torch.Tensor] = []
    task.model.dropout.register_forward_hook(lambda _, inputs, output: seen.append(output))  # before the output
    task.model(samples[..., None] * (torch.arange(4000) < lengths[:, None])[..., None], lengths)
    for row, (length, count) in enumerate(zip(lengths.tolist(), frames.tolist(), strict=True)):
        expected, _ = reference(samples[row : row + 1, :length])
        torch.testing.assert_close(seen[0][row, :count], expected[0], atol=2e-5, rtol=1e-4)


def test_weights_of_another_size_say_which_keys_to_set(tmp_path: Path) -> None:
    file = converted(fairseq_file("large", tmp_path), tmp_path)
    task, _ = assemble(compose("model=wav2vec2", "width=24", "layers=3"), standing_corpus())
    with pytest.raises(UsageError) as caught:
        start_from(task, file, sha256(file), ["encoder"])
    message = str(caught.value)
    for word in ("model.heads=6", "model.feed_forward=40", "model.extractor_norm=layer", "model.norm_first=true"):
        assert word in message
    assert "width" not in message
    assert "\n" not in message


class Harmful:
    """What a pickle must not do: its command would leave a file."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, (f"touch {self.file}",)


BIAS = "encoder.transformer.layers.1.final_layer_norm.bias"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (lambda folder: {"model": Harmful(folder / "made")}, r"refused; it holds more than weights and plain values"),
        (lambda folder: {"model": {}}, r"not weights of wav2vec 2\.0, HuBERT or WavLM: they lack"),
        (lambda folder: {**network("base").state_dict(), BIAS: torch.zeros(5)},
         rf"{re.escape(BIAS)} is \[5\] in the file and \[24\] in the model$"),
        (lambda folder: {**network("base").state_dict(), "another": torch.zeros(5)}, r"another is only in the file$"),
        (lambda folder: {**network("base").state_dict(), BIAS: torch.full((24,), torch.nan)}, r"not finite$"),
    ],
)  # fmt: skip
def test_a_bad_file_is_one_line_and_nothing_in_it_runs(
    content: Callable[[Path], object], message: str, tmp_path: Path
) -> None:
    torch.save(content(tmp_path), tmp_path / "bad.pt")
    with pytest.raises(UsageError, match=message) as caught:
        converted(tmp_path / "bad.pt", tmp_path, "model=wav2vec2", "model.heads=6")
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "made").exists()
    assert not (tmp_path / "weights").exists()


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.safetensors", safetensors({"x": torch.zeros(9)})[:-8], "damaged, or not a safetensors file"),
        ("config.json", b"{", "expected a file, or a folder with model.safetensors or pytorch_model.bin"),
    ],
)
def test_a_damaged_file_is_one_line(name: str, content: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(UsageError, match=message) as caught:
        converted(tmp_path if name == "config.json" else tmp_path / name, tmp_path)
    assert "\n" not in str(caught.value)


def test_what_shapes_do_not_say_is_asked_for(tmp_path: Path) -> None:
    with pytest.raises(
        UsageError, match=r"how many attention heads it has: expected model=wav2vec2 model\.heads=<number>"
    ):
        converted(torchaudio_file("base", tmp_path), tmp_path)
    with pytest.raises(UsageError, match="how many attention heads"):  # a default is no answer
        converted(torchaudio_file("base", tmp_path), tmp_path, "model=wav2vec2")
    with pytest.raises(UsageError, match="data: not read with weights"):
        converted(torchaudio_file("base", tmp_path), tmp_path, "data=an4")


@pytest.mark.slow
def test_a_converted_encoder_is_tuned_and_reproduced(tiny_corpus: Path, tmp_path: Path) -> None:
    """As a user would: the printed command with a corpus, then src/reproduce.py."""
    layout, outputs = safetensors_folder("wavlm", tmp_path), f"outputs={tmp_path / 'o'}"
    prepared = expect(0, python(["src/prepare.py", f"weights={layout}", "model=wavlm", outputs], os.environ))
    words = shlex.split(prepared.stdout.splitlines()[-1].removeprefix("train with it: python "))
    masks = ["model.masks.time_masks=1", "model.layer_drop=0.3", "dropout=0.1"]
    usual = ["max_epochs=1", "logger=csv", "gpus=0", outputs]
    expect(0, python([*words, *tiny_overrides(tiny_corpus), *masks, *usual], os.environ))
    (folder,) = run_folders(tmp_path / "o")
    reproduced = expect(0, python(["src/reproduce.py", str(folder)], os.environ))
    assert "\nmatch: " in reproduced.stdout

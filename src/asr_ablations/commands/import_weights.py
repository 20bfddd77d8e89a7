"""Convert published weights of wav2vec 2.0, HuBERT or WavLM to a checkpoint for the key `weights`.

Files may come from torchaudio, fairseq or Hugging Face. Nothing in them is executed, because they may be malicious.
"""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import torch
from omegaconf import DictConfig
from torch import nn

from asr_ablations.components.model.wav2vec2 import NORMS, Wav2Vec2
from asr_ablations.runs.reader import first_line, load_yaml
from asr_ablations.tools.checks import MOST_LAYERS
from asr_ablations.tools.files import CONF, expanded, typed
from asr_ablations.training.trained_model import compare_tensors, list_changes
from asr_verdicts.errors import UsageError, choices
from asr_verdicts.files import slug, whole_file
from asr_verdicts.terminal import harmless_line

State = dict[str, torch.Tensor]

PREFIXES = re.compile(r"^(w2v_encoder\.w2v_model|w2v_encoder|w2v_model|wav2vec2|hubert|wavlm)\.")
LEFT_OUT = re.compile(
    r"^(mask_emb|masked_spec_embed|quantizer|project_q|project_hid|target_glu|final_proj|proj|lm_head|aux|"
    r"label_embs_concat|logit_generator|mask_generator)(\.|$)"
)
"""Parts that only pretraining or the published model's own alphabet uses."""
RENAMED = [
    (re.compile(pattern), name)
    for pattern, name in (
        (r"^feature_extractor\.conv_layers\.(\d+)\.0\.", r"feature_extractor.conv_layers.\1.conv."),
        (r"^feature_extractor\.conv_layers\.(\d+)\.2(\.1)?\.", r"feature_extractor.conv_layers.\1.layer_norm."),
        (r"^post_extract_proj\.", "encoder.feature_projection.projection."),
        (r"^layer_norm\.", "encoder.feature_projection.layer_norm."),
        (r"^feature_projection\.", "encoder.feature_projection."),
        (r"^encoder\.pos_conv\.0\.", "encoder.pos_conv_embed.conv."),
        (r"^encoder\.(pos_conv_embed|layer_norm|layers)\.", r"encoder.transformer.\1."),
        (r"\.self_attn_layer_norm\.", ".layer_norm."),
        (r"\.self_attn\.grep_linear\.", ".attention.gru_rel_pos_linear."),
        (r"\.self_attn\.grep_a$", ".attention.gru_rel_pos_const"),
        (r"\.self_attn\.relative_attention_bias\.", ".attention.rel_attn_embed."),
        (r"\.self_attn\.", ".attention."),
        (r"\.fc1\.", ".feed_forward.intermediate_dense."),
        (r"\.fc2\.", ".feed_forward.output_dense."),
        (r"\.pos_conv_embed\.conv\.weight_g$", ".pos_conv_embed.conv.parametrizations.weight.original0"),
        (r"\.pos_conv_embed\.conv\.weight_v$", ".pos_conv_embed.conv.parametrizations.weight.original1"),
    )
]
"""Names in fairseq, in Microsoft's WavLM and in transformers, with torchaudio's names, applied one after another."""
HEADS = {768: 12, 1024: 16, 1280: 16, 1920: 16}
"""Attention heads of all published encoders by width, for files that do not say how many there are."""
KERNELS, STRIDES = [10, 3, 3, 3, 3, 2, 2], [5, 2, 2, 2, 2, 2, 2]
"""Kernels and strides of the convolutions of all published encoders."""
DISTANCE = 800
"""max_distance of all published WavLM encoders."""
DTYPES = {"F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16, "I64": torch.int64}
MOST_CLASSES = 1000


class Inert:
    """Stands in for any object of another library in a file. It keeps the stored values and does nothing."""

    stored: list[object]

    def __new__(cls, *arguments: object) -> "Inert":
        subject = super().__new__(cls)
        subject.stored = list(arguments)
        return subject

    def __setstate__(self, state: object) -> None:
        self.stored.append(state)


def import_weights(cfg: DictConfig) -> Path:
    """Convert the file or folder `cfg.weights`, print how to train with it, and return the checkpoint's path.

    Raise UsageError if the file cannot be read, or if its tensors do not fit one of these encoders.
    """
    chosen = {key: value for key, _, value in (str(word).partition("=") for word in cfg.overrides)}
    if others := chosen.keys() - {"weights", "outputs", "model", "model.heads"}:
        raise UsageError(f"{min(others)}: not read with weights; expected only model, model.heads or outputs")
    path = expanded(cfg.weights, "weights")
    state, description = read_weights(path)
    state, left_out = rename(state)
    heads = cfg.model.heads if "model.heads" in chosen else None
    settings = read_settings(path, state, description, heads)
    model = chosen.get("model") or ("wavlm" if settings["model.relative_positions"] else "wav2vec2")
    if model not in (names := ("wav2vec2", "hubert", "wavlm")):
        raise choices("model", model, names)
    values = {key.removeprefix("model."): value for key, value in settings.items()}
    masks = {"frequency_masks": 0, "frequency_width": 0, "time_masks": 0, "time_width": 0, "time_share": 0.0}
    with torch.device("meta"):
        built = Wav2Vec2(
            1, 2, rnn=nn.LSTM, norm=lambda frame: nn.Identity(), dropout=0.0, layer_drop=0.0, masks=masks, **values
        )
    expected = {key: torch.zeros(()).expand(value.shape) for key, value in built.encoder.state_dict().items()}
    if problems := compare_tensors(expected, state):
        raise UsageError(harmless_line(f"{path}: not an encoder that model={model} can load: {problems}"))
    name = path.parent.name if path.stem in ("model", "pytorch_model") else path.name if path.is_dir() else path.stem
    file = Path(cfg.outputs) / "weights" / f"{slug(name)}.ckpt"
    file.parent.mkdir(parents=True, exist_ok=True)
    tensors = {f"model.encoder.{key}": state[key].float().clone() for key in expected}
    with whole_file(file) as temporary, temporary.open("wb") as stream:
        torch.save({"state_dict": tensors, "settings": settings}, stream)
    if left_out:
        names_left = ", ".join(left_out[:4]) + " …" * bool(left_out[4:])
        print(harmless_line(f"left out: {names_left} ({len(left_out)} tensors)"))
    print(f"{file}: {sum(value.numel() for value in tensors.values()) / 1e6:.2f} million weights of an encoder")
    option = load_yaml((CONF / "model" / f"{model}.yaml").read_text(encoding="utf-8"))
    current = {**option, **{f"model.{key}": value for key, value in option["model"].items()}}
    words = (f"model={model}", *list_changes(settings, current), f"weights={file}", "weights_parts=[encoder]")
    print(f"train with it: {typed('train', *words)}")
    return file


def read_weights(path: Path) -> tuple[State, object]:
    """Read the tensors of a file or folder, and the description of their model: config.json, or values in the file."""
    files = [path]
    if path.is_dir():
        files = sorted(path.glob("model*.safetensors")) or sorted(path.glob("pytorch_model*.bin"))
    if not files or not all(map(Path.is_file, files)):
        raise choices("weights", path, "a file, or a folder with model.safetensors or pytorch_model.bin")
    state: State = {}
    described: list[object] = []
    for file in files:
        content: dict[Any, Any] = read_safetensors(file) if file.suffix == ".safetensors" else read_pickle(file)
        inner = next((content[key] for key in ("model", "state_dict") if isinstance(content.get(key), dict)), content)
        state |= {
            key: value for key, value in inner.items() if isinstance(key, str) and isinstance(value, torch.Tensor)
        }
        described += [content[key] for key in ("cfg", "args") if key in content]
    config = (path if path.is_dir() else path.parent) / "config.json"
    if config.is_file():
        try:
            described.insert(0, json.loads(config.read_text(encoding="utf-8")))
        except ValueError as error:
            raise UsageError(f"{config}: damaged: {first_line(error)}") from error
    return state, described


def read_safetensors(file: Path) -> State:
    """Read a safetensors file: the header's length in 8 bytes, a JSON header with places, and the tensors' bytes."""
    content = bytearray(file.read_bytes())
    start = 8 + int.from_bytes(content[:8], "little")
    try:
        if start > len(content):
            raise ValueError("the file is shorter than its header")
        header = json.loads(content[8:start].decode())
        entries = {key: entry for key, entry in header.items() if key != "__metadata__"}
        state = {}
        for key, entry in entries.items():
            begin, end = entry["data_offsets"]
            data, dtype = content[start + begin : start + end], DTYPES[entry["dtype"]]
            values = torch.frombuffer(data, dtype=dtype) if data else torch.zeros(0, dtype=dtype)
            state[key] = values.reshape(entry["shape"])
    except (ValueError, KeyError, TypeError, AttributeError, RuntimeError) as error:
        raise UsageError(harmless_line(f"{file}: damaged, or not a safetensors file: {first_line(error)}")) from error
    return state


def read_pickle(file: Path) -> dict[Any, Any]:
    """Read a file of torch.save without executing anything: objects of other libraries are replaced by Inert ones."""
    names: list[str] = []
    while True:
        try:
            with torch.serialization.safe_globals([(Inert, name) for name in names]):
                content = torch.load(file, map_location="cpu", weights_only=True)
            break
        except UnpicklingError as error:
            unknown = re.search(r"Unsupported global: GLOBAL (\S+) was not", str(error))
            if unknown is None or unknown[1] in names or len(names) > MOST_CLASSES:
                raise UsageError(
                    f"{file}: refused; it holds more than weights and plain values. Load it with the library that "
                    "wrote it, and save only the weights: torch.save(model.state_dict(), file)"
                ) from error
            names += [unknown[1], f"builtins.{unknown[1]}"]
        except Exception as error:  # torch may raise anything for bytes that are not a checkpoint
            raise UsageError(harmless_line(f"{file}: damaged and cannot be read: {first_line(error)}")) from error
    if not isinstance(content, dict):
        raise UsageError(f"{file}: not a state_dict, nor a dict that contains one")
    return content


def rename(state: State) -> tuple[State, list[str]]:
    """Rename tensors as in torchaudio. Return them, and the names of tensors that do not belong to an encoder."""
    renamed: State = {}
    left_out = []
    for key, value in state.items():
        name = PREFIXES.sub("", key)
        if LEFT_OUT.match(name):
            left_out.append(key)
            continue
        for pattern, replacement in RENAMED:
            name = pattern.sub(replacement, name)
        renamed[name] = value
    if any(".rel_attn_embed." in name for name in renamed):
        _join_projections(renamed)
    return renamed, left_out


def _join_projections(state: State) -> None:
    """Join the projections of WavLM's queries, keys and values into one matrix, in place, as torchaudio has them."""
    for key in [key for key in state if re.search(r"\.attention\.q_proj\.(weight|bias)$", key)]:
        start, _, kind = key.rpartition("q_proj.")
        names = [f"{start}{part}_proj.{kind}" for part in "qkv"]
        if all(name in state for name in names):
            state[f"{start}attention.in_proj_{kind}"] = torch.cat([state.pop(name) for name in names])
        if (output := f"{start}out_proj.{kind}") in state:
            state[f"{start}attention.out_proj.{kind}"] = state.pop(output)


def read_settings(path: Path, state: State, description: object, heads: object) -> dict[str, Any]:
    """Return the config keys that these weights determine, from their shapes and the description of their model.

    heads: number of attention heads, if neither the file nor HEADS knows it.
    """
    layer = "encoder.transformer.layers.0."
    try:
        keys = (f"feature_extractor.conv_layers.{i}.conv.weight" for i in range(MOST_LAYERS))
        sizes = [(len(state[key]), state[key].shape[2]) for key in keys if key in state]
        width = len(state["encoder.feature_projection.projection.weight"])
        positions = state["encoder.transformer.pos_conv_embed.conv.parametrizations.weight.original1"]
        position_kernel, groups = positions.shape[2], width // positions.shape[1]
        feed_forward = len(state[f"{layer}feed_forward.intermediate_dense.weight"])
    except KeyError as error:
        raise UsageError(
            harmless_line(f"{path}: not weights of wav2vec 2.0, HuBERT or WavLM: they lack {error}")
        ) from error
    except (IndexError, TypeError, ZeroDivisionError) as error:
        raise UsageError(f"{path}: not weights of wav2vec 2.0, HuBERT or WavLM: tensors have other shapes") from error
    embedding = state.get(f"{layer}attention.rel_attn_embed.weight")
    norm = NORMS["feature_extractor.conv_layers.1.layer_norm.weight" in state]
    heads = find(description, "num_attention_heads", "encoder_attention_heads") or HEADS.get(width, heads)
    if not isinstance(heads, int):
        raise UsageError(
            f"{path}: does not say how many attention heads it has: expected model=wav2vec2 model.heads=<number>"
        )
    strides = find(description, "conv_stride") or _read_strides(find(description, "conv_feature_layers"))
    if strides is None and [kernel for _, kernel in sizes] == KERNELS:
        strides = STRIDES
    if not isinstance(strides, list) or len(strides) != len(sizes):
        raise UsageError(
            f"{path}: does not say the strides of its convolutions: expected a config.json with conv_stride next to it"
        )
    first = find(description, "do_stable_layer_norm", "layer_norm_first")
    distance = find(description, "max_bucket_distance", "max_distance") or DISTANCE
    numbers = [int(name[1]) for key in state if (name := re.match(r"encoder\.transformer\.layers\.(\d+)\.", key))]
    return {
        "width": width,
        "layers": max(numbers) + 1,
        "model.heads": heads,
        "model.feed_forward": feed_forward,
        "model.convolutions": [[*size, stride] for size, stride in zip(sizes, strides, strict=True)],
        "model.extractor_norm": norm,
        "model.convolution_bias": "feature_extractor.conv_layers.0.conv.bias" in state,
        "model.position_kernel": position_kernel,
        "model.position_groups": groups,
        "model.norm_first": norm == "layer" if first is None else bool(first),
        "model.relative_positions": None
        if embedding is None
        else {"buckets": len(embedding), "max_distance": distance},
    }


def find(description: object, *names: str) -> Any:
    """Return the first plain value that a nested description has under one of the names, or None."""
    waiting, seen = [description], set()
    while waiting:
        node = waiting.pop(0)
        if id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(node, Mapping):
            for name in names:
                value = node.get(name)
                while isinstance(value, Inert):  # a value of OmegaConf's
                    value = next(
                        (part["_val"] for part in value.stored if isinstance(part, dict) and "_val" in part), None
                    )
                if value is not None:
                    return value
            waiting += node.values()
        elif isinstance(node, (list, tuple)):
            waiting += node
        elif isinstance(node, Inert):
            waiting += node.stored
    return None


def _read_strides(layers: object) -> list[int] | None:
    """Read the strides in fairseq's text for convolutions, such as [(512, 10, 5)] + [(512, 3, 2)] * 4."""
    found = re.findall(r"\(\s*\d+\s*,\s*\d+\s*,\s*(\d+)\s*\)\s*,?\s*\]?(?:\s*\*\s*(\d{1,3}))?", str(layers))
    return [int(stride) for stride, times in found for _ in range(int(times or 1))] or None

"""Training steps of the networks in PyTorch, whichever module computes their LSTM layers."""

from collections.abc import Callable
from functools import cache

import numpy as np
import torch
from torch import nn
from torch.nn.functional import cross_entropy, ctc_loss, linear
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from asr_ablations.components.model.directions import Directions, reversal
from asr_ablations.tools.machine import device_clock
from asr_benchmarks.lstm.configuration import Configuration, Weights, draw_batch, draw_weights


class TorchTraining:
    """A Training. layers: maps (x (B, T, D), lengths (B,)) to (B, T, H · directions), valid before each length. names:
    those of the weights in it, by layer and direction, with {} for weight_ih, weight_hh, bias_ih and bias_hh.
    """

    def __init__(
        self, layers: nn.Module, names: list[list[str]], *, configuration: Configuration, seed: int, device: str
    ):
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
        self.configuration, self.device = configuration, torch.device(device)
        output = nn.Linear(configuration.units * configuration.directions, configuration.outputs)
        self.network = nn.ModuleDict({"layers": layers, "output": output})
        fill(self.network, names, draw_weights(configuration, seed))
        self.network.to(self.device).train()
        self.optimizer = torch.optim.Adam(_groups(self.network))
        self.batch = draw_batch(configuration, seed)

    def outputs(self) -> np.ndarray:
        # with gradients, as in a step: without them torch.compile would compile once more
        logits: np.ndarray = self._logits(*self._copied()[:2]).detach().cpu().numpy()
        return logits

    def step(self) -> tuple[float, float]:
        started = device_clock(self.device)
        x, lengths, labels = self._copied()
        loss = self._loss(self._logits(x, lengths), lengths, labels)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return device_clock(self.device) - started, loss.item()

    def device_memory(self) -> int | None:
        return torch.cuda.max_memory_allocated() if self.device.type == "cuda" else None

    def versions(self) -> dict[str, str]:
        return {"torch": torch.__version__}

    def _copied(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """The batch on the device; lengths stay on the CPU, where packing and the native CTC need them."""
        x, labels = (torch.from_numpy(value).to(self.device) for value in (self.batch.x, self.batch.labels))
        return x, torch.from_numpy(self.batch.lengths), labels

    def _logits(self, x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        y = self.network["layers"](x, lengths)
        return self.network["output"](y if self.configuration.loss == "ctc" else y[:, -1])

    def _loss(self, logits: torch.Tensor, lengths: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        if self.configuration.loss == "ce":
            return cross_entropy(logits, labels[:, 0])
        counts = torch.full((len(labels),), labels.shape[1])
        return ctc_loss(logits.log_softmax(dim=-1).transpose(0, 1), labels, lengths, counts, blank=0)


def fill(network: nn.ModuleDict, names: list[list[str]], weights: Weights) -> None:
    """Set the weights; the second bias, which only torch has, is 0. Raises ValueError for names without counterpart."""
    parameters = dict(network.named_parameters())
    given = {"output.weight": weights.output, "output.bias": weights.bias}
    for layer, values in zip(names, weights.layers, strict=True):
        for name, (inputs, recurrent, bias) in zip(layer, values, strict=True):
            each = {"weight_ih": inputs, "weight_hh": recurrent, "bias_ih": bias, "bias_hh": np.zeros_like(bias)}
            given |= {f"layers.{name.format(kind)}": value for kind, value in each.items()}
    if missing := parameters.keys() ^ given.keys():
        raise ValueError(f"weights without a counterpart: {', '.join(sorted(missing))}")
    with torch.no_grad():
        for name, value in given.items():
            parameters[name].copy_(torch.from_numpy(value))


def _groups(network: nn.Module) -> list[dict[str, object]]:
    """Parameter groups of Adam. The second bias stays 0: two biases would learn at twice the rate of the one that other
    frameworks have.
    """
    second = [value for name, value in network.named_parameters() if "bias_hh" in name]
    others = [value for name, value in network.named_parameters() if "bias_hh" not in name]
    return [{"params": others}, {"params": second, "lr": 0.0}]


class TorchCells(TorchTraining):
    """A Training. layer: maps (D, H) to a module (x (B, T, D), lengths (B,)) → (B, T, H), whose weights are those of an
    nn.LSTM named `cell`.
    """

    def __init__(
        self, layer: Callable[[int, int], nn.Module], *, configuration: Configuration, seed: int, device: str
    ) -> None:
        layers = Layers(layer, configuration)
        kinds = ("forwards", "backwards")[: configuration.directions]
        names = [[f"{kind}.{n}.cell.{{}}_l0" for kind in kinds] for n in range(configuration.layers)]
        super().__init__(layers, names, configuration=configuration, seed=seed, device=device)


class Layers(nn.Module):
    """(x (B, T, D), lengths (B,)) → (B, T, H · directions). The backward direction reverses each utterance within its
    own length.
    """

    def __init__(self, layer: Callable[[int, int], nn.Module], configuration: Configuration) -> None:
        super().__init__()
        sizes, units = configuration.input_sizes, configuration.units
        self.forwards = nn.ModuleList(layer(size, units) for size in sizes)
        self.backwards = nn.ModuleList(layer(size, units) for size in sizes if configuration.bidirectional)

    def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        flip = reversal(lengths, x.shape[1], x.device)[..., None] if len(self.backwards) else None
        for n, forwards in enumerate(self.forwards):
            y = forwards(x, lengths)
            if flip is not None:
                z = self.backwards[n](x.gather(1, flip.expand_as(x)), lengths)
                y = torch.cat([y, z.gather(1, flip.expand_as(z))], dim=-1)
            x = y
        return x


class LSTMCompiled(nn.Module):
    """One layer, one direction: (x (B, T, D), lengths (B,)) → (B, T, H), with the same numbers as rnn=lstm.

    The step is compiled, not the loop: compiling a loop of 1000 frames takes longer than training. All layers and
    directions share one compiled step, since the inputs of all frames are one matrix product before the loop.
    """

    def __init__(self, input_size: int, hidden_size: int) -> None:
        super().__init__()
        self.cell = nn.LSTM(input_size, hidden_size, batch_first=True)  # only holds the weights

    def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        ((inputs, recurrent, input_bias, recurrent_bias),) = self.cell.all_weights
        entering = linear(x.transpose(0, 1), inputs, input_bias + recurrent_bias)  # (T, B, gates · H)
        hidden = memory = x.new_zeros(len(x), self.cell.hidden_size)
        step, outputs = _compiled(), []
        for frame in entering.unbind(0):
            hidden, memory = step(frame, hidden, memory, recurrent)
            outputs.append(hidden)
        return torch.stack(outputs, dim=1)


def _step(
    entering: torch.Tensor, hidden: torch.Tensor, memory: torch.Tensor, recurrent: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    enter, forget, candidate, leave = torch.addmm(entering, hidden, recurrent.T).chunk(4, dim=1)
    memory = forget.sigmoid() * memory + enter.sigmoid() * candidate.tanh()
    return leave.sigmoid() * memory.tanh(), memory


@cache
def _compiled() -> Callable[..., tuple[torch.Tensor, torch.Tensor]]:
    return torch.compile(_step, dynamic=False)


class TorchLSTM(TorchTraining):
    """A Training. Raises ValueError for two directions with several lengths: the backward one would start in the
    padding.
    """

    def __init__(self, *, configuration: Configuration, seed: int, device: str) -> None:
        if configuration.bidirectional and configuration.variable:
            raise ValueError("nn.LSTM would read backwards from the padding; torch_packed is the same with lengths")
        layers = Padded(lstm(configuration))
        names = lstm_names(configuration)
        super().__init__(layers, names, configuration=configuration, seed=seed, device=device)


class Padded(nn.Module):
    """(x (B, T, D), lengths (B,)) → (B, T, H · directions)."""

    def __init__(self, layers: nn.LSTM) -> None:
        super().__init__()
        self.lstm = layers

    def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        return self.lstm(x)[0]


def lstm(configuration: Configuration) -> nn.LSTM:
    """All layers and directions of a configuration in one module."""
    return nn.LSTM(
        configuration.features,
        configuration.units,
        configuration.layers,
        batch_first=True,
        bidirectional=configuration.bidirectional,
    )


def lstm_names(configuration: Configuration) -> list[list[str]]:
    """Names of the weights in a module whose `lstm` this is, by layer and direction, with {} for weight_ih etc."""
    ends = ("", "_reverse")[: configuration.directions]
    return [[f"lstm.{{}}_l{layer}{end}" for end in ends] for layer in range(configuration.layers)]


class TorchPacked(TorchTraining):
    """A Training. Its utterances come longest first, so that nothing has to be sorted."""

    def __init__(self, *, configuration: Configuration, seed: int, device: str) -> None:
        layers = Packed(lstm(configuration))
        names = lstm_names(configuration)
        super().__init__(layers, names, configuration=configuration, seed=seed, device=device)


class Packed(nn.Module):
    """(x (B, T, D), lengths (B,)) → (B, T, H · directions)."""

    def __init__(self, layers: nn.LSTM) -> None:
        super().__init__()
        self.lstm = layers

    def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        packed = pack_padded_sequence(x, lengths, batch_first=True)
        return pad_packed_sequence(self.lstm(packed)[0], batch_first=True, total_length=x.shape[1])[0]


class Project(TorchTraining):
    """A Training. layer: an option of conf/rnn. On a CPU with several threads each direction runs in its own thread."""

    def __init__(
        self, layer: Callable[[int, int], nn.Module], *, configuration: Configuration, seed: int, device: str
    ) -> None:
        kinds = ("forwards", "backwards")[: configuration.directions]
        names = [[f"layers.{n}.{kind}.cell.{{}}_l0" for kind in kinds] for n in range(configuration.layers)]
        super().__init__(_Layers(layer, configuration), names, configuration=configuration, seed=seed, device=device)


class _Layers(nn.Module):
    def __init__(self, layer: Callable[[int, int], nn.Module], configuration: Configuration) -> None:
        super().__init__()
        directions = "concat" if configuration.bidirectional else "forward"
        sizes, units = configuration.input_sizes, configuration.units
        self.layers = nn.ModuleList(Directions(layer, size, units, directions=directions) for size in sizes)

    def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x, lengths)
        return x

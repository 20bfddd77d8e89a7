"""Training steps of the networks in PyTorch, whichever module computes their LSTM layers."""

import numpy as np
import torch
from torch import nn
from torch.nn.functional import cross_entropy, ctc_loss

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

"""CTC on a GPU without a wait for it, and with sums in a fixed order: the forward and the backward variables.

torch's own copies lengths to the device, blocking, and adds up its gradient by atomics (aten/src/ATen/native/cuda/
LossCTC.cu, torch 2.11). It stays the one that runs on a CPU. labels: (B, S = 2 L + 1) with a blank, 0, around each of
at most L labels; lengths: (B,) frames; counts: (B,) labels, all on the device of log_probs (B, T, V), float32.
"""

import torch
from torch import library
from torch.nn.functional import pad

SCHEMAS = {
    "ctc_forward": "(Tensor log_probs, Tensor labels, Tensor lengths, Tensor counts) -> (Tensor, Tensor)",
    "ctc_occupancy": "(Tensor log_probs, Tensor labels, Tensor lengths, Tensor counts, Tensor alphas, Tensor nats) "
    "-> Tensor",
}
NEVER = float("-inf")


def forward(
    log_probs: torch.Tensor, labels: torch.Tensor, lengths: torch.Tensor, counts: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Logarithms (B, T, S) of the probability of all beginnings that end in a state, and the loss (B,) in nats."""
    emitted, inside = _emitted(log_probs, labels), _inside(labels, counts)
    states = torch.arange(labels.shape[1], device=labels.device)
    alphas = torch.full_like(emitted, NEVER)
    alpha = torch.where(inside & (states < 2), 0.0, NEVER)
    total = torch.where(counts == 0, 0.0, NEVER)
    for frame in range(log_probs.shape[1]):
        if frame:
            skipping = torch.where(_skips(labels), _moved(alpha, 2), NEVER)
            alpha = torch.stack([alpha, _moved(alpha, 1), skipping]).logsumexp(0)
        alpha = torch.where(inside, alpha + emitted[:, frame], NEVER)
        alphas[:, frame] = alpha
        ending = torch.where(_ends(labels, counts), alpha, NEVER).logsumexp(1)
        total = torch.where(lengths == frame + 1, ending, total)
    return alphas, -total


def occupancy(
    log_probs: torch.Tensor,
    labels: torch.Tensor,
    lengths: torch.Tensor,
    counts: torch.Tensor,
    alphas: torch.Tensor,
    nats: torch.Tensor,
) -> torch.Tensor:
    """The probability (B, T, S) of each state in each frame, given the labels; 0 past a length."""
    emitted, result = _emitted(log_probs, labels), torch.zeros_like(alphas)
    reached = _moved(_skips(labels).float(), -2, 0.0) > 0  # two states ahead
    beta = torch.full_like(alphas[:, 0], NEVER) if alphas.shape[1] else alphas.new_zeros(0)
    for frame in reversed(range(log_probs.shape[1])):
        if frame + 1 < log_probs.shape[1]:
            after = beta + emitted[:, frame + 1]
            skipping = torch.where(reached, _moved(after, -2), NEVER)
            beta = torch.stack([after, _moved(after, -1), skipping]).logsumexp(0)
        last = (lengths == frame + 1)[:, None]
        beta = torch.where(last, torch.where(_ends(labels, counts), 0.0, NEVER), beta)
        within = _inside(labels, counts) & (frame < lengths)[:, None]
        result[:, frame] = torch.where(within, (alphas[:, frame] + beta + nats[:, None]).exp(), 0.0)
    return result


def _emitted(log_probs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return log_probs.gather(2, labels[:, None].expand(-1, log_probs.shape[1], -1))


def _inside(labels: torch.Tensor, counts: torch.Tensor) -> torch.Tensor:
    return torch.arange(labels.shape[1], device=labels.device) <= 2 * counts[:, None]


def _ends(labels: torch.Tensor, counts: torch.Tensor) -> torch.Tensor:
    states = torch.arange(labels.shape[1], device=labels.device)
    return (states == 2 * counts[:, None]) | (states == 2 * counts[:, None] - 1)


def _skips(labels: torch.Tensor) -> torch.Tensor:
    """Whether a state (B, S) may follow the one two before it: labels that are not the same one twice."""
    return (labels != 0) & (labels != pad(labels, (2, 0))[:, : labels.shape[1]])


def _moved(values: torch.Tensor, by: int, fill: float = NEVER) -> torch.Tensor:
    """Values (B, S) of `by` states before."""
    size = values.shape[1]
    return pad(values, (by, 0), value=fill)[:, :size] if by > 0 else pad(values, (0, -by), value=fill)[:, -size:]


def _variables(log_probs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return log_probs.new_empty(*log_probs.shape[:2], labels.shape[1])


LIBRARY = library.Library("asr_ablations", "FRAGMENT")
REFERENCES = dict(zip(SCHEMAS, (forward, occupancy), strict=True))
for _name, _schema in SCHEMAS.items():
    LIBRARY.define(_name + _schema)
    LIBRARY.impl(_name, REFERENCES[_name], "CPU")
LIBRARY.impl("ctc_forward", lambda x, labels, *_: (_variables(x, labels), x.new_empty(len(x))), "Meta")
LIBRARY.impl("ctc_occupancy", lambda x, labels, *_: _variables(x, labels), "Meta")

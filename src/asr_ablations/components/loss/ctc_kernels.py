# ruff: noqa: N803  Triton's constants are written in capitals
"""Triton kernels for the operations of ctc.py.

One program per utterance computes all states of one frame at a time. States are shifted within registers, because a
thread could otherwise read a value before another thread has written it.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def _forward(log_probs, labels, lengths, counts, alphas, nats, frames, outputs, states, STATES: tl.constexpr):
    utterance = tl.program_id(0)
    state = tl.arange(0, STATES)
    length, count = tl.load(lengths + utterance), tl.load(counts + utterance)
    inside = state <= 2 * count
    never = float("-inf")
    label = tl.load(labels + utterance * states + state, mask=state < states, other=0)
    skips = (state > 1) & (label != 0) & (label != tl.gather(label, tl.maximum(state - 2, 0), 0))
    emissions = log_probs + utterance.to(tl.int64) * frames * outputs
    place = alphas + utterance.to(tl.int64) * frames * states + state
    alpha = tl.where(inside & (state < 2), 0.0, never)
    for frame in range(0, length):
        before = tl.where(state > 0, tl.gather(alpha, tl.maximum(state - 1, 0), 0), never)
        earlier = tl.where(skips, tl.gather(alpha, tl.maximum(state - 2, 0), 0), never)
        first = frame == 0  # in the first frame, states have no predecessors
        before, earlier = tl.where(first, never, before), tl.where(first, never, earlier)
        most = tl.maximum(alpha, tl.maximum(before, earlier))
        base = tl.where(most == never, 0.0, most)
        alpha = tl.log(tl.exp(alpha - base) + tl.exp(before - base) + tl.exp(earlier - base)) + base
        alpha += tl.load(emissions + frame * outputs + label, mask=inside, other=0.0)
        alpha = tl.where(inside, alpha, never)
        tl.store(place + frame * states, alpha, mask=state < states)
    ends = (state == 2 * count) | (state == 2 * count - 1)
    ending = tl.where(ends, alpha, never)
    most = tl.max(ending, 0)
    base = tl.where(most == never, 0.0, most)
    total = tl.log(tl.sum(tl.where(ends, tl.exp(alpha - base), 0.0), 0)) + base
    nothing = tl.where(count == 0, 0.0, never)  # log-probability if there are no frames
    tl.store(nats + utterance, -tl.where(length == 0, nothing, total))


@triton.jit
def _occupancy(log_probs, labels, lengths, counts, alphas, nats, result, frames, outputs, states, STATES: tl.constexpr):
    utterance = tl.program_id(0)
    state = tl.arange(0, STATES)
    length, count = tl.load(lengths + utterance), tl.load(counts + utterance)
    inside = state <= 2 * count
    never = float("-inf")
    label = tl.load(labels + utterance * states + state, mask=state < states, other=0)
    ahead = tl.gather(label, tl.minimum(state + 2, STATES - 1), 0)
    skips = (state + 2 <= 2 * count) & (ahead != 0) & (ahead != label)
    loss = tl.load(nats + utterance)
    emissions = log_probs + utterance.to(tl.int64) * frames * outputs
    offset = utterance.to(tl.int64) * frames * states + state
    beta = tl.where((state == 2 * count) | (state == 2 * count - 1), 0.0, never)
    for step in range(0, length):
        frame = length - 1 - step
        alpha = tl.load(alphas + offset + frame * states, mask=inside, other=never)
        probability = tl.where(inside, tl.exp(alpha + beta + loss), 0.0)
        tl.store(result + offset + frame * states, probability, mask=state < states)
        stay = beta + tl.load(emissions + frame * outputs + label, mask=inside, other=0.0)
        stay = tl.where(inside, stay, never)
        after = tl.where(state + 1 <= 2 * count, tl.gather(stay, tl.minimum(state + 1, STATES - 1), 0), never)
        later = tl.where(skips, tl.gather(stay, tl.minimum(state + 2, STATES - 1), 0), never)
        most = tl.maximum(stay, tl.maximum(after, later))
        base = tl.where(most == never, 0.0, most)
        beta = tl.log(tl.exp(stay - base) + tl.exp(after - base) + tl.exp(later - base)) + base


def forward(
    log_probs: torch.Tensor, labels: torch.Tensor, lengths: torch.Tensor, counts: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    size, frames, outputs = log_probs.shape
    alphas, nats = log_probs.new_empty(size, frames, labels.shape[1]), log_probs.new_empty(size)
    tensors = (log_probs, labels, lengths, counts, alphas, nats)
    _forward[(size,)](*tensors, frames, outputs, labels.shape[1], STATES=_states(labels))
    return alphas, nats


def occupancy(
    log_probs: torch.Tensor,
    labels: torch.Tensor,
    lengths: torch.Tensor,
    counts: torch.Tensor,
    alphas: torch.Tensor,
    nats: torch.Tensor,
) -> torch.Tensor:
    size, frames, outputs = log_probs.shape
    tensors = (log_probs, labels, lengths, counts, alphas, nats, result := torch.zeros_like(alphas))
    _occupancy[(size,)](*tensors, frames, outputs, labels.shape[1], STATES=_states(labels))
    return result


def _states(labels: torch.Tensor) -> int:
    return max(16, triton.next_power_of_2(labels.shape[1]))


KERNELS = {"ctc_forward": forward, "ctc_occupancy": occupancy}
"""Kernels by operation name."""

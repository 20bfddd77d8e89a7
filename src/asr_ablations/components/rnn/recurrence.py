"""GRU and plain recurrence on a CPU, with explicit gradients.

torch runs an LSTM on a CPU with oneDNN, but splits these two into operations on single frames, and accumulates the
gradient of the recurrent weights frame by frame. Here each pass needs one product and a few operations on (B, H) per
frame; everything else is one product for all frames.
"""

from collections.abc import Callable
from typing import Any, TypeAlias

import torch
from torch.autograd.function import once_differentiable

from asr_ablations.tools.matrix_products import linear, packed

Gradients: TypeAlias = tuple[torch.Tensor | None, ...]
Slope: TypeAlias = Callable[[torch.Tensor], torch.Tensor]
"""Computes the derivatives of a non-linearity from its outputs."""


def split_frames(*tensors: torch.Tensor) -> list[tuple[torch.Tensor, ...]]:
    """Split tensors (T, …) into T tuples of frames. Making views one by one would take as long as the operations."""
    return list(zip(*(tensor.unbind(0) for tensor in tensors), strict=True))


def applies(x: torch.Tensor) -> bool:
    """Return whether these recurrences are faster than torch's: in training in float32 on a CPU."""
    return x.device.type == "cpu" and x.dtype == torch.float32 and torch.is_grad_enabled()


class GRURecurrence(torch.autograd.Function):
    """(x (B, T, D), weights and biases as nn.GRU stacks them) → (B, T, H).

    r, z = σ(W x + U h), n = tanh(W x + r ∘ (U h)), h' = (1 - z) ∘ n + z ∘ h; every product has a bias.
    """

    @staticmethod
    def forward(
        ctx: Any,
        x: torch.Tensor,
        inputs: torch.Tensor,
        recurrent: torch.Tensor,
        input_bias: torch.Tensor,
        recurrent_bias: torch.Tensor,
    ) -> torch.Tensor:
        (B, T, _), H = x.shape, recurrent.shape[1]
        frames = x.transpose(0, 1).flatten(0, 1)  # (T·B, D)
        entering = linear(frames, inputs, input_bias).view(T, B, 3 * H)
        weights, returning = packed(recurrent, B), []
        gates, candidates, hidden = x.new_empty(T, B, 2 * H), x.new_empty(T, B, H), x.new_zeros(T + 1, B, H)
        for to_gates, to_candidate, gate, reset, update, candidate, past, new in split_frames(
            entering[..., : 2 * H],
            entering[..., 2 * H :],
            gates,
            gates[..., :H],
            gates[..., H:],
            candidates,
            hidden[:-1],
            hidden[1:],
        ):
            by_gates, by_candidate = linear(past, weights, recurrent_bias).split([2 * H, H], dim=1)
            returning.append(by_candidate)
            torch.add(to_gates, by_gates, out=gate).sigmoid_()
            torch.addcmul(to_candidate, reset, by_candidate, out=candidate).tanh_()
            torch.lerp(candidate, past, update, out=new)
        back = torch.stack(returning)
        ctx.save_for_backward(frames, inputs, recurrent, gates, candidates, back, hidden)
        return hidden[1:].transpose(0, 1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: torch.Tensor) -> Gradients:
        frames, inputs, recurrent, gates, candidates, back, hidden = ctx.saved_tensors
        T, B, H = candidates.shape
        reset, update = gates[..., :H], gates[..., H:]
        by_candidate = (1 - update) * (1 - candidates.square())
        # factors from the gradient of h' to the gradients of U h + b, for r, z and n
        slopes = candidates.new_empty(T, B, 3, H)
        torch.mul(by_candidate * back * reset, 1 - reset, out=slopes[:, :, 0])
        torch.mul((hidden[:-1] - candidates) * update, 1 - update, out=slopes[:, :, 1])
        torch.mul(by_candidate, reset, out=slopes[:, :, 2])
        by_hidden = gradients[0].transpose(0, 1).clone(memory_format=torch.contiguous_format)
        by_gates = torch.empty_like(slopes)
        by_back = by_gates.view(T * B, 3 * H)
        weights, later = packed(recurrent.T, B), None
        for new, spread, slope, by_gate, by_sums, carry in split_frames(
            by_hidden, by_hidden[:, :, None], slopes, by_gates, by_gates.view(T, B, 3 * H), update
        )[::-1]:
            if later is not None:
                new.addcmul_(later[0], later[2]).add_(linear(later[1], weights))
            torch.mul(spread, slope, out=by_gate)
            later = new, by_sums, carry
        by_recurrent, by_recurrent_bias = linear(hidden[:-1].flatten(0, 1).T, by_back.T).T, by_back.sum(0)
        torch.mul(by_hidden, by_candidate, out=by_gates[:, :, 2])  # for W x + b, which the reset gate does not scale
        by_x = linear(by_back, inputs.T).view(T, B, -1).transpose(0, 1)
        return by_x, linear(frames.T, by_back.T).T, by_recurrent, by_back.sum(0), by_recurrent_bias


class PlainRecurrence(torch.autograd.Function):
    """(x (B, T, D), weights and biases as in nn.RNN, a non-linearity f) → (B, T, H), h' = f(W x + U h + b).

    apply_: f, in place; slope: the derivatives of f.
    """

    @staticmethod
    def forward(
        ctx: Any,
        x: torch.Tensor,
        inputs: torch.Tensor,
        recurrent: torch.Tensor,
        input_bias: torch.Tensor,
        recurrent_bias: torch.Tensor,
        apply_: Callable[[torch.Tensor], torch.Tensor],
        slope: Slope,
    ) -> torch.Tensor:
        (B, T, _), H = x.shape, recurrent.shape[1]
        frames = x.transpose(0, 1).flatten(0, 1)  # (T·B, D)
        hidden = linear(frames, inputs, input_bias + recurrent_bias).view(T, B, H)
        transposed = recurrent.T.contiguous()
        past = None
        for new in hidden.unbind(0):
            past = apply_(new if past is None else new.addmm_(past, transposed))
        ctx.slope = slope
        ctx.save_for_backward(frames, inputs, recurrent, hidden)
        return hidden.transpose(0, 1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: torch.Tensor) -> Gradients:
        frames, inputs, recurrent, hidden = ctx.saved_tensors
        T, B, H = hidden.shape
        slopes = ctx.slope(hidden)
        by_sum = gradients[0].transpose(0, 1).clone(memory_format=torch.contiguous_format)
        later = None
        for by_new, slope in split_frames(by_sum, slopes)[::-1]:
            later = (by_new if later is None else by_new.addmm_(later, recurrent)).mul_(slope)
        flat = by_sum.view(T * B, H)
        by_recurrent, by_bias = linear(hidden[:-1].flatten(0, 1).T, by_sum[1:].flatten(0, 1).T).T, flat.sum(0)
        by_x = linear(flat, inputs.T).view(T, B, -1).transpose(0, 1)
        return by_x, linear(frames.T, flat.T).T, by_recurrent, by_bias, by_bias.clone(), None, None


def tanh_slope(outputs: torch.Tensor) -> torch.Tensor:
    return 1 - outputs.square()


def relu_slope(outputs: torch.Tensor) -> torch.Tensor:
    return (outputs > 0).to(outputs.dtype)

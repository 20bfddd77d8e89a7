"""Two ranks with a half of a batch each do what one process does with the whole of it."""

import os
from pathlib import Path
from typing import Any

import torch
from torch import distributed, multiprocessing, nn

from tests.helpers.support import component

SHAPE = (6, 7, 2, 3)
LENGTHS = torch.tensor([7, 1, 0, 5, 3, 6])


def batch() -> tuple[torch.Tensor, torch.Tensor]:
    """(signal, what weighs the output in the loss): utterances of other loudness on the second rank."""
    generator = torch.Generator().manual_seed(7)
    loudness = torch.tensor([1.0, 1.0, 1.0, 9.0, 9.0, 9.0])[:, None, None, None]
    return 2 + loudness * torch.randn(SHAPE, generator=generator), torch.randn(SHAPE, generator=generator)


def norm(name: str) -> nn.Module:
    module: nn.Module = component("norm", name)(list(SHAPE[2:])).train()
    with torch.no_grad():
        for seed, parameter in enumerate(module.parameters()):
            parameter.copy_(0.5 + torch.rand(parameter.shape, generator=torch.Generator().manual_seed(seed)))
    return module


def step(module: nn.Module, rows: slice) -> dict[str, Any]:
    """Output and gradients of these rows, by the loss that is the mean over utterances."""
    x, weights = (value[rows] for value in batch())
    x = x.clone().requires_grad_()
    y = module(x, LENGTHS[rows])
    (y * weights).sum(dim=(1, 2, 3)).mean().backward()
    assert x.grad is not None
    gradients = [p.grad for p in module.parameters()]
    return {"output": y.detach(), "by_x": x.grad, "by_weights": gradients, **module.state_dict()}


def on_rank(rank: int, folder: Path, name: str) -> None:
    distributed.init_process_group("gloo", init_method=f"file://{folder / 'meeting'}", rank=rank, world_size=2)
    torch.save(step(norm(name), slice(3 * rank, 3 * rank + 3)), folder / f"{rank}.pt")
    distributed.barrier()
    distributed.destroy_process_group()
    os._exit(0)  # gloo aborts now and then while an interpreter ends (torch 2.11); all is written


def on_two_ranks(name: str, folder: Path) -> list[dict[str, Any]]:
    multiprocessing.spawn(on_rank, args=(folder, name), nprocs=2)
    return [torch.load(folder / f"{rank}.pt", weights_only=True) for rank in (0, 1)]


def test_two_ranks_are_one_process_with_the_doubled_batch(tmp_path: Path) -> None:
    expected, result = step(norm("batch_synchronised"), slice(None)), on_two_ranks("batch_synchronised", tmp_path)
    torch.testing.assert_close(torch.cat([half["output"] for half in result]), expected["output"], atol=1e-5, rtol=1e-5)
    by_x = torch.cat([half["by_x"] for half in result]) / 2  # each rank's loss is the mean over half as many
    torch.testing.assert_close(by_x, expected["by_x"], atol=1e-5, rtol=1e-4)
    averaged = [(a + b) / 2 for a, b in zip(*(half["by_weights"] for half in result), strict=True)]  # as DDP does
    torch.testing.assert_close(averaged, expected["by_weights"], atol=1e-4, rtol=1e-4)
    for half in result:
        for key in ("running_mean", "running_variance"):
            torch.testing.assert_close(half[key], expected[key], atol=1e-5, rtol=1e-4)
    alone = step(norm("batch"), slice(0, 3))
    assert not torch.allclose(result[0]["output"], alone["output"], atol=0.1), "the other rank's frames count"


def test_one_process_alone_has_plain_batch_norm() -> None:
    synchronised, plain = (step(norm(name), slice(None)) for name in ("batch_synchronised", "batch"))
    torch.testing.assert_close(synchronised, plain)

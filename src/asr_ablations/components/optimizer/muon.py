"""Muon for the matrices of hidden layers, with AdamW for all other parameters (Jordan et al. 2024; Liu et al. 2025)."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch.optim import AdamW, Muon, Optimizer

from asr_ablations.tools.checks import a_list, number, whole
from asr_ablations.training.parameter_groups import is_within, list_parts
from asr_verdicts.errors import choices


class MuonAdamW(Optimizer):
    """One optimizer with the groups and the state of two: schedules, checkpoints and loss scaling see only this one.

    Muon updates every parameter with two dimensions whose name is in none of the parts `adamw`, and AdamW updates the
    others. Muon treats a recurrent layer's stacked gates as one matrix. Raises UsageError if a part in `adamw` is not
    in the model, or no matrix is left for Muon.

    muon: further options of torch.optim.Muon. betas, capturable: options of torch.optim.AdamW
    """

    def __init__(
        self, parameters: Iterable[Any], *, adamw: Sequence[str], betas: Any, capturable: bool = False, **muon: Any
    ) -> None:
        whole("optimizer.ns_steps", muon["ns_steps"], 1, 99)
        number("optimizer.momentum", muon["momentum"], least=0, below=1)
        given = list(parameters)
        groups = given if isinstance(given[0], dict) else [{"params": given}]
        names = [name for group in groups for name, _ in group["params"]]
        for part in a_list("optimizer.adamw", adamw):
            if not any(is_within(name, part) for name in names):
                raise choices("optimizer.adamw", part, list_parts(names))

        def is_muons(name: str, weights: torch.Tensor) -> bool:
            return weights.dim() == 2 and not any(is_within(name, part) for part in adamw)

        for_muon, for_adamw = (
            [
                {**group, "params": members, "muon": chosen}
                for group in groups
                if (members := [pair for pair in group["params"] if is_muons(*pair) == chosen])
            ]
            for chosen in (True, False)
        )
        if not for_muon:
            raise choices("optimizer.adamw", list(adamw), "fewer parts, because no matrix is left for Muon")
        shared = {"lr": muon["lr"], "weight_decay": muon["weight_decay"]}
        self.optimizers: list[Optimizer] = [Muon(for_muon, **muon)]
        if for_adamw:
            self.optimizers.append(AdamW(for_adamw, betas=tuple(betas), capturable=capturable, **shared))
        super().__init__([group for each in self.optimizers for group in each.param_groups], {})

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Take a step of both optimizers, with this one's groups and state, which a checkpoint may have replaced."""
        losses: list[Any] = []
        for optimizer in self.optimizers:
            chosen = isinstance(optimizer, Muon)
            optimizer.param_groups = [group for group in self.param_groups if group["muon"] == chosen]
            optimizer.state = self.state
            losses.append(optimizer.step(None if losses else closure))
        return losses[0]

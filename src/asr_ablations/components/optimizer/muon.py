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

    - adjust_lr_fn, ns_steps, momentum, nesterov: options of torch.optim.Muon
    - betas, capturable: options of torch.optim.AdamW
    """

    def __init__(
        self,
        parameters: Iterable[Any],
        *,
        lr: float,
        momentum: float,
        nesterov: bool,
        ns_steps: int,
        adjust_lr_fn: str,
        betas: Sequence[float],
        weight_decay: float,
        adamw: Sequence[str],
        capturable: bool = False,
    ) -> None:
        whole("optimizer.ns_steps", ns_steps, 1, 99)
        number("optimizer.momentum", momentum, least=0, below=1)
        given = list(parameters)
        groups = given if isinstance(given[0], dict) else [{"params": given}]
        names = [name for group in groups for name, _ in group["params"]]
        for part in a_list("optimizer.adamw", adamw):
            if not any(is_within(name, part) for name in names):
                raise choices("optimizer.adamw", part, list_parts(names))
        for_muon: list[dict[str, Any]] = []
        for_adamw: list[dict[str, Any]] = []
        for group in groups:
            for chosen, is_muons in ((for_muon, True), (for_adamw, False)):
                members = [
                    (name, weights)
                    for name, weights in group["params"]
                    if (weights.dim() == 2 and not any(is_within(name, part) for part in adamw)) == is_muons
                ]
                if members:
                    chosen.append({**group, "params": members, "muon": is_muons})
        if not for_muon:
            raise choices("optimizer.adamw", list(adamw), "fewer parts, because no matrix is left for Muon")
        shared: dict[str, Any] = {"lr": lr, "weight_decay": weight_decay}
        options = {"momentum": momentum, "nesterov": nesterov, "ns_steps": ns_steps, "adjust_lr_fn": adjust_lr_fn}
        self.optimizers: list[Optimizer] = [Muon(for_muon, **shared, **options)]
        if for_adamw:
            decays: Any = tuple(betas)
            self.optimizers.append(AdamW(for_adamw, betas=decays, capturable=capturable, **shared))
        super().__init__([group for each in self.optimizers for group in each.param_groups], {})

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:  # type: ignore[override]
        """Take a step of both optimizers, with this one's groups and state, which a checkpoint may have replaced."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for optimizer in self.optimizers:
            is_muons = isinstance(optimizer, Muon)
            optimizer.param_groups = [group for group in self.param_groups if group["muon"] == is_muons]
            optimizer.state = self.state
            optimizer.step()
        return loss

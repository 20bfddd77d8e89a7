"""The usual loop in plain PyTorch: no logging, no clipping, and the loss is read once per epoch."""

from pathlib import Path

from asr_ablations.tools.machine import device_clock
from asr_benchmarks.toolkit.engine import About, Epoch
from asr_benchmarks.toolkit.frames import Frames, Settings


class PlainLoop:
    """An engine that trains the Network itself."""

    def __init__(self, folder: str, settings: Settings, config: str) -> None:
        import torch

        from asr_benchmarks.toolkit.network import Network

        self.frames, self.settings = Frames(Path(folder), settings), settings
        self.network = Network(settings).to(settings.device)
        self.optimizer = torch.optim.SGD(self.network.parameters(), lr=settings.lr, momentum=settings.momentum)
        self.epochs = 0

    def epoch(self) -> Epoch:
        """Train one epoch."""
        import torch
        from torch.nn.functional import cross_entropy

        started = device_clock(self.settings.device)
        count, total = 0, torch.zeros((), device=self.settings.device)
        self.network.train()
        for x, y in self.frames.batches(self.epochs):
            loss = cross_entropy(self.network(x).flatten(0, 1), y.flatten())
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            total = total + loss.detach() * y.numel()
            count += y.numel()
        self.epochs += 1
        return {"seconds": device_clock(self.settings.device) - started, "frames": count, "loss": float(total) / count}

    def error_rate(self) -> float:
        """Frame error rate on the held-out frames, in %."""
        from asr_benchmarks.toolkit.network import frame_error_rate

        return frame_error_rate(self.network.eval(), self.frames)

    def about(self) -> About:
        """PyTorch's version, and the memory."""
        import torch

        from asr_benchmarks.toolkit.network import device_memory

        return {"version": f"torch {torch.__version__}", "memory": device_memory(self.settings.device)}

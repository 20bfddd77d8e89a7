"""What RETURNN's config names: the network, and a step's loss."""

from typing import Any

from torch.nn.functional import cross_entropy

from asr_benchmarks.toolkit.network import Network


class Counting(Network):
    """The network, with the frames that it has seen."""

    seen = 0

    def take_frames(self) -> int:
        """Since the last time."""
        seen, self.seen = self.seen, 0
        return seen


def get_model(**_: Any) -> Counting:
    """Called by RETURNN's engine."""
    from returnn.config import get_global_config

    return Counting(get_global_config().typed_value("settings"))


def train_step(*, model: Counting, extern_data: Any, **_: Any) -> None:
    """Called by RETURNN's engine: the mean over frames is what it trains on."""
    import returnn.frontend as rf

    data, classes = extern_data["data"], extern_data["classes"]
    logits = model(data.raw_tensor)  # (B, T, V)
    labels = classes.raw_tensor.long()
    loss = cross_entropy(logits.transpose(1, 2), labels, reduction="none")
    model.seen += labels.numel()
    rf.get_run_ctx().mark_as_loss(loss, "ce", dims=list(classes.dims), use_normalized_loss=True)

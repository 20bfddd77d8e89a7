"""The network and the loss of a step, which RETURNN's config names."""

from typing import TYPE_CHECKING

from torch.nn.functional import cross_entropy

from asr_benchmarks.toolkit.network import Network

if TYPE_CHECKING:
    from returnn.tensor import TensorDict


class CountingNetwork(Network):
    """The network, with a count of the frames that it was trained on."""

    trained_frames = 0

    def take_frames(self) -> int:
        """The frames since the last call."""
        frames, self.trained_frames = self.trained_frames, 0
        return frames


def get_model(**options: object) -> CountingNetwork:
    """The network for RETURNN's engine, which calls this."""
    from returnn.config import get_global_config

    return CountingNetwork(get_global_config().typed_value("settings"))


def train_step(*, model: CountingNetwork, extern_data: "TensorDict", **options: object) -> None:
    """Give RETURNN's engine, which calls this, the loss of a step: its mean over the frames is minimised."""
    import returnn.frontend as rf

    data, classes = extern_data["data"], extern_data["classes"]
    logits = model(data.raw_tensor)  # (B, T, V)
    labels = classes.raw_tensor.long()
    loss = cross_entropy(logits.transpose(1, 2), labels, reduction="none")
    model.trained_frames += labels.numel()
    rf.get_run_ctx().mark_as_loss(loss, "ce", dims=list(classes.dims), use_normalized_loss=True)

"""How often the host waits for the GPU in a training, as CUDA's own record has it."""

from collections import Counter

from torch.profiler import ProfilerActivity, profile

WAITS = ("cudaStreamSynchronize", "cudaDeviceSynchronize", "cudaEventSynchronize", "cuStreamSynchronize")
"""Calls in which the host waits. A copy to pageable memory waits, too, in a cudaStreamSynchronize of its own."""


class WaitCount:
    """Counts the waits of the host within the context: `counts` by the name of the call, once it has ended."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self._profile = profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA])

    def __enter__(self) -> "WaitCount":
        self._profile.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._profile.__exit__(*error)
        for event in self._profile.events() or ():
            if event.name in WAITS:
                self.counts[event.name] += 1

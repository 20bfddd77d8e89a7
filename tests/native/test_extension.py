"""How the library is chosen, compiled, and not needed."""

import multiprocessing
from pathlib import Path

import pytest
import torch

from asr_ablations.components.model.directions import Directions
from asr_ablations.components.rnn.lstm import LSTM
from asr_ablations.native import extension, operations
from asr_verdicts.errors import UsageError


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache that is empty, and nothing loaded."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    caches = (extension.load, extension._say)
    for cached in caches:
        cached.cache_clear()
    monkeypatch.setattr(extension, "FLAGS", tuple("-O0" if flag == "-O3" else flag for flag in extension.FLAGS))
    yield tmp_path
    for cached in caches:
        cached.cache_clear()


def test_without_a_compiler_a_line_says_that_torch_does_the_work(
    elsewhere: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(extension, "processor_words", lambda: frozenset(extension.TARGETS["avx2"]))
    monkeypatch.setenv("CXX", "no-such-compiler")
    assert extension.use("auto") == extension.use("auto") == "none"
    assert capsys.readouterr().err == (
        "native: no C++ compiler (CXX=no-such-compiler); using PyTorch's operations, which are slower\n"
    )
    assert not operations.usable(torch.zeros(1))
    with pytest.raises(UsageError, match="native=avx2: no C"):
        extension.use("avx2")
    assert not any(elsewhere.iterdir())


def test_another_processor_takes_torch_and_a_compiler_that_fails_is_quoted(
    native: str, elsewhere: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(extension, "processor_words", lambda: frozenset({"asimd", "bf16"}))
        assert extension.use("auto") == "none"
        assert "no target for this processor" in capsys.readouterr().err
        with pytest.raises(UsageError, match="native=avx512: this processor lacks avx512"):
            extension.use("avx512")
    monkeypatch.setattr(extension, "FLAGS", (*extension.FLAGS, "-no-such-flag"))
    assert extension.use("auto") == "none"
    assert "failed: " in capsys.readouterr().err
    assert not list((elsewhere / "asr-ablations" / "native").iterdir())  # no half a file, no lock


def _compile(target: str) -> str:
    return str(extension.build(target))


def test_two_processes_at_once_make_one_whole_file(native: str, elsewhere: Path) -> None:
    with multiprocessing.get_context("fork").Pool(2) as pool:
        paths = pool.map(_compile, [native, native], chunksize=1)
        pool.close()  # not terminated: a fit that was cut in this process may have left its handler of SIGTERM
        pool.join()
    assert [str(path) for path in (elsewhere / "asr-ablations" / "native").glob("*.so")] == paths[:1]
    assert paths[0] == paths[1]
    changed = Path(paths[0]).stat().st_mtime_ns
    extension.load(native)
    assert Path(paths[0]).stat().st_mtime_ns == changed


def test_another_value_is_refused_with_the_choices() -> None:
    for value in ("avx1024", True, None):
        with pytest.raises(UsageError, match=r"native=.*: expected auto, false, amx_bf16, avx512_bf16, avx512, avx2"):
            extension.check(value)


def test_what_is_no_training_takes_torch(native: str) -> None:
    """Evaluation, export, transforms and counters see torch's operations, and so does what has no float32."""
    layer = Directions(LSTM, 3, 4, directions="sum").train()
    x, lengths = torch.randn(2, 5, 3), torch.tensor([5, 2])
    assert type(layer(x, lengths).grad_fn).__name__ == "_RecurrenceBackward"

    with torch.autocast("cpu", torch.bfloat16):  # what comes from a convolution is in 16 bits then
        assert type(layer(x.bfloat16(), lengths).grad_fn).__name__ == "_RecurrenceBackward"

    def is_torch(y: torch.Tensor) -> bool:
        return type(y.grad_fn).__name__ != "_RecurrenceBackward"

    with torch.no_grad():
        assert not operations.usable(x)
    assert is_torch(layer.eval()(x, lengths))
    layer.train()
    assert is_torch(layer.double()(x.double(), lengths))
    layer.float()
    assert not operations.usable(x.to("meta"))
    with torch._subclasses.fake_tensor.FakeTensorMode():
        assert not operations.usable(torch.zeros(2))
    with torch.utils.flop_counter.FlopCounterMode(display=False):
        assert not operations.usable(x)
    seen = []
    torch.func.grad(lambda value: (seen.append(operations.usable(value)), value.sum())[1])(x)
    torch.func.vmap(lambda value: (seen.append(operations.usable(value)), value)[1])(x)
    assert seen == [False, False]
    with torch.autograd.forward_ad.dual_level():
        assert not operations.usable(x)

    exported = []

    class Module(torch.nn.Module):
        def forward(self, value: torch.Tensor) -> torch.Tensor:
            exported.append(operations.usable(value))
            return value * 2

    torch.export.export(Module(), (x,), strict=False)
    assert exported
    assert not any(exported)


def test_a_second_derivative_is_refused(native: str) -> None:
    layer = Directions(LSTM, 3, 4, directions="sum").train()
    x = torch.randn(2, 5, 3, requires_grad=True)
    (gradient,) = torch.autograd.grad(layer(x, torch.tensor([5, 2])).square().sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        gradient.sum().backward()

"""What a benchmark's record says of the machine."""

from pathlib import Path

from asr_benchmarks.record import clocking


def test_governor_and_clock_are_those_that_linux_shows(tmp_path: Path) -> None:
    """cpufreq's files: a word, and kHz."""
    for core, (governor, low, high) in enumerate(
        [("powersave", 800_000, 4_300_000), ("performance", 2_300_000, 4_000_000)]
    ):
        folder = tmp_path / f"cpu{core}" / "cpufreq"
        folder.mkdir(parents=True)
        for name, value in (("governor", governor), ("min_freq", low), ("max_freq", high)):
            (folder / f"scaling_{name}").write_text(f"{value}\n")
    assert clocking(tmp_path) == {"governor": "performance, powersave", "clock": "0.80 to 4.30 GHz"}


def test_a_machine_that_shows_no_clock_says_nothing(tmp_path: Path) -> None:
    assert clocking(tmp_path) == {}

"""Remove runs or sweeps, after showing what goes and asking."""

from asr_ablations.commands.housekeeping import remove

if __name__ == "__main__":
    raise SystemExit(remove())

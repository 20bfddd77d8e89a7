"""List the sweeps in outputs/ with their runs, states and hours."""

from asr_ablations.commands.overview import list_sweeps

if __name__ == "__main__":
    raise SystemExit(list_sweeps())

"""List the sweep files with their questions."""

from asr_ablations.commands.overview import list_sweep_files

if __name__ == "__main__":
    raise SystemExit(list_sweep_files())

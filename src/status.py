"""Show the runs of a sweep, wherever they run."""

from asr_ablations.commands.overview import show_status

if __name__ == "__main__":
    raise SystemExit(show_status())

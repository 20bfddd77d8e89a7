"""Show the runs of a sweep on all machines, with their state and remaining time."""

from asr_ablations.commands.overview import show_status

if __name__ == "__main__":
    raise SystemExit(show_status())

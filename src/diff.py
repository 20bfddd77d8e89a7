"""Show the keys in which two runs differ, and their error rates."""

from asr_ablations.commands.overview import show_differences

if __name__ == "__main__":
    raise SystemExit(show_differences())

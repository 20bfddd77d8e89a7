"""Rename a run or a sweep."""

from asr_ablations.commands.housekeeping import rename

if __name__ == "__main__":
    raise SystemExit(rename())

"""Repeat a finished run and report whether the result is the same, or train a variation of it."""

from asr_ablations.commands.reproduce import main

if __name__ == "__main__":
    raise SystemExit(main())

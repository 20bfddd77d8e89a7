"""Run a finished run again and say whether the result is the same; or vary one key of it."""

from asr_ablations.commands.reproduce import main

if __name__ == "__main__":
    raise SystemExit(main())

"""Compare the arms of a sweep: table, statistics, verdicts, figures, page."""

from asr_ablations.commands.compare import main

if __name__ == "__main__":
    raise SystemExit(main())

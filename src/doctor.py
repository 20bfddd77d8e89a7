"""Show what this machine can do, and what to do about the rest."""

from asr_ablations.commands.doctor import main

if __name__ == "__main__":
    raise SystemExit(main())

"""Write the two files of your own variant, Python and yaml."""

from asr_ablations.commands.new_variant import main

if __name__ == "__main__":
    raise SystemExit(main())

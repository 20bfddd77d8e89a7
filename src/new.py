"""Write the Python file and the yaml file of your own variant."""

from asr_ablations.commands.new_variant import main

if __name__ == "__main__":
    raise SystemExit(main())

"""Run a finished run again and say whether its result came back; or vary it in one key.

python src/reproduce.py outputs/single/<run>                the same config once more, with a verdict
python src/reproduce.py outputs/single/<run> --checkout     by the code that the run recorded, in a git worktree
python src/reproduce.py outputs/single/<run> seed=7         a new run of the same sweep that differs in that key alone

The verdict is one of
  match                bit-equal losses, metrics, hypotheses and weights: to be expected on the same machine's CPU
  drift within noise   not bit-equal, but only versions, hardware or threads differ, and the WER by no more than
                       between seeds
  differs              else; with the first step at which the losses part, and every difference of config, data,
                       code, versions, hardware and threads
It is printed, and stands in reproduction.json beside the run, in outputs/reproductions/<sweep>/<run>/1, 2, …; an
interrupted reproduction goes on, and the original is only read.

Exit code 0: match, drift within noise, or the new run is done; 1: differs, or the run failed; 2: a mistake.
"""

import sys

from asr_ablations.commands.reproduce import main

if __name__ == "__main__":
    sys.exit(main())

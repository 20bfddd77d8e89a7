"""Measure a training config on this machine.

python src/benchmark.py benchmark=loop                 Lightning's loop against a bare one
python src/benchmark.py benchmark=input                the loader alone: every cache, 0 to 4 workers, beside the model
python src/benchmark.py benchmark=loop model=ds2 data=an4 data.root=<folder>
"""

from omegaconf import DictConfig

from asr_ablations.config.entry import entry


@entry("benchmarks")
def main(cfg: DictConfig) -> object:
    from asr_benchmarks.record import measure  # torch is imported only when there is work to do

    return measure(cfg)

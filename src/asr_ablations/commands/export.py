"""Write a trained run as ONNX: waveforms in, log-probabilities out.

python src/export.py run=<folder>                  <folder>/export/model.onnx, .json (alphabet), .md (card)
python src/export.py run=<folder> samples=int16    it takes samples as they lie in a WAV file
python src/export.py --help                        keys, values
"""

from omegaconf import DictConfig

from asr_ablations.config.entry import entry
from asr_ablations.onnx_export.request import check_request


@entry("export", check_request)
def main(cfg: DictConfig) -> object:
    from asr_ablations.onnx_export.job import export  # torch is imported only when there is work to do

    return export(cfg)

"""Write a trained run as ONNX: waveforms in, log-probabilities out.

python src/export.py run=<folder>                  <folder>/export/model.onnx, .json (alphabet), .md (card)
python src/export.py run=<folder> samples=int16    it takes samples as they lie in a WAV file
python src/export.py --help                        keys, values
"""

from asr_ablations.commands.hydra_commands import export as main

if __name__ == "__main__":
    main()

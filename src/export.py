"""Write a trained run as ONNX: waveforms in, log-probabilities out."""

from asr_ablations.commands.heads import export

if __name__ == "__main__":
    export()

"""Write a trained run as ONNX: waveforms in, log-probabilities out."""

from asr_ablations.commands.export import main

if __name__ == "__main__":
    main()

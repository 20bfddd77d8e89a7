"""Export the model of a trained run as ONNX: waveforms in, log-probabilities out."""

from asr_ablations.commands.hydra_commands import export as main

if __name__ == "__main__":
    main()

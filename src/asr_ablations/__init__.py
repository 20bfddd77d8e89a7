"""Ablations in automatic speech recognition that one can trust.

Letters in shapes: B utterances in a batch, S samples, T frames, D size of a frame going into a layer, F frequency
bins, H size of a frame coming out of a recurrent layer, V output symbols (blank is 0), L labels of a transcript.
Units: durations in seconds, rates in Hz, audio at 16 kHz, log-probabilities and losses in nats.
"""

from asr_ablations.tools.lean_imports import lean_imports

lean_imports()  # it has to precede the first import of Lightning, whichever module that stands in

SAMPLE_RATE = 16_000
"""Hz; everything past the audio reader is at this rate."""

"""Speech from text by espeak-ng, through ctypes and the library in the espeakng-loader wheel."""

import _ctypes
import ctypes
from collections.abc import Iterator
from contextlib import contextmanager

import espeakng_loader
import numpy as np

SAMPLE_RATE = 22050  # Hz, of every formant voice

# The names and numbers of espeak-ng's speak_lib.h.
_AUDIO_OUTPUT_SYNCHRONOUS = 2
_INITIALIZE_DONT_EXIT = 0x8000
_CHARS_UTF8 = 1
_PARAMETERS = {"rate": 1, "volume": 2, "pitch": 3, "pitch_range": 4, "word_gap": 7}
_RANDOM_SEED = 1

_CALLBACK = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p)


@contextmanager
def _fresh_library() -> Iterator[ctypes.CDLL]:
    # Trap: espeak-ng keeps the phase of its flutter, noise and glottal waves in static variables that neither
    # espeak_Terminate nor espeak_Initialize resets, so the audio depends on everything spoken before in the process.
    # Only unloading the library resets them: about 2 ms per utterance.
    library = ctypes.CDLL(espeakng_loader.get_library_path())
    library.espeak_Info.restype = ctypes.c_char_p
    data_path = espeakng_loader.get_data_path().encode()
    try:
        rate = library.espeak_Initialize(_AUDIO_OUTPUT_SYNCHRONOUS, 0, data_path, _INITIALIZE_DONT_EXIT)
        if rate != SAMPLE_RATE:
            raise RuntimeError(f"espeak-ng did not start: sample rate {rate}, expected {SAMPLE_RATE}")
        yield library
    finally:
        library.espeak_Terminate()
        _ctypes.dlclose(library._handle)


def version() -> str:
    """Return espeak-ng's version, such as "1.52.0"."""
    with _fresh_library() as library:
        return library.espeak_Info(None).decode()


def synthesize(text: str, voice: str, rate: int, pitch: int, pitch_range: int, word_gap: int = 0) -> np.ndarray:
    """Return `text` as speech, int16 samples (S,) at 22050 Hz; the same arguments give the same samples, whatever was
    spoken before.

    voice: language and variant, such as "en-us+f3"; rate in words per minute (80 to 450); pitch and pitch_range
    0 to 99, 50 is the voice's own; word_gap in units of 10 ms at the usual rate.
    Raises RuntimeError, naming text and voice, if espeak-ng fails or gives no sound.
    """
    chunks: list[bytes] = []

    def collect(samples: int | None, count: int, _events: int | None) -> int:
        if samples and count > 0:
            chunks.append(ctypes.string_at(samples, 2 * count))
        return 0

    callback = _CALLBACK(collect)  # must outlive the synthesis
    values = {"rate": rate, "volume": 100, "pitch": pitch, "pitch_range": pitch_range, "word_gap": word_gap}
    encoded = text.encode()
    with _fresh_library() as library:
        library.espeak_ng_SetRandSeed(ctypes.c_long(_RANDOM_SEED))
        library.espeak_SetSynthCallback(callback)
        status = library.espeak_SetVoiceByName(voice.encode())
        for name, number in _PARAMETERS.items():
            status = status or library.espeak_SetParameter(number, values[name], 0)
        status = status or library.espeak_Synth(encoded, len(encoded) + 1, 0, 1, 0, _CHARS_UTF8, None, None)
        status = status or library.espeak_Synchronize()
    if status or not chunks:
        raise RuntimeError(f"espeak-ng could not speak {text!r} with the voice {voice!r} (status {status})")
    return np.frombuffer(b"".join(chunks), dtype=np.int16)

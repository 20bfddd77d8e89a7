"""The usual port's input gives the model the same as ours, except for its padding and its normalisation."""

import numpy as np
import soundfile
import torch

from asr_ablations.data.alphabet import Alphabet
from asr_ablations.data.utterances import Utterance
from asr_benchmarks.project.port import PortData, port_loader
from tests.helpers.support import component

ALPHABET = Alphabet("abc ")


def test_features_are_those_of_each_utterance_alone_normalised_as_a_whole(tmp_path):
    random = np.random.default_rng(0)
    lengths, texts = [16000, 8000, 12000], ["ab", "c", "a b c"]
    utterances, sounds = [], []
    for number, (length, text) in enumerate(zip(lengths, texts, strict=True)):
        sound = (3000 * random.standard_normal(length)).astype(np.int16)
        path = tmp_path / f"{number}.flac"
        soundfile.write(path, sound, 16000)
        utterances.append(Utterance(str(number), "one", path, 0.0, length / 16000, text))
        sounds.append(sound)
    features = component("features", "spectrogram")
    (first, second) = port_loader(PortData(utterances, ALPHABET, features), [[0, 1], [2]], workers=0)
    assert first.features.shape[:2] == (2, int(features.frames(torch.tensor([16000]))[0]))
    assert first.targets.tolist() == ALPHABET.encode("ab") + ALPHABET.encode("c")
    assert [*first.target_lengths.tolist(), *second.target_lengths.tolist()] == [2, 1, 5]
    for batch, row, number in ((first, 0, 0), (first, 1, 1), (second, 0, 2)):
        alone, frames = features(
            torch.from_numpy(sounds[number]).float()[None] / 32768, torch.tensor([lengths[number]])
        )
        expected = (alone[0] - alone[0].mean()) / alone[0].std()
        assert int(batch.lengths[row]) == int(frames[0])
        torch.testing.assert_close(batch.features[row, : int(frames[0])], expected)
        assert batch.features[row, int(frames[0]) :].abs().sum() == 0

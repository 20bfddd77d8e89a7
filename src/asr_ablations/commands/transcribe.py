"""Turn recordings into text with a trained run.

python src/transcribe.py run=<folder> audio=talk.flac                       its text
python src/transcribe.py run=<folder> audio=[a.wav,calls] format=srt output=subtitles/
find . -name '*.mp3' | python src/transcribe.py run=<folder> audio=- format=json
python src/transcribe.py run=<folder> serve=true                            a page with a microphone
python src/transcribe.py --help                                             groups, keys, values
"""

import sys

from omegaconf import DictConfig

from asr_ablations.config.entry import entry
from asr_ablations.transcription.request import check_request


@entry("transcribe", check_request)
def main(cfg: DictConfig) -> None:
    if cfg.serve:
        from asr_ablations.transcription.server.job import serve

        serve(cfg)
        return
    from asr_ablations.transcription.job import transcribe  # torch is imported only when there is work to do

    if transcribe(cfg):
        sys.exit(1)

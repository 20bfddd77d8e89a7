"""Turn recordings into text with a trained run.

python src/transcribe.py run=<folder> audio=talk.flac                       its text
python src/transcribe.py run=<folder> audio=[a.wav,calls] format=srt output=subtitles/
find . -name '*.mp3' | python src/transcribe.py run=<folder> audio=- format=json
python src/transcribe.py run=<folder> serve=true                            a page with a microphone
python src/transcribe.py --help                                             groups, keys, values
"""

from asr_ablations.commands.hydra_commands import transcribe as main

if __name__ == "__main__":
    main()

#!/usr/bin/env bash
# The papers' questions, of trainings to their end, on the built-in corpus, each with seeds added until it has its verdict:
# `make answers`. AN4=<folder> SPEECHOCEAN762=<folder> make answers asks some of them on real speech, too.
#
# Stated before any of these arms was trained:
# - Recipe: conf/config.yaml as it is, to its end (six epochs, 8 to 10 % WER on the development speakers). A question about
#   long training has its own number of epochs.
# - A difference of 1 point of WER would not matter. At most 8 seeds of each arm, looks at 3, 5 and 8; 5 seeds where the
#   order of nine arms is asked for.
# - Each question has seeds of its own, from 200 on, its baseline's among them, so that the errors of no two answers go
#   together. Nothing below 200 was used for the choice of the recipe but 100 to 102, on the development speakers.
# - test-clean decides, test-other describes.
# - Everything runs, whatever comes out: what is here is published. Where time is short, the last questions are dropped, so
#   real speech stands before what the short runs answer in part.
# The same command continues where it stopped. A line ends when each of its questions has its end; the records are written
# into sweeps/records/ after every line.
set -uo pipefail
cd "$(dirname "$0")/.."
recipe=(gpus=0 logger=csv)
plan=(until=verdict until.margin=1.0 until.seeds=8 until.share=false)
failed=()
more=("$@")

keep() { # <sweep>: its record, and RESULTS.md
	PYTHONPATH=src:sweeps .venv/bin/python -m publish.results "outputs/$1" >/dev/null || failed+=("records of $1")
}

train() { # <sweep file> [overrides]
	local sweep=$1 folder=$1 override
	shift
	for override; do [[ $override != sweep=* ]] || folder=${override#sweep=}; done
	echo "== $sweep $*"
	.venv/bin/python src/train.py -m -cd sweeps -cn "$sweep" "${recipe[@]}" "$@" ${more[@]+"${more[@]}"} || failed+=("$sweep")
	keep "$folder"
}

answer() { # <sweep file> <first seed> [overrides]
	train "$1" "${plan[@]}" "seed=range($2,$(($2 + 3)))" "${@:3}"
}

folder() { # [overrides]: the folder of the language model that they describe
	.venv/bin/python src/lm.py "$@" | tee >(cat >&2) | sed -n 's/^language model *//p'
}

# <sweep> [overrides of its corpus]: its models searched without a language model, with one of words, with one of letters
decoders() {
	local sweep=$1 words letters
	shift
	echo "== $sweep, decoders"
	words=$(folder "$@") && letters=$(folder lm.unit=character lm.order=5 "$@") &&
		.venv/bin/python src/evaluate.py -m -cd sweeps -cn language_models run="outputs/$sweep" gpus=0 models.words="$words" \
			models.letters="$letters" || failed+=("decoders of $sweep")
	keep "$sweep"
}

train short_runs
train short_runs sweep=short_runs_at_2 max_epochs=2
train seeds sweep=unknown_words data.words=3000 'seed=range(610,615)'
decoders unknown_words data.words=3000
[ -z "${AN4:-}" ] || train real_speech "data.root=$AN4"
if [ -n "${SPEECHOCEAN762:-}" ]; then
	held_out=()
	[ ! -d "$SPEECHOCEAN762/dev" ] || held_out=(data.held_out=null)
	train accented_speech "data.root=$SPEECHOCEAN762" ${held_out[@]+"${held_out[@]}"}
fi
answer batch_norm_bare 280
answer batch_norm 660 norm=none,batch_convolutions,batch
answer l2 320
train rnn_rates
answer rnn_equal 640
train batch_steps
answer mixed_precision 220 precision=32,bf16 until.margin=0.5 until.paired=true
answer rnn_type 340
answer dropout 240 dropout=0,0.1 max_epochs=14
answer initialisation 260 init=default,xavier,orthogonal max_epochs=14
answer sortagrad 300
answer rnn_activation 360
train optimizer_rates
answer optimizer 380
answer gradient_treatments 400
answer features 420 features=logmel40,logmel_mfcc,spectrogram
answer training_size 440 data.hours=1,2 ablation.baseline=1
answer pretraining 480
answer newbob 500
answer polish 520
answer classic 540
train seeds 'seed=range(560,580)'
echo "ended; without an end: ${failed[*]:-none}"
[ ${#failed[@]} = 0 ]

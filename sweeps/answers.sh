#!/usr/bin/env bash
# Asks the papers' questions on the built-in corpus, with full trainings, adding seeds until each has its verdict:
# `make answers`. AN4=<folder> SPEECHOCEAN762=<folder> make answers also asks some of them on real speech.
#
# Decided before any of these arms was trained:
# - Recipe: conf/config.yaml unchanged, with all six epochs (8 to 10 % WER on the development speakers). Questions about long
#   training have their own number of epochs.
# - A difference of 1 point of WER does not matter. At most 8 seeds per arm, looks at 3, 5 and 8; 5 seeds if the order of
#   nine arms is the question.
# - Each question has its own seeds from 200 on, its baseline included, so that errors of different answers are
#   independent. Of the seeds below 200 only 100 to 102 influenced the recipe, on the development speakers.
# - test-clean decides; test-other is only described.
# - Everything here is run and published, whatever the result. If time is short, the last questions are dropped; so
#   real speech comes before questions that the short runs answer in part.
# The same command continues where it stopped. A line ends once each of its questions is answered or its budget is spent.
# After every line the records are written to sweeps/records/.
set -uo pipefail
cd "$(dirname "$0")/.."
recipe=(gpus=0 logger=csv)
plan=(until=verdict until.margin=1.0 until.seeds=8 until.share=false)
failed=()
more=("$@")

keep() { # <sweep>: writes its record and RESULTS.md
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

folder() { # [overrides]: makes the language model that they describe and prints its folder
	.venv/bin/python src/lm.py "$@" | tee >(cat >&2) | sed -n 's/^language model *//p'
}

# <sweep> [overrides of its corpus]: decodes its models without a language model, with one of words, and with one of letters
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

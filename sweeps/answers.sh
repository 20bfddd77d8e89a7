#!/usr/bin/env bash
# The papers' questions on the built-in corpus, each with seeds added until it has its verdict: `make answers`.
#
# Stated before any arm but the default was trained with this recipe:
# - Recipe: everything as in conf/config.yaml (2 hours of speech, 300 words, model=tiny), but for max_epochs=4 in place of
#   14, so that a run takes a quarter of the time. It holds if the default arm then has a WER of at most 25 % on
#   test-clean (40 speakers, 1,000 utterances), and is given up if not.
# - A difference of 2 points of WER would not matter. At most 8 seeds of each arm, looks at 3, 5 and 8.
# - Pairs by seed where arms are one and the same model at the start: seeds then move them alike.
# - Everything runs, whatever comes out: what is here is published. The order is that of the thesis's open cells.
# The same command continues where it stopped. A line ends when each of its questions has its end.
set -uo pipefail
cd "$(dirname "$0")/.."
recipe=(max_epochs=4 "data.test=[test-clean]" gpus=0 logger=csv)
plan=(until=verdict until.margin=2.0 until.seeds=8)
failed=()

answer() { # <sweep file> [overrides]
	local sweep=$1
	shift
	echo "== $sweep $*"
	.venv/bin/python src/train.py -m -cd sweeps -cn "$sweep" "${plan[@]}" "${recipe[@]}" "$@" ${more[@]+"${more[@]}"} || failed+=("$sweep")
}

more=("$@")
answer rnn_type
answer dropout dropout=0,0.1 until.paired=true
answer batch_norm norm=batch_convolutions,none,batch
answer initialisation init=xavier,default,orthogonal
answer sortagrad
answer mixed_precision precision=32,bf16 until.paired=true
answer rnn_activation
answer training_size data.hours=1,2 ablation.baseline=1
answer l2 until.paired=true
answer gradient_treatments gradient=none,norm,noise until.paired=true
answer newbob
answer optimizer optimizer=sgd,momentum,adam,adamw
answer pretraining
answer features features=logmel_mfcc,logmel40,spectrogram
answer batch_size batch.size=16,32,8
answer polish
answer classic
echo "ended; without an end: ${failed[*]:-none}"
[ ${#failed[@]} = 0 ]

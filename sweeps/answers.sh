#!/usr/bin/env bash
# Asks this project's questions on the built-in corpus, with full trainings: `make answers`. The same command continues
# where it stopped. AN4=<folder> SPEECHOCEAN762=<folder> make answers also asks some of them on real speech.
#
# The third plan, of 28 November 2026, 22:56 UTC, committed before any of its arms was trained:
# - Corpus: version 5. Recipe: conf/config.yaml unchanged, unless a line says otherwise.
# - A difference of 1 point of WER does not matter. Where a number of seeds is given, all of them are trained. `answer`
#   adds seeds until its questions are decided: looks at 3, 5 and 8 seeds per arm, at most 8.
# - Each question has its own seeds from 700 on, its baseline included, so that errors of different answers are
#   independent. Seeds below 700 have influenced the recipe or earlier answers.
# - test-clean decides; test-other is only described. No voice of test-clean (version 5) has been used to choose
#   anything; it was read in a few single runs of the default recipe and of a Conformer.
# - Everything is published, whatever the result. The lines run from top to bottom; if time is short, the last ones are
#   left out. `encoder` comes first because it is also the check that the Conformer's recipe is worth comparing.
# - Amendments are dated below this line, with their reasons; the text above stays as it is.
#
# 29 November 2026, 12:20 UTC, before any run of `corpora`:
# - The runs of `encoder` cannot be repeated: the training speech is today's, but dev-clean, test-clean and test-other
#   came from a folder that an earlier state of the generator had left. A corpus is now found by the generator's source,
#   too. `encoder` will be trained again, with the same seeds, after `corpora`; until then its published answer stands.
# - `corpora` is trained corpus by corpus, with all arms of one before the next, so that it can stop and continue.
# - Weights are not kept, so the conditions of 5 follow each sweep at once. `corpora` is evaluated in noise10 alone.
#
# 29 November 2026, 15:20 UTC, before any run but those of `corpora`:
# - Time is short: a run takes two minutes of a machine with two cores. `encoder`, `averaging` (7) and `seeds` (4) follow
#   `corpora`, because the price of every other answer is computed from them. All other lines keep their order.
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
	.venv/bin/python src/train.py -m -cd sweeps -cn "$sweep" "${recipe[@]}" "$@" ${more[@]+"${more[@]}"} || failed+=("$sweep $*")
	keep "$folder"
}

answer() { # <sweep file> <first seed> [overrides]
	train "$1" "${plan[@]}" "seed=range($2,$(($2 + 3)))" "${@:3}"
}

conditions() { # <sweep> [conditions]: evaluates its runs on test-clean in noise, in rooms and over the telephone
	local list=${2:-noise20,noise10,noise5,reverb,telephone} noises=()
	[ $# -gt 1 ] || noises=(+condition@condition.noise20=noise10 condition.noise20.snr=20
		+condition@condition.noise5=noise10 condition.noise5.snr=5)
	echo "== $1, conditions $list"
	.venv/bin/python src/evaluate.py run="outputs/$1" gpus=0 sets=[test-clean] conditions="[$list]" \
		${noises[@]+"${noises[@]}"} || failed+=("conditions of $1")
	keep "$1"
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

# 1. Does it hold on another two hours and other voices? Ten corpora, in pairs.
for last in {701..710}; do
	train corpora "seed=range(700,$last)"
	conditions corpora noise10
done

# 2. Is a Conformer better than an LSTM, at equal parameters and in equal time? And (5) does the ranking hold in noise, in
# rooms and over the telephone?
answer encoder 720
conditions encoder

# 7. Does averaging of weights make answers cheaper? Eight seeds each.
train averaging

# 4. How often do tests over utterances call runs of one recipe different? Fifteen seeds for each length of training.
train seeds sweep=seeds_at_2 max_epochs=2 'seed=range(800,815)'
train seeds sweep=seeds_at_4 max_epochs=4 'seed=range(820,835)'
train seeds sweep=seeds_at_6 'seed=range(840,855)'
train seeds sweep=seeds_at_14 max_epochs=14 'seed=range(860,875)'

# 2. What do word pieces, auxiliary losses and consistency bring? And (5) do the rankings hold?
answer units 730
conditions units
answer auxiliary 740
conditions auxiliary
answer cr_ctc 750

# 3. Does regularisation pay with longer training or less speech? Five seeds each.
train regularisation 'seed=range(760,765)'
train regularisation sweep=regularisation_at_14 max_epochs=14 'seed=range(765,770)'
train regularisation sweep=regularisation_of_1_hour data.hours=1 max_epochs=12 'seed=range(770,775)'
train regularisation sweep=regularisation_of_half_an_hour data.hours=0.5 max_epochs=24 'seed=range(775,780)'
train regularisation sweep=regularisation_at_28 max_epochs=28 'seed=range(780,785)'

# 6. Real speech; and do acoustic differences survive a language model? Five seeds, 3,000 words.
[ -z "${SPEECHOCEAN762:-}" ] || train accented_speech sweep=accented_speech_again "data.root=$SPEECHOCEAN762" 'seed=range(880,883)'
train short_runs sweep=large_vocabulary data.words=3000 'seed=range(885,890)'
decoders large_vocabulary data.words=3000
[ -z "${AN4:-}" ] || train auxiliary sweep=auxiliary_an4 data=an4 "data.root=$AN4" 'data.fold=${seed}' auxiliary=none,inter_ctc 'seed=range(0,10)'

# 7. Which source of chance moves the result? Eight seeds each.
train sources_of_noise 'seed=range(920,928)'

echo "ended; without an end: ${failed[*]:-none}"
[ ${#failed[@]} = 0 ]

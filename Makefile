# The packages are installed once a machine and shared by every checkout with the same dependencies: they lie under
# $(ENVIRONMENTS), in a folder named by a hash of constraints.txt and of pyproject.toml down to its first [tool.…].
# Each checkout has a small .venv, which finds the shared packages, src/ and the command asr-ablations. What you install
# into it with pip stays there.
SHELL := /bin/bash
ENVIRONMENTS ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/asr-ablations/environments
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11 python3.10; do \
	$$p -c 'import sys; sys.exit(not (3, 10) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null && { command -v $$p; break; }; done)
VERSION = $(shell $(PYTHON) -c 'import sys; print("%d.%d" % sys.version_info[:2])')
HASH = $(shell { for p in . src/asr_verdicts; do sed '/^\[tool\./,$$d' $$p/pyproject.toml; done; cat constraints.txt; echo "$(TORCH_INDEX)"; } | sha256sum | cut -c1-12)
ENVIRONMENT = $(ENVIRONMENTS)/python$(VERSION)-$(HASH)
# Two OpenMP threads that spin on a shared machine cost up to 15 times the time: wait passively.
export OMP_WAIT_POLICY ?= PASSIVE
ARGS ?=

.PHONY: help install lock lmplz train test test-fast campaign answers results short-runs unpack lint format docs clean

help:  ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):[^#]*## */\1\t/' | expand -t 12

# What `make train` needs is installed first, extras on top of it into the same environment, each once.
# decode goes with every installation: pyctcdecode's beams are part of what the pages show.
# By uv, which takes the overrides of pyproject.toml: pip would hold numpy below 2 for pyctcdecode.
# KenLM 0.3 comes translated by a Cython that does not know Python 3.13: for that it is translated anew.
EXTRAS ?=
comma := ,
empty :=
space := $(empty) $(empty)
WANTED = $(subst $(space),$(comma),$(sort $(subst $(comma),$(space),$(EXTRAS))))
STAMP = $(ENVIRONMENT)/installed-$(or $(subst $(comma),-,$(WANTED)),base)
# dev brings what every other extra does, but for benchmarks: TensorFlow, JAX and Keras are 1.6 GB
ENOUGH = $(if $(filter benchmarks,$(subst $(comma), ,$(EXTRAS))),$(STAMP),$(ENVIRONMENT)/installed-dev)
install:  ## make .venv with exact versions (5 GB with CUDA; EXTRAS=export,serve adds; TORCH_INDEX=<address of a torch build>)
	@[ -n "$(PYTHON)" ] || { echo "Python 3.10 to 3.13 is needed (make PYTHON=/path/to/python3.11)" >&2; exit 2; }
	@mkdir -p $(ENVIRONMENTS)
	@exec 9>$(ENVIRONMENT).lock; if command -v flock >/dev/null; then flock 9; fi; \
	if [ ! -e $(STAMP) ] && [ ! -e $(ENOUGH) ]; then set -e; \
		echo "Installing $(or $(WANTED),what training needs) into $(ENVIRONMENT) (some minutes; once a machine)"; \
		[ -e $(ENVIRONMENT)/installed-base ] || { rm -rf $(ENVIRONMENT); $(PYTHON) -m venv $(ENVIRONMENT); }; \
		$(ENVIRONMENT)/bin/python -m pip install --disable-pip-version-check --quiet --progress-bar off -c constraints.txt uv; \
		export VIRTUAL_ENV=$(ENVIRONMENT); \
		if $(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 13))'; then \
			work=$$(mktemp -d); trap 'rm -rf "$$work"' EXIT; \
			$(ENVIRONMENT)/bin/uv pip install --quiet cython; \
			$(ENVIRONMENT)/bin/python -m pip download --disable-pip-version-check --quiet --no-deps --no-binary kenlm \
				-c constraints.txt -d "$$work" kenlm; \
			tar xzf "$$work"/kenlm-*.tar.gz -C "$$work"; \
			$(ENVIRONMENT)/bin/cython -3 --cplus "$$work"/kenlm-*/python/kenlm.pyx; \
			$(ENVIRONMENT)/bin/uv pip install --quiet "$$work"/kenlm-*/; \
		fi; \
		$(ENVIRONMENT)/bin/uv pip install --quiet $(if $(TORCH_INDEX),--index $(TORCH_INDEX) --index-strategy unsafe-best-match) \
			-c constraints.txt ./src/asr_verdicts '.[decode$(addprefix $(comma),$(WANTED))]'; \
		$(ENVIRONMENT)/bin/uv pip uninstall --quiet asr-ablations asr-verdicts; \
		rm -rf {.,src/asr_verdicts}/build src/{.,asr_verdicts}/*.egg-info; \
		PYTHONPATH=src $(ENVIRONMENT)/bin/python -m asr_ablations.native.extension; \
		touch $(ENVIRONMENT)/installed-base $(STAMP); \
	fi
	@if [ -L .venv ]; then rm .venv; fi; \
	if [ -e .venv ] && [ ! -L .venv/shared ]; then \
		echo ".venv exists and was not made by this Makefile: move it away" >&2; exit 2; fi; \
	if [ "$$(readlink .venv/shared)" != "$(ENVIRONMENT)" ]; then set -e; \
		$(PYTHON) -m venv --clear --without-pip --prompt asr-ablations .venv; \
		printf 'import site; site.addsitedir("%s")\n%s\n' "$(ENVIRONMENT)/lib/python$(VERSION)/site-packages" "$(CURDIR)/src" \
			>.venv/lib/python$(VERSION)/site-packages/asr-ablations.pth; \
		printf '#!/bin/sh\nexec "$${0%%/*}/python" -m asr_ablations "$$@"\n' >.venv/bin/asr-ablations; \
		printf '#!/bin/sh\nexec "$${0%%/*}/python" -m pip "$$@"\n' >.venv/bin/pip; \
		chmod +x .venv/bin/asr-ablations .venv/bin/pip; ln -s $(ENVIRONMENT) .venv/shared; \
	fi
	@ln -sf $$(ls -d $(ENVIRONMENT)/bin/* | grep -vE '/(python|pip|[aA]ctivate)[^/]*$$') .venv/bin/

lock: EXTRAS = dev
lock: install  ## write constraints.txt anew from pyproject.toml (exact versions for all extras, Python 3.10 to 3.13)
	@{ echo "# Exact versions of everything that pyproject.toml names, for Python 3.10 to 3.13. Written by: make lock"; \
	cp constraints.txt .constraints && .venv/bin/uv pip compile --quiet --universal --no-python-downloads \
		--python-version 3.10 --extra dev --extra benchmarks --no-annotate --no-header $(ARGS) \
		--no-emit-package asr-verdicts --output-file .constraints pyproject.toml && \
	sed -E "s/ ; python_full_version < '3\.14'$$//; s/ and python_full_version < '3\.14'//; s/python_full_version < '3\.14' and //" .constraints; } >.lock \
		&& mv .lock constraints.txt; status=$$?; rm -f .constraints .lock; exit $$status

# KenLM's own programs are not in its wheel. BOOST=<prefix> where Boost is not installed for the whole machine.
PROGRAMS ?= $(ENVIRONMENT)/bin
lmplz: install  ## build KenLM's lmplz and build_binary for every checkout (two minutes; needs CMake, a C++ compiler, Boost)
	@command -v cmake >/dev/null || { echo "cmake is needed (on Debian: apt install cmake)" >&2; exit 2; }
	@set -e; work=$$(mktemp -d); trap 'rm -rf "$$work"' EXIT; \
	.venv/bin/python -m pip download --quiet --disable-pip-version-check --no-deps --no-binary kenlm -c constraints.txt \
		-d "$$work" kenlm; \
	tar -xzf "$$work"/kenlm-*.tar.gz -C "$$work"; mv "$$work"/kenlm-*/ "$$work/source"; \
	cmake -S "$$work/source" -B "$$work/build" -DCMAKE_BUILD_TYPE=Release -DCMAKE_BUILD_WITH_INSTALL_RPATH=OFF \
		$(if $(BOOST),-DCMAKE_PREFIX_PATH=$(BOOST)) >"$$work/log" 2>&1 || { tail -n 20 "$$work/log" >&2; \
		echo "Boost is needed: program_options, system, thread, test (on Debian: apt install libboost-all-dev)" >&2; exit 2; }; \
	cmake --build "$$work/build" --target lmplz build_binary -j 2 >"$$work/log" 2>&1 || { tail -n 20 "$$work/log" >&2; exit 2; }; \
	mkdir -p $(PROGRAMS); cp "$$work"/build/bin/lmplz "$$work"/build/bin/build_binary $(PROGRAMS); \
	ln -sf $(abspath $(PROGRAMS))/lmplz $(abspath $(PROGRAMS))/build_binary .venv/bin/
	@echo "lmplz and build_binary are in $(PROGRAMS)"

train: install  ## generate the built-in corpus and train on it (ARGS="rnn=lstm seed=1" adds overrides)
	.venv/bin/python src/train.py $(ARGS)

# The tests share the cores as processes, each with one thread; commands under test have two (tests/helpers/command.py).
# One process more than cores, since many tests wait for a command or a moment; at most four. A fourth on two cores saves
# nothing: they are busy with three.
PROCESSES ?= $(shell cores=$$(nproc); echo $$((cores < 4 ? cores + 1 : 4)))
PYTEST = OMP_NUM_THREADS=1 .venv/bin/python -m pytest -n $(PROCESSES) --dist loadfile --no-loadscope-reorder --durations=15 --durations-min=5

test: EXTRAS = dev
test: install  ## every test, a file at a time on each core (ARGS=--changed: only those that a change reaches; ARGS="-k norm")
	$(PYTEST) $(ARGS)

FAST = $(addprefix tests/,asr_verdicts components config runs tools)
test-fast: EXTRAS = dev
test-fast: install  ## the arithmetic, the config and the run folder, without what starts commands: for every few minutes
	$(PYTEST) -m "not slow" $(FAST) $(ARGS)

HOURS ?= 1
SEED ?= 0
campaign: EXTRAS = dev$(if $(filter benchmarks,$(or $(subst $(comma), ,$(PARTS)),benchmarks)),$(comma)benchmarks)
campaign: install  ## what is too long for the tests, an hour of it (PARTS=kills,coverage HOURS=2 SEED=1 RESUME=<folder>)
	@PYTHONPATH=src .venv/bin/python -m tests.campaign --parts "$(PARTS)" --hours "$(HOURS)" --seed "$(SEED)" \
		$(if $(RESUME),--resume "$(RESUME)") $(ARGS)

# What publishes this project's answers lies with them.
PUBLISH = PYTHONPATH=src:sweeps .venv/bin/python -m publish
answers: install  ## the papers' questions on the built-in corpus, hours of two cores; the same command continues
	sweeps/answers.sh $(ARGS)

results: install  ## write sweeps/RESULTS.md from sweeps/records/ (ARGS=outputs/<sweep> keeps a finished sweep first)
	$(PUBLISH).results $(ARGS)

short-runs: install  ## what short runs tell of longer ones (ARGS="outputs/short_runs_at_2 outputs/short_runs")
	$(PUBLISH).short_runs $(ARGS)

unpack: install  ## write the records of sweeps/records/ as runs, under outputs/ or the folder ARGS
	$(PUBLISH).archive $(ARGS)

# What mypy found out of packages serves every checkout with the same environment: a clean one takes seconds.
lint: EXTRAS = dev
lint: install  ## ruff (check and format) and mypy
	.venv/bin/ruff check . && .venv/bin/ruff format --check . && .venv/bin/mypy --cache-dir $(ENVIRONMENT)/mypy

format: EXTRAS = dev
format: install  ## let ruff rewrite
	.venv/bin/ruff check --fix . && .venv/bin/ruff format .

docs: install  ## write docs/options.md from conf/, and commands and cost into the heads of sweeps/
	$(PUBLISH).options
	$(PUBLISH).heads

clean:  ## remove caches, not the environment, not outputs
	rm -rf .pytest_cache .mypy_cache .ruff_cache {.,src/asr_verdicts}/build src/{.,asr_verdicts}/*.egg-info
	find . -name __pycache__ -prune -exec rm -rf {} +

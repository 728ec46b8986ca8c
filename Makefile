# make sweep      from a clean clone to the result table and a figure
# make check      lint, types, import contracts, tests without Ray: what to run after every edit
# make test       all that a commit needs: also the tests that start Ray on this machine
# make test-all   also several nodes, hosts with SSH, injected faults
# make figures    every figure of the paper, and of further spaces, from the shipped store published/, without training
# make publish FROM=results   adds what a store of runs has finished to published/, to the document and to its figures
# The first of these that is supported makes .venv; `make sweep PYTHON=…` names another.
PYTHON ?= python3.13 python3.12 python3.11 python3
# `make unit VENV=… PYTHON=…` has another environment, with another Python.
VENV := .venv
BIN := $(VENV)/bin
SHELL := /bin/bash -o pipefail

.PHONY: sweep figures paper-figures further-figures publish check unit test tests-of-a-commit test-all tests-long lint chaos
.PHONY: lock clean

sweep: $(VENV)/runtime
	$(BIN)/python -m sweeper.run search_spaces/quickstart.yaml

# The spaces whose trials published/ has, or is to have, in two lists that take about as long to draw. The first has all
# spaces with published numbers to compare with.
PAPER := coloring_two_cores coloring_table_two_cores coloring_halving coloring_worst_cycle \
  recall_two_cores recall_q_two_cores recall_m_two_cores gridworld_two_cores
FURTHER := coloring_starts coloring_sum coloring_basins coloring_initialisation coloring_rates coloring_length \
  coloring_premise coloring_full_block coloring_one_block coloring_one_draw \
  coloring_batch_two_cores coloring_m_two_cores coloring_cycles_two_cores \
  objectives_coloring objectives_coloring_fresh objectives_gridworld \
  objectives_recall recall_length recall_memory_two_cores choose_or_blur \
  gridworld_small gridworld_imitation \
  gridworld_evolution gridworld_halving gridworld_infinity gridworld_policy_gradient \
  gridworld_gradient_halving gridworld_gradient_finalists gridworld_best_responses gridworld_noise \
  gridworld_searches gridworld_worst_treasure ski_rental paging seed_bank seed_bank_gridworld
FIGURES := figures

# Side by side: a command that draws, or checks types, has one thread, and so leaves a core idle.
SIDE_BY_SIDE := $(MAKE) --no-print-directory --jobs 2
DRAW := $(BIN)/python -m sweeper report --results published --out $(FIGURES)

figures: $(VENV)/runtime
	$(SIDE_BY_SIDE) --output-sync=line paper-figures further-figures

paper-figures: $(VENV)/runtime
	$(DRAW) --compare $(PAPER:%=--space search_spaces/%.yaml)

further-figures: $(VENV)/runtime
	$(DRAW) $(FURTHER:%=--space search_spaces/%.yaml)

# Figures that README and docs show: FIGURES/<space>/<name>.png is docs/figures/<space>-<name>.png.
SHOWN := coloring_two_cores/5A coloring_two_cores/figure-5 coloring_two_cores/9 figure-3 \
  recall_two_cores/figure-1 recall_q_two_cores/figure-2 recall_q_two_cores/8 \
  gridworld_two_cores/6C gridworld_two_cores/figure-7 gridworld_two_cores/10 \
  coloring_starts/figure-starts coloring_halving/figure-halving coloring_premise/premise \
  coloring_m_two_cores/success-m ski_rental/figure-rental choose_or_blur/figure-choice figure-bank \
  gridworld_searches/searches objectives_coloring/figure-objectives objectives_recall/figure-objectives

# Documents with tables from published/.
FILLED := docs/reproduction.md docs/beyond-the-paper.md

# The outcomes that panels draw.
OUTCOMES := success,majority_5,majority_30,first_visit,path_*

publish: $(VENV)/runtime
	@test -n "$(FROM)" || { echo "the store of the runs is needed: make publish FROM=results" >&2; exit 2; }
	$(BIN)/python -m sweeper copy --results $(FROM) --to published --outcomes $(OUTCOMES)
	$(BIN)/python -m docs.fill published $(FILLED)
	$(MAKE) --no-print-directory figures
	for name in $(SHOWN); do if test -e $(FIGURES)/$$name.png; then \
	  cp $(FIGURES)/$$name.png docs/figures/$${name//\//-}.png; fi; done

# The marks `slow` and `long` are explained in pyproject.toml. The processes take file after file, in order: tests of one
# file share what they start. A process that dies ends the run, which would otherwise wait for that file for ever. Tests
# start hundreds of processes, which are to find the modules compiled, whatever the environment says.
PROCESSES := 2
DURATIONS := $(if $(CI),--durations=30)
PYTEST := env -u PYTHONDONTWRITEBYTECODE $(BIN)/python -m pytest $(DURATIONS) --numprocesses $(PROCESSES) --dist loadfile --no-loadscope-reorder --max-worker-restart 0

check: $(VENV)/dev
	$(SIDE_BY_SIDE) --output-sync=target lint unit

unit: $(VENV)/dev
	$(PYTEST) --without-ray -m "not slow and not long"

test: $(VENV)/dev
	$(SIDE_BY_SIDE) lint tests-of-a-commit

tests-of-a-commit: $(VENV)/dev
	$(PYTEST) --numprocesses 3 -m "not long"

test-all: test
	$(MAKE) --no-print-directory tests-long

LONG := long
tests-long: $(VENV)/dev
	$(PYTEST) --numprocesses 3 -m "$(LONG)"

lint: $(VENV)/dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright
	$(BIN)/lint-imports
	$(BIN)/python -m benchmarks.code_lines

chaos: $(VENV)/runtime
	$(BIN)/python -m chaos

# The environment is complete once its mark is newer than the lock it was installed from.
# Python compiles a module at its first import. While the first start imports JAX, another core imports for it what comes
# last.
$(VENV)/runtime: locks/runtime.lock | $(VENV)/bin/pip
	locks/install $(VENV) $<
	$(BIN)/python -c "import ray.tune, matplotlib.pyplot" >/dev/null 2>&1 &
	touch $@

$(VENV)/dev: locks/dev.lock | $(VENV)/bin/pip
	locks/install $(VENV) $<
	touch $@ $(VENV)/runtime

# XLA's CUDA compiler, beside the environment, which it would make look for a driver.
$(VENV)/cuda-compiler: locks/gpu.lock | $(VENV)/bin/pip
	rm -rf $@
	sed -n '/^jax-cuda13-p[lj]\|^nvidia-cuda-nvcc\|^nvidia-nvvm/,/# via/p' $< > $(VENV)/cuda-compiler.txt
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --require-hashes --target $@ -r $(VENV)/cuda-compiler.txt
	touch $@

$(VENV)/bin/pip:
	@for python in $(PYTHON); do \
	  $$python -c 'import ensurepip, sys, venv; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' 2>/dev/null \
	    && echo "$$python -m venv $(VENV)" && exec $$python -m venv $(VENV); \
	done; \
	echo "Python 3.11, 3.12 or 3.13 with its module venv is needed, and none of these is: $(PYTHON);" \
	  "on Debian or Ubuntu: apt-get install python3-venv" >&2; exit 1

# Resolve the dependencies of pyproject.toml again, once for all Pythons and platforms, and ask for wheels of each; needs
# uv in PATH. Python 3.11 gets the oldest versions of locks/oldest.txt, the others the newest.
COMPILE := uv pip compile --quiet --no-header
LOCK := $(COMPILE) --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
  --upgrade-package jax --upgrade-package jaxlib --upgrade-package flax -c locks/oldest.txt pyproject.toml
lock:
	$(LOCK) -o locks/runtime.lock
	$(LOCK) --extra dev -c locks/runtime.lock -o locks/dev.lock
	$(LOCK) --extra cloud -c locks/runtime.lock -o locks/cluster.lock
	$(LOCK) --extra cloud --extra cuda -c locks/cluster.lock -o locks/gpu.lock
	echo uv | $(COMPILE) --universal --python-version 3.11 --generate-hashes --no-emit-index-url - -o locks/uv.lock
	for lock in locks/*.lock; do for python in 3.11 3.12 3.13; do \
	  for platform in x86_64-manylinux_2_28 aarch64-manylinux_2_28 aarch64-apple-darwin; do \
	    $(COMPILE) --only-binary :all: --python-version $$python --python-platform $$platform $$lock -o /dev/null \
	      || exit 1; \
	done; done; done

clean:
	rm -rf $(VENV) .pytest_cache .jax_cache .ruff_cache .hypothesis .import_linter_cache figures

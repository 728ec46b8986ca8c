# make sweep      from a clean clone to the result table and a figure
# make check      lint, types, import contracts, tests without Ray: what to run after every edit
# make test       all that a commit needs: also the tests that start Ray on this machine
# make test-all   also several nodes, hosts with SSH, injected faults
PYTHON ?= python3.11
BIN := .venv/bin
SHELL := /bin/bash -o pipefail

.PHONY: sweep check test test-all lint chaos lock clean

sweep: .venv/runtime
	$(BIN)/python -m sweeper.run search_spaces/quickstart.yaml

# The marks `slow` and `long` are explained in pyproject.toml. Two processes take file after file, in order: tests of one
# file share what they start.
PYTEST := $(BIN)/python -m pytest --numprocesses 2 --dist loadfile --no-loadscope-reorder

check: lint
	$(PYTEST) -m "not slow and not long"

test: lint
	$(PYTEST) -m "not long"

test-all: test
	$(PYTEST) -m long

lint: .venv/dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright
	$(BIN)/lint-imports

chaos: .venv/runtime
	$(BIN)/python -m chaos

# The environment is complete once its mark is newer than the lock it was installed from.
.venv/runtime: requirements.lock | .venv/bin/pip
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	touch $@

.venv/dev: requirements-dev.lock | .venv/bin/pip
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements-dev.lock
	touch $@ .venv/runtime

.venv/bin/pip:
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
	  echo "$(PYTHON) cannot make virtual environments; on Debian: apt-get install python3.11-venv" >&2; exit 1; }
	$(PYTHON) -m venv .venv

# Resolve the dependencies of pyproject.toml again; needs uv, which only this target uses.
COMPILE := uv pip compile --quiet --generate-hashes --no-header --no-emit-index-url \
	--python-version 3.11 --python-platform x86_64-manylinux_2_28
lock:
	$(COMPILE) pyproject.toml -o requirements.lock
	$(COMPILE) pyproject.toml --extra dev -c requirements.lock -o requirements-dev.lock
	$(COMPILE) pyproject.toml --extra cloud -c requirements.lock -o requirements-cluster.lock
	$(COMPILE) pyproject.toml --extra cloud --extra cuda -c requirements-cluster.lock -o requirements-gpu.lock

clean:
	rm -rf .venv .pytest_cache .jax_cache .ruff_cache .hypothesis .import_linter_cache

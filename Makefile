# `make demo` and `make test` need nothing but Python 3.11 or newer: no Docker, no database, no GPU, no root.
#
# VENV     where the virtual environment lies               (default .venv)
# PYTHON   the Python that makes it                         (default: the first of python3.13 .. python3.11, python3 that will do)
# MODELS   test-real: folder with the models tiny-coder and tiny-draft
# CHAOS_KILLS, CHAOS_SEED, CHAOS_FORM   chaos: how many kills, drawn from which seed, engines as process, docker or both

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

VENV ?= .venv
PYTHON ?=
MODELS ?=
JOBS ?= 3
CHAOS_KILLS ?= 200
CHAOS_SEED ?=
CHAOS_FORM ?= both
PYTEST := $(VENV)/bin/python -m pytest -q
PIP := $(VENV)/bin/python -m pip install -qq --disable-pip-version-check --no-input
# An engine environment of the caller must not leak into what is measured or tested.
unexport PYTHONPATH
unexport PYTHONHOME

# One after another, whatever -j says: the tests measure times.
.NOTPARALLEL:
.PHONY: help demo test check check-format check-lint check-types check-imports format bench test-docker test-real chaos clean

help: ## List what can be made
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(VENV)/.ready ## A whole sweep on a simulated engine, with everything embedded (under 4 minutes from a fresh clone)
	@echo "== demo: a sweep on a simulated engine"
	@$(VENV)/bin/nightsweep demo

test: $(VENV)/.ready-dev ## All tests but those that need Docker or a real engine
	@echo "== tests, on $(JOBS) processes"
	@$(PYTEST) -n $(JOBS) --dist worksteal --durations=12 -m "not docker and not live"

# `make -k check` goes on after a gate that failed, so that one run says everything.
check: check-format check-lint check-types check-imports test ## Format, lint, types, import contracts, tests

check-format: $(VENV)/.ready-dev
	@echo "== format"; $(VENV)/bin/ruff format --check .

check-lint: $(VENV)/.ready-dev
	@echo "== lint"; $(VENV)/bin/ruff check .

check-types: $(VENV)/.ready-dev
	@echo "== types"; $(VENV)/bin/mypy

check-imports: $(VENV)/.ready-dev
	@echo "== import contracts"; $(VENV)/bin/lint-imports --no-logo

format: $(VENV)/.ready-dev ## Format the code and mend what the linter can mend
	@$(VENV)/bin/ruff format .
	@$(VENV)/bin/ruff check --fix .

bench: $(VENV)/.ready-dev ## Overhead, memory, start-up and planning; results go to bench-results/
	@echo "== benchmarks (NIGHTSWEEP_BENCH_VLLM=/path/to/vllm measures the peer beside us)"
	@$(VENV)/bin/python -m benchmarks.run

test-docker: $(VENV)/.ready-dev ## Tests on a Docker Engine
	@echo "== tests on Docker"
	@NIGHTSWEEP_TEST_DOCKER=1 $(PYTEST) -n 2 --dist worksteal -m "docker and not live"

test-real: $(VENV)/.ready-dev ## A sweep on real vLLM in Docker: make test-real MODELS=DIR (tests/live/README.md)
	@if [ -z "$(MODELS)" ]; then echo "test-real: say where the models are: make test-real MODELS=DIR (see tests/live/README.md)" >&2; exit 2; fi
	@for model in tiny-coder tiny-draft; do \
	  if [ ! -f "$(MODELS)/$$model/config.json" ]; then echo "test-real: no $$model in $(MODELS)" >&2; exit 2; fi; done
	@echo "== tests on a real engine (about 12 minutes on a quiet machine)"
	@NIGHTSWEEP_TEST_REAL=1 NIGHTSWEEP_TEST_MODELS="$(realpath $(MODELS))" $(PYTEST) -s -m live tests/live

chaos: $(VENV)/.ready-dev ## kill -9 at 200 random moments, and a look at what is left (docs/nights.md; as root also with Docker)
	@echo "== chaos (CHAOS_KILLS=$(CHAOS_KILLS) CHAOS_FORM=$(CHAOS_FORM) CHAOS_SEED=$(CHAOS_SEED))"
	@$(VENV)/bin/python -m tests.chaos --kills $(CHAOS_KILLS) --form $(CHAOS_FORM) $(if $(CHAOS_SEED),--seed $(CHAOS_SEED))

clean: ## Back to a fresh clone, but for measured data (.nightsweep/)
	@rm -rf .venv .demo dist build bench-results .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .coverage
	@find src flows tests migrations benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +

# --- the virtual environment ------------------------------------------------------------------------------------
# A stamp holds the checksum of pyproject.toml: a second call installs nothing and needs no network, and a checkout
# that only touches the file's time does not either.

.PHONY: always
always:

$(VENV)/.made:
	@found=; seen=; \
	for python in $(PYTHON) python3.13 python3.12 python3.11 python3; do \
	  "$$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 || continue; \
	  seen=$$python; \
	  if "$$python" -c 'import venv, ensurepip' >/dev/null 2>&1; then found=$$python; break; fi; \
	done; \
	if [ -z "$$found" ] && [ -n "$$seen" ]; then \
	  echo "$$seen has no venv module: install it (Debian, Ubuntu: apt-get install python3-venv), or set PYTHON=" >&2; exit 1; fi; \
	if [ -z "$$found" ]; then \
	  echo "no Python 3.11 or newer found: install one, or say which with make PYTHON=/path/to/python3" >&2; exit 1; fi; \
	echo "== virtual environment $(VENV) of $$("$$found" --version) ($$found)"; \
	rm -rf "$(VENV)"; "$$found" -m venv "$(VENV)"; touch "$@"

$(VENV)/.ready: $(VENV)/.made always
	@sum=$$(cksum < pyproject.toml); \
	if [ "$$(cat "$@" 2>/dev/null)" != "$$sum" ]; then \
	  echo "== installing nightsweep and what it needs into $(VENV) (once, about a minute)"; \
	  $(PIP) -e .; echo "$$sum" > "$@"; fi

$(VENV)/.ready-dev: $(VENV)/.made always
	@sum=$$(cksum < pyproject.toml); \
	if [ "$$(cat "$@" 2>/dev/null)" != "$$sum" ]; then \
	  echo "== installing nightsweep with its development tools into $(VENV) (once, about a minute)"; \
	  $(PIP) -e '.[dev]'; echo "$$sum" > "$@"; echo "$$sum" > "$(VENV)/.ready"; fi

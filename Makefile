# Verbs: demo, test, check, bench, serve. Each sets up .venv by itself; a second run starts at once.

PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.made-from-constraints
MUTATION_STAMP := .venv/.made-for-mutation
FUZZ_STAMP := .venv/.made-for-fuzzing
TESTS ?= tests
ARGS ?=

.DEFAULT_GOAL := help
.PHONY: help demo demo-fleet test test-long test-postgres postgres check bench bench-all soak serve setup format cover test-trees test-live mutation fuzz clean weather weather-cover

help: ## show the verbs
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' Makefile

demo: $(STAMP) ## an agent sleeps while its tools work: no key, no network
	$(BIN)/torpor demo $(ARGS)

demo-fleet: $(STAMP) postgres ## two hundred agents on PostgreSQL, whose workers are killed
	$(BIN)/torpor demo --fleet $(ARGS)

test: $(STAMP) ## the tests, in under a minute
	$(BIN)/python -m pytest $(TESTS) -n 3 --dist worksteal -m "not live and not long" $(ARGS)

test-long: $(STAMP) $(SCHEMATHESIS) postgres ## what `make test` leaves out: the conformance kit, documented commands, the benchmark
	$(BIN)/python -m pytest $(TESTS) -n 3 --dist worksteal -m long $(ARGS)

test-postgres: $(STAMP) postgres ## the runtime's tests on PostgreSQL, installed if it is missing
	TORPOR_TEST_STORE=postgres TORPOR_TREES=200 $(BIN)/python -m pytest tests/runtime -n 2 --dist worksteal -m "not live" $(ARGS)

# The fuzzer of HTTP APIs, in an environment of its own: what it needs contradicts what we need.
SCHEMATHESIS := .venv/schemathesis/.made
$(SCHEMATHESIS): $(STAMP) tests/fuzz/schemathesis.txt
	$(BIN)/python -m venv .venv/schemathesis
	.venv/schemathesis/bin/python -m pip install --quiet --disable-pip-version-check -r tests/fuzz/schemathesis.txt
	@touch $@

# PostgreSQL and a proxy for it, from Debian's packages; the tests start servers of their own.
postgres:
	@if ! ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || ! PATH="$$PATH:/usr/sbin" command -v pgbouncer >/dev/null; then \
	  if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	    export DEBIAN_FRONTEND=noninteractive; \
	    apt-get update -qq && apt-get install -y -qq --no-install-recommends postgresql pgbouncer; \
	  else \
	    echo "PostgreSQL is not installed: what needs it is skipped"; \
	  fi; \
	fi

check: $(STAMP) ## format, lint, types, import contracts, size limits
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	$(BIN)/python scripts/check_sizes.py

bench: $(STAMP) ## cost of a slice beside a lean loop (ARGS="--agents 1000 --store memory:")
	$(BIN)/python bench/agent_scale.py $(ARGS)

# Each writes its part of docs/performance.md. An hour on a quiet machine; THREADS=100000 takes a quarter of it.
THREADS ?= 1000000
bench-all: $(STAMP) ## all benchmarks: peers, wakes, fleets, a million threads, growth (an hour, 40 GB of disk)
	$(BIN)/python bench/agent_scale.py
	$(BIN)/python bench/growth.py --write
	$(BIN)/python bench/peers/run.py --write
	$(BIN)/python bench/wake.py --write --sleeping 0 100000 $(THREADS)
	$(BIN)/python bench/fleet.py --write
	$(BIN)/python bench/million.py --write --threads $(THREADS)

# TIME such as 90s, 20m or 1h; STORE sqlite or postgres; ARGS="--write" for its part of docs/soak.md.
TIME ?= 1h
STORE ?= sqlite
soak: $(STAMP) ## mixed work with faults on for TIME=1h over STORE=sqlite or postgres: what leaks?
	$(BIN)/python bench/soak.py --time $(TIME) --store $(STORE) $(ARGS)

serve: $(STAMP) ## the example agent with HTTP API and worker, on loopback
	cd examples && ../$(BIN)/torpor serve $(ARGS)

TIME ?= 10m
fuzz: $(FUZZ_STAMP) ## hostile input, guided by coverage, for a while (TIME=2h ARGS="callback rows")
	nice $(BIN)/python -m tests.fuzz.run --time $(TIME) $(ARGS)

setup: $(STAMP) ## only set up .venv

format: $(STAMP) ## rewrite the sources as `make check` wants them
	$(BIN)/ruff check --fix --exit-zero .
	$(BIN)/ruff format .

cover: $(STAMP) ## core/ is covered by its own tests, every branch
	$(BIN)/python -m pytest tests/core -q --cov=torpor.core --cov-branch --cov-fail-under=100 $(ARGS)

test-trees: $(STAMP) ## random trees of threads, a hundred thousand of them (half an hour; not in CI)
	TORPOR_TREES=100000 $(BIN)/python -m pytest tests/runtime/test_random_trees.py -n 3 --dist worksteal $(ARGS)

# `make weather SEED=123` shows what happens in one seed; RUNS and TIME (90s, 5m, 2h) go on from FIRST.
FIRST ?= 0
weather: $(STAMP) ## the runtime in a simulated world full of faults (TIME=5m, RUNS=1000 or SEED=123)
	$(BIN)/python -m torpor.testing.weather $(if $(SEED),--trace --seed $(SEED),--jobs 2 --seed $(FIRST)) $(if $(RUNS),--runs $(RUNS)) $(if $(TIME),--time $(TIME)) $(ARGS)

weather-cover: $(STAMP) ## what of core/ and runtime/ the weather reaches
	rm -f .coverage.weather*
	COVERAGE_FILE=.coverage.weather $(BIN)/python -m coverage run --source=torpor.core,torpor.runtime -m torpor.testing.weather --runs $(or $(RUNS),1500)
	COVERAGE_FILE=.coverage.weather $(BIN)/python -m coverage combine -q
	COVERAGE_FILE=.coverage.weather $(BIN)/python -m coverage report --fail-under=95

test-live: $(STAMP) ## one whole thread with a real small model on loopback (slow; not in CI)
	$(BIN)/python -m pytest $(TESTS) -m live $(ARGS)

mutation: $(MUTATION_STAMP) ## mutation score of core/ (slow; not in CI)
	$(BIN)/python scripts/mutation_score.py $(ARGS)

clean: ## remove what the verbs made
	rm -rf .venv mutants build dist .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis

# One install for every verb, repeated only when what it was made from changes.
$(STAMP): pyproject.toml constraints.txt
	@if command -v uv >/dev/null 2>&1; then \
	  { test -x $(BIN)/python || uv venv --python '>=3.11' .venv; } && \
	  uv pip install --quiet --python $(BIN)/python --constraint constraints.txt --editable '.[dev]'; \
	else \
	  { test -x $(BIN)/python || $(PYTHON) -m venv .venv; } && \
	  $(BIN)/python -m pip install --quiet --disable-pip-version-check \
	    --constraint constraints.txt --editable '.[dev]'; \
	fi
	@touch $@

$(MUTATION_STAMP): $(STAMP)
	@if command -v uv >/dev/null 2>&1; then \
	  uv pip install --quiet --python $(BIN)/python --constraint constraints.txt --editable '.[dev,mutation]'; \
	else \
	  $(BIN)/python -m pip install --quiet --disable-pip-version-check \
	    --constraint constraints.txt --editable '.[dev,mutation]'; \
	fi
	@touch $@

$(FUZZ_STAMP): $(STAMP)
	@if command -v uv >/dev/null 2>&1; then \
	  uv pip install --quiet --python $(BIN)/python --constraint constraints.txt --editable '.[fuzz]'; \
	else \
	  $(BIN)/python -m pip install --quiet --disable-pip-version-check \
	    --constraint constraints.txt --editable '.[fuzz]'; \
	fi
	@touch $@

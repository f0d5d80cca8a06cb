# Every target that needs packages runs `setup` first; a second run costs nothing.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.NOTPARALLEL:

VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.setup-complete
BENCH_STAMP := $(VENV)/.bench-complete
DOCS_STAMP := $(VENV)/.docs-complete
COVERAGE_STAMP := $(VENV)/.coverage-complete
CODE := $(wildcard src tests benchmarks tools experiments docs/conf.py docs/_ext)

# The main job, end to end on real data.
DEMO := ergonet fit digits --out demo-run --overwrite
# Test processes at a time: as many as a small CI machine has cores. With three on two, the quick tests took longer.
WORKERS ?= 2
PYTEST := $(BIN)/pytest -n $(WORKERS) --dist loadfile --durations 10
BENCH_ARGUMENTS ?=
EXAMPLES ?= 1000
# Without the checks of annotations, which are made by the quick tests and cost a tenth of the time.
UNTYPED := -o addopts="--import-mode=importlib --strict-config --strict-markers -ra"
QUICK := "not (statistical or slow or browser or gpu)"
# Most tests compile more than they run, so their programs are not optimized; see the fixture `optimized`.
UNOPTIMIZED := JAX_DISABLE_MOST_OPTIMIZATIONS=1

.PHONY: help setup demo test test-fast test-statistical test-long fuzz coverage lint format bench \
	bench-uci reliability reliability-quick docs clean

help:  ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## */\t/' | expand -t 20

setup: $(STAMP)  ## make .venv with the pinned packages and this library in editable form

$(STAMP): pyproject.toml constraints.txt tools/setup.sh
	@bash tools/setup.sh $(VENV) plots,test,lint
	@touch $@

$(BENCH_STAMP): $(STAMP)
	@bash tools/setup.sh $(VENV) bench
	@touch $@

$(DOCS_STAMP): $(STAMP)
	@bash tools/setup.sh $(VENV) docs
	@touch $@

$(COVERAGE_STAMP): $(STAMP)
	@bash tools/setup.sh $(VENV) coverage
	@touch $@

demo: $(STAMP)  ## fit a Bayesian neural network to the digits and write demo-run/report.html
	$(BIN)/$(DEMO)

test: lint test-fast test-statistical docs  ## all that CI runs

test-fast: $(STAMP)  ## the quick tests only
	$(UNOPTIMIZED) $(PYTEST) -m $(QUICK)

test-statistical: $(STAMP)  ## statistical and slow tests, the examples of the documentation, reports in Chromium
	$(UNOPTIMIZED) $(PYTEST) $(UNTYPED) --dist load -m "(statistical or slow or browser) and not gpu"

test-long: $(STAMP)  ## plant faults and see each of them caught; writes tests/faults/README.md; has no time limit
	$(BIN)/python -m tests.faults.run

fuzz: $(STAMP)  ## other inputs of all kinds in every run, EXAMPLES of each; has no time limit
	ERGONET_FUZZ_EXAMPLES=$(EXAMPLES) $(BIN)/pytest $(UNTYPED) tests/fuzz

coverage: $(COVERAGE_STAMP)  ## statements that the quick tests run; writes docs/results/coverage.md
	COVERAGE_CORE=sysmon $(UNOPTIMIZED) $(PYTEST) -m $(QUICK) --cov=ergonet --cov-report=
	$(BIN)/coverage json --quiet -o build/coverage.json
	$(BIN)/python tools/coverage_page.py build/coverage.json

lint: $(STAMP)  ## style, types, layers and limits
	$(BIN)/ruff check $(CODE)
	$(BIN)/ruff format --check $(CODE)
	$(BIN)/pyright --threads $(WORKERS)
	$(BIN)/lint-imports --no-logo
	$(BIN)/python tools/check_limits.py

format: $(STAMP)  ## mend what ruff can mend
	$(BIN)/ruff check --fix-only $(CODE)
	$(BIN)/ruff format $(CODE)

bench: $(BENCH_STAMP)  ## speed against the peers; writes docs/results/speed.md
	$(BIN)/python -m benchmarks.run $(BENCH_ARGUMENTS)

UCI_BDE := build/uci-bde
$(UCI_BDE)/.complete: $(STAMP)
	$(BIN)/python -m venv $(UCI_BDE)
	$(UCI_BDE)/bin/python -m pip install --quiet sklearn-contrib-bde==1.0.2
	@touch $@

bench-uci: $(UCI_BDE)/.complete  ## tables against other predictors; hours, resumable; writes docs/results/uci.md
	$(BIN)/python -m benchmarks.uci $(BENCH_ARGUMENTS)

reliability: $(STAMP)  ## kills, crashes, damage, calibration and known faults; hours; writes docs/results/reliability.md
	$(BIN)/python -m benchmarks.reliability

reliability-quick: $(STAMP)  ## the same with small numbers, in minutes; writes build/reliability-quick/reliability.md
	rm -rf build/reliability-quick
	$(BIN)/python -m benchmarks.reliability --quick

docs: $(DOCS_STAMP)  ## build the documentation site, build/docs/html/index.html; warnings are errors
	$(BIN)/python tools/draw_layers.py
	$(BIN)/sphinx-build --fail-on-warning --keep-going --quiet --jobs $(WORKERS) docs build/docs/html
	@echo "the site is in build/docs/html/index.html"

clean:  ## remove what the other targets made, .venv included
	rm -rf $(VENV) build dist demo-run .pytest_cache .ruff_cache .import_linter_cache .hypothesis
	find src tests benchmarks tools experiments -name __pycache__ -type d -prune -exec rm -rf {} +

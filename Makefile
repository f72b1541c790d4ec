# `make demo` and `make test` need nothing but Python and the package index.
PYTHON ?= python3
BIN := .venv/bin
# Compiled programs are kept between runs: the suite recompiles only what changed.
export JAX_COMPILATION_CACHE_DIR ?= $(CURDIR)/.xla-cache

.PHONY: demo test test-all lint format docs bench picture clean

# Set up, train on forty modes, judge, compare with other samplers, write the report.
demo: .venv/installed
	$(BIN)/temperflow run gmm40 --recipe quick --compare --out runs/demo

# What is never imported need not be compiled.
.venv/installed: pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check --no-compile --editable .
	touch $@

.venv/ready: .venv/installed
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[dev]'
	touch $@

test: .venv/ready lint
	$(BIN)/pytest -n 2 -m 'not slow'

test-all: .venv/ready lint
	$(BIN)/pytest -n 2

lint: .venv/ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright

format: .venv/ready
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# How fast, beside the machine's own rates and beside peers. PyTorch's rows come where torch is installed.
bench: .venv/installed
	$(BIN)/python -m benchmarks.speed --short --json benchmarks/results/speed-cpu.json

# The site, into site/; a warning is an error (mkdocs.yml).
docs: .venv/docs
	$(BIN)/mkdocs build

.venv/docs: .venv/ready
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[docs]'
	touch $@

# The picture on the first page, from the demo's report. Chromium draws it.
picture:
	chromium --headless --no-sandbox --hide-scrollbars --force-device-scale-factor=2 --window-size=884,202 \
	  --screenshot=docs/assets/gmm40.png runs/demo/figures/way.svg

clean:
	rm -rf .venv .xla-cache .pytest_cache .ruff_cache .hypothesis dist site

# One command each. The first one that needs it makes .venv and installs the tested versions into it.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
DOCS := $(VENV)/.docs
PYTEST := $(BIN)/python -m pytest
# Two processes: a test spends its time tracing and compiling, which JAX does on little more than one core. Whole files,
# so that a file's fixtures and compiled functions are made once; in order, so that the canary stays first.
WORKERS ?= 2
PARALLEL := -n $(WORKERS) --dist loadfile --no-loadscope-reorder
BENCHMARKS := $(wildcard benchmarks/bench_*.py)

.DEFAULT_GOAL := help
.PHONY: help install demo test lint check telling slow docs notebooks bench clean

help:  ## this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

install: $(INSTALLED)  ## .venv with the package and its development tools

$(INSTALLED): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[dev]'
	@touch $@

demo: $(INSTALLED)  ## sample a mixture of 40 Gaussians; results in runs/demo, or runs/demo-2, ...
	@out=runs/demo; n=1; while [ -e "$$out" ]; do n=$$((n + 1)); out=runs/demo-$$n; done; \
	echo "tempering run mog40 --out $$out"; $(BIN)/tempering run mog40 --out "$$out"

test: $(INSTALLED)  ## the suite without the slow tests; the canary alone first
	$(PYTEST) -q tests/test_00_canary.py
	$(PYTEST) $(PARALLEL)

lint: $(INSTALLED)  ## ruff and its formatter everywhere, pyright over the package and the benchmarks
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright

check: lint test  ## lint, then test: what must pass before a change lands

telling: $(INSTALLED)  ## the slow tests that say most, in about ten minutes
	$(PYTEST) $(PARALLEL) -m telling

slow: $(INSTALLED)  ## all slow tests
	$(PYTEST) $(PARALLEL) -m slow

# The site needs its own tools and nothing of the library's: pages are read, not run. Ruff breaks long signatures. MkDocs
# is not asked for --quiet, which hides warnings from its strict check too, so that broken links would pass.
$(DOCS): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet -c constraints.txt mkdocs-material 'mkdocstrings[python]' ruff
	@touch $@

docs: $(DOCS)  ## the documentation site, in site/; fails on a broken link
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --clean
	@echo "open site/index.html"

notebooks: $(INSTALLED)  ## run examples/notebooks/*.py and write docs/examples; one: make notebooks NAMES=mog40
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[docs]'
	$(BIN)/python examples/notebooks.py $(NAMES)

bench: $(INSTALLED)  ## benchmarks/bench_*.py, one after another
	@for script in $(BENCHMARKS); do echo "== $$script"; $(BIN)/python "$$script" || exit 1; done

clean:  ## caches and builds; .venv and runs/ stay
	rm -rf build dist .cache .hypothesis .pytest_cache .ruff_cache src/*.egg-info
	find src tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +

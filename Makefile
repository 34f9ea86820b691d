# Every target sets up what it needs: `make demo` and `make test` work on a fresh clone.
#
# VENV   the virtual environment to create and use; point it at one of your own to reuse its torch
# PYTHON the interpreter to create it with; one that already has torch >= 2.11 lends it

VENV   ?= .venv
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11 python; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo $$p; break; }; done)
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
TORCH  := $(shell sed -n 's/^torch==//p' constraints.txt)
ANYWHERE := not gpu and not craftium and not network
HAS_TORCH := import importlib.metadata as m; assert tuple(map(int, m.version('torch').split('.')[:2])) >= (2, 11)

.PHONY: demo test test-fast lint types bench docs setup clean

demo: $(READY)
	$(BIN)/horizon train --preset demo --out runs/demo
	$(BIN)/horizon evaluate runs/demo --episodes 100
	$(BIN)/horizon report runs/demo
	@echo "open runs/demo/report.html"

test: lint
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -n 2 --dist worksteal -m "$(ANYWHERE) and not compiled and not alone"
	@# What needs the whole machine comes last and by itself.
	$(BIN)/python -m pytest -q -m "alone and $(ANYWHERE)" tests
	@# Compiled code and run-time shape checks do not mix; 5 means that there is no such test.
	$(BIN)/python -m pytest -q -o addopts="" -m "compiled and $(ANYWHERE)" tests || [ $$? -eq 5 ]

test-fast: lint
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -n 2 --dist worksteal -m "$(ANYWHERE) and not slow and not compiled and not alone"

lint: $(READY)
	$(BIN)/ruff check src tests benchmarks
	$(BIN)/ruff format --check src tests benchmarks

types: $(READY)
	$(BIN)/pyright

bench: $(READY)
	@set -e; for file in benchmarks/*.py; do [ -e "$$file" ] || continue; \
		echo "== $$file"; $(BIN)/python "$$file"; done

docs: $(READY)
	$(BIN)/horizon schedule --out docs/figures
	$(BIN)/horizon study actions --out runs/studies/actions
	$(BIN)/horizon study imagination --out runs/studies/imagination
	cp runs/studies/actions/actions.png runs/studies/imagination/imagination.png docs/figures/
	$(BIN)/python -m pytest -q tests/test_documentation.py

setup: $(READY)

# torch first and apart: an installed one is left alone, whatever build it is.
$(READY): pyproject.toml constraints.txt
	@[ -n "$(PYTHON)" ] || { echo "Python 3.11 or newer is needed; name one with PYTHON=..." >&2; exit 2; }
	@if [ ! -x $(BIN)/python ]; then \
		if $(PYTHON) -c "$(HAS_TORCH)" 2>/dev/null; then lend=--system-site-packages; fi; \
		echo "creating $(VENV)"; $(PYTHON) -m venv $$lend $(VENV); fi
	@$(BIN)/python -c "$(HAS_TORCH)" 2>/dev/null || $(BIN)/python -m pip install -q "torch==$(TORCH)"
	@{ grep -v '^torch==' constraints.txt; \
		$(BIN)/python -c "from importlib.metadata import version as v; print('torch==' + v('torch'))"; \
	} > $(VENV)/constraints.txt
	$(BIN)/python -m pip install -q -c $(VENV)/constraints.txt -e ".[dev]"
	@touch $@

clean:
	rm -rf build dist .pytest_cache .ruff_cache .hypothesis

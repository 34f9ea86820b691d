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

SECONDS ?= 600

.PHONY: demo play test test-fast campaign coverage lint types bench figures docs dist sbom setup clean

demo: $(READY)
	$(BIN)/horizon train --preset demo --out runs/demo
	$(BIN)/horizon evaluate runs/demo --episodes 100
	$(BIN)/horizon report runs/demo
	@echo "open runs/demo/report.html"

# Act in a world model and watch it imagine, in a browser.
play: $(READY)
	$(BIN)/horizon play

test: lint types
	@for browser in $${CHROMIUM:-chromium} chromium-browser google-chrome; do \
		command -v $$browser >/dev/null 2>&1 && exit; done; \
		echo "!!! NO CHROMIUM HERE: THE PAGE OF horizon play IS NOT TESTED (apt-get install chromium) !!!" >&2
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -n 2 --dist worksteal -m "$(ANYWHERE) and not compiled and not alone"
	@# What needs the whole machine comes last and by itself.
	$(BIN)/python -m pytest -q -m "alone and $(ANYWHERE)" tests
	@# Compiled code and run-time shape checks do not mix; 5 means that there is no such test.
	$(BIN)/python -m pytest -q -o addopts="" -m "compiled and $(ANYWHERE)" tests || [ $$? -eq 5 ]

test-fast: lint
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -n 2 --dist worksteal -m "$(ANYWHERE) and not slow and not compiled and not alone"

lint: $(READY)
	$(BIN)/ruff check src tests benchmarks scripts
	$(BIN)/ruff format --check src tests benchmarks scripts

# The checker's node comes from pip, and nobody asks for a newer version.
types: $(READY)
	PYRIGHT_PYTHON_IGNORE_WARNINGS=1 $(BIN)/pyright --pythonpath $(BIN)/python

# Attacks for SECONDS each: kills, failing disks, damaged files, hostile worlds, abuse, a soak.
campaign: $(READY)
	@status=0; for name in kills disks fuzz worlds abuse soak; do echo "== $$name"; \
		$(BIN)/python tests/campaigns/$$name.py --seconds $(SECONDS) || status=1; done; exit $$status

# Every test that runs here, then the ten files with the largest share of lines that none ran.
coverage: $(READY)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -n 2 --dist worksteal -m "$(ANYWHERE) and not compiled and not alone" \
		--cov --cov-report=
	$(BIN)/python -m pytest -q -m "alone and $(ANYWHERE)" --cov --cov-append --cov-report= tests
	$(BIN)/python -m pytest -q -o addopts="" -m "compiled and $(ANYWHERE)" --cov --cov-append --cov-report= tests
	$(BIN)/coverage report --precision=1 | tail -1
	@echo "least covered:"
	@$(BIN)/coverage report --precision=1 --sort=cover --skip-covered | sed -n '3,12p'

# All that need neither a suite nor a run.
bench: $(READY)
	@set -e; for file in $(filter-out %/candidates.py %/parts.py,$(wildcard benchmarks/*.py)); do \
		echo "== $$file"; $(BIN)/python "$$file"; done

# The pictures of docs/figures that a laptop can draw.
figures: $(READY)
	$(BIN)/horizon schedule --out docs/figures
	$(BIN)/horizon study actions --out runs/studies/actions
	$(BIN)/horizon study imagination --out runs/studies/imagination
	$(BIN)/python scripts/draw_atari_curves.py
	cp runs/studies/actions/actions.png runs/studies/imagination/imagination.png docs/figures/

# The documentation as a site: strict, and without a network.
docs: $(READY)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "open site/index.html"

dist: $(READY)
	rm -rf dist
	$(BIN)/python -m build --no-isolation
	@ls -l dist

# What the project is made of: a lock file with hashes, licences, an SBOM. Needs the package index.
sbom: $(READY)
	$(BIN)/python scripts/sbom.py

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
	rm -rf build dist site .coverage* .pytest_cache .ruff_cache .hypothesis

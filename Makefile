# Everything runs in .venv, which each target sets up by itself: from a clean clone only Python,
# make and a C compiler are needed.
#
#   make demo     a kernel file, compiled and run on a photograph
#   make test     lint, types and tests
#   make help     the rest

PYTHON  ?= python3
VENV    := .venv
BIN     := $(VENV)/bin
WORKERS ?= 2

# An environment is one stamp; a changed pyproject.toml makes it old.
DEV_STAMP   := $(VENV)/.installed-dev
BENCH_STAMP := $(VENV)/.installed-bench

.DEFAULT_GOAL := help
.PHONY: help demo test check lint format types bench clean distclean check-python check-cc

help:
	@echo "make demo      compile a kernel file and run it on a photograph"
	@echo "make test      ruff, mypy and pytest on $(WORKERS) workers (WORKERS=n for another number)"
	@echo "make check     the same without pytest"
	@echo "make lint      ruff alone"
	@echo "make types     mypy alone"
	@echo "make format    put the sources into the one layout"
	@echo "make bench     time kernels against NumPy and onnxruntime"
	@echo "make clean     remove what was built; make distclean: $(VENV) too"

demo: $(DEV_STAMP) | check-cc
	$(BIN)/python examples/demo.py

test: check | check-cc
	$(BIN)/python -m pytest -n $(WORKERS)

check: lint types

lint: $(DEV_STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(DEV_STAMP)
	$(BIN)/mypy

format: $(DEV_STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(BENCH_STAMP) | check-cc
	$(BIN)/python -m benchmarks.run

$(DEV_STAMP): pyproject.toml | check-python
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev,demo]'
	@touch $@

$(BENCH_STAMP): pyproject.toml $(DEV_STAMP)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[bench]'
	@touch $@

# Plain words before any tool fails in its own.
check-python:
	@command -v $(PYTHON) >/dev/null 2>&1 || { \
	  echo "TDSL needs Python 3.11 or newer, and '$(PYTHON)' was not found." \
	       "Name another with: make PYTHON=/path/to/python3.11" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "TDSL needs Python 3.11 or newer, and '$(PYTHON)' is older than that." \
	       "Name another with: make PYTHON=/path/to/python3.11" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
	  echo "'$(PYTHON)' cannot make a virtual environment." \
	       "On Debian and Ubuntu: apt-get install python3-venv" >&2; exit 1; }

check-cc:
	@command -v gcc >/dev/null 2>&1 || command -v clang >/dev/null 2>&1 || { \
	  echo "TDSL needs a C compiler, and neither gcc nor clang was found." \
	       "On Debian and Ubuntu: apt-get install gcc libc6-dev" >&2; exit 1; }

clean:
	rm -rf build dist *.egg-info .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find . -path ./$(VENV) -prune -o -name __pycache__ -type d -exec rm -rf {} +

distclean: clean
	rm -rf $(VENV)

# `make demo` shows the main job on a practice fleet; `make test` passes the tests.
# Nothing is installed system-wide: Python packages go to .venv, tools to the cache directory.
PYTHON ?= python3
VENV := .venv
PY := $(VENV)/bin/python
STAMP := $(VENV)/.stamp
TIERS := all
PYTEST := $(PY) -m pytest

.PHONY: setup demo test test-quick check lint prove bench clean
setup: $(STAMP)

$(STAMP): requirements/dev.txt requirements/runtime.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "reprieve needs Python 3.11 or newer, this is %d.%d: set PYTHON=/path/to/python3.11" % sys.version_info[:2])'
	@test -x $(PY) || $(PYTHON) -m venv $(VENV)
	$(PY) -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/dev.txt
	$(PY) -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	$(PY) -m compileall -q planner backends console
	@touch $@

demo: setup
	$(VENV)/bin/reprieve demo $(if $(HEADLESS),--headless) $(ARGS)

test: setup
	$(PY) tests/run.py $(TIERS)

test-quick: setup
	$(PY) tests/run.py quick

check: lint
	$(PYTEST) -q tests/architecture

lint: setup
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports

prove: setup
	$(PY) tests/run.py prove

bench: setup
	$(PY) benchmarks/run.py

clean:
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis

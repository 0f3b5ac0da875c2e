# make run, make test and make bench set up what they need, in .venv, from constraints.txt.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip --disable-pip-version-check --quiet

.PHONY: run test lint bench clean

run: $(VENV)/.run
	@echo "Which of five onboarding screens do people finish, if nobody may learn what any one of them did?"
	@$(BIN)/croupier up --port 0 --crowd 8000

test: $(VENV)/.test
	@tools/browser.sh
	$(BIN)/python -m pytest -n 2

lint: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(VENV)/.bench
	$(BIN)/python -m bench

clean:
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache

# Each stamp stands for a set of extras; it is renewed when a pin or a dependency changes.
$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.run: pyproject.toml constraints.txt | $(BIN)/python
	@echo "Setting up croupier in $(VENV) ..."
	$(PIP) install -c constraints.txt -e '.[figures,service]'
	@touch $@

$(VENV)/.test: pyproject.toml constraints.txt | $(BIN)/python
	@echo "Setting up croupier and its tests in $(VENV) ..."
	$(PIP) install -c constraints.txt -e '.[dev,figures,learning,service]'
	@touch $@ $(VENV)/.run

$(VENV)/.bench: pyproject.toml constraints.txt | $(BIN)/python
	@echo "Setting up croupier and the peers it is measured against in $(VENV) ..."
	$(PIP) install -c constraints.txt -e '.[dev,figures,learning,service,bench]'
	@touch $@ $(VENV)/.run $(VENV)/.test

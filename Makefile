# make run, make test and make bench set up what they need, in .venv: exact versions, every file known by its hash.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip --disable-pip-version-check --quiet

.PHONY: run check test lint evidence mutants bench pins clean

run: $(VENV)/.run
	@echo "Which of five onboarding screens do people finish, if nobody may learn what any one of them did?"
	@$(BIN)/croupier up --port 0 --scratch --crowd 8000

# Tests start many processes: what is compiled is kept, and no two of them use more threads than there are cores.
unexport PYTHONDONTWRITEBYTECODE
check test evidence mutants: export OPENBLAS_NUM_THREADS := 1

# What is quick, of every room: for a small change, many times a day.
check: $(VENV)/.test
	$(BIN)/python -m pytest -n 2 -m "not slow and not evidence" --quick tests

# Four workers on two cores: while some wait for their servers the others compute.
test: $(VENV)/.test
	@tools/browser.sh
	$(BIN)/python -m pytest -n 4

lint: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# Claims with thousands of runs, soaks and crowds: at most an hour; what is left goes on with RESUME=--resume.
evidence: $(VENV)/.test
	@tools/browser.sh
	$(BIN)/python -m pytest -n 4 --dist worksteal -m evidence --evidence evidence.json --minutes 55 $(RESUME) tests

# Small changes to the mathematics that some fast test must notice: at most an hour.
mutants: $(VENV)/.mutants
	$(BIN)/python tools/mutants.py

bench: $(VENV)/.bench
	@tools/browser.sh
	$(BIN)/python -m bench

clean:
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "croupier needs Python 3.11 or later, and $(PYTHON) is older: make PYTHON=python3.11")'
	$(PYTHON) -m venv $(VENV)

# Each stamp stands for a set of packages; it is renewed when a pin or a dependency changes. The build backend is one of
# the pinned packages, so that nothing is fetched without a hash.
$(VENV)/.%: requirements/%.txt pyproject.toml | $(BIN)/python
	@echo "Setting up croupier in $(VENV), with what it takes to $* it ..."
	$(PIP) install --require-hashes -r $<
	$(PIP) install --no-build-isolation --no-deps -e .
	@touch $@

# Makes the pins again, with uv 0.13 or later. Versions stay as long as they fit; the newest: make pins UPGRADE=--upgrade
RUN   := figures service
TEST  := $(RUN) dev learning
BENCH := $(TEST) bench
MUTANTS := $(TEST) mutants
pinned = uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate \
	$(1) $(2:%=--extra %) pyproject.toml requirements/build.in

pins:
	$(call pinned,$(UPGRADE) -o requirements/bench.txt,$(BENCH))
	$(call pinned,-c requirements/bench.txt -o requirements/test.txt,$(TEST))
	$(call pinned,-c requirements/bench.txt -o requirements/run.txt,$(RUN))
	$(call pinned,-c requirements/test.txt -o requirements/mutants.txt,$(MUTANTS))

# Two commands for a newcomer: `make demo` and `make test`. Both set up .venv first, from the package registry alone.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready

.PHONY: demo test test-all check format bench clean

demo: $(READY)
	$(BIN)/zoo demo

test: $(READY)
	$(BIN)/pytest -q --numprocesses 2 --dist loadfile

test-all: $(READY)
	$(BIN)/pytest -q --numprocesses 2 --dist loadfile -m "slow or not slow"

check: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# Each benchmark is a script that prints ratios against a peer in the same run; use otherwise idle cores.
bench: $(READY)
	@for script in tests/benchmarks/*.py; do echo "== $$script"; $(BIN)/python $$script || exit 1; done

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[dev,ray]"
	touch $@

clean:
	rm -rf .venv .pytest_cache .mypy_cache .ruff_cache

# Two commands for a newcomer: `make demo` and `make test`. Both set up .venv first, from the package registry alone.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
TSC := .venv/node/node_modules/.bin/tsc
SEED ?= $(shell date +%s)

.PHONY: demo test test-all fuzz campaign study check format wheel-test bench clean

demo: $(READY)
	$(BIN)/zoo demo

test: $(READY)
	$(BIN)/pytest -q --numprocesses 2 --dist loadfile

test-all: $(READY)
	$(BIN)/pytest -q --numprocesses 2 --dist loadfile -m "slow or not slow"

# The properties alone, on fresh examples and many more of them; `make fuzz SEED=...` repeats a run. What it finds becomes
# an @example of the property. TESTS narrows it: `make fuzz TESTS=tests/zoo/cards/test_card.py`.
fuzz: $(READY)
	@echo "make fuzz SEED=$(SEED) TESTS=$(TESTS)"
	HYPOTHESIS_PROFILE=fuzz $(BIN)/pytest -q --numprocesses 2 -m hypothesis --hypothesis-seed=$(SEED) $(TESTS)

# Kills at every file-system event, fuzzed and malicious files, many writers, a full disk. A run that was stopped goes on where
# it left off; CAMPAIGN="--kills 100 --files 1000 --seed 2" makes another one.
campaign: $(READY)
	$(BIN)/python -W ignore tests/campaign $(CAMPAIGN)

check: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	@if ! command -v npm > /dev/null; then echo "no npm here: the types of the report's scripts were not checked"; \
	elif [ ! -x $(TSC) ] && ! npm install --silent --no-save --prefix .venv/node typescript@5.9.3; then \
		echo "typescript cannot be installed: the types of the report's scripts were not checked"; \
	else $(TSC) --project zoo/app/report/scripts/jsconfig.json; fi

format: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# The wheel in an environment of its own; the packages it needs are those of .venv, or installed anew if FRESH=1.
wheel-test: $(READY)
	PYTHON=$(BIN)/python .ci/wheel-test $(if $(FRESH),,$(BIN)/python)

# The CIFAR-10 zoo and study again from nothing: hours on two cores; stopped at any moment, it goes on. What is shipped already
# is left alone: `git rm` its weights to train it again.
PLAN := model_cards/cifar10.plan.yaml
OBJECTIVES := softmax label-smoothing dropout extra-l2 logit-penalty logit-norm cosine sigmoid squared-error
study: $(READY)
	$(BIN)/zoo train --plan $(PLAN) --jobs 2
	$(BIN)/zoo head efficientnet-lite0 efficientnet-lite1 efficientnet-lite2 --data cifar10 --side 128
	for set in cifar10-half cifar10-grey fashion-mnist; do \
		$(BIN)/zoo head resnet7-softmax.$$set --data cifar10 --as resnet7-$$set-linear.cifar10 || exit 1; done
	for objective in $(filter-out softmax,$(OBJECTIVES)); do $(BIN)/zoo head resnet7-$$objective.cifar10-half --data cifar10 \
		--as resnet7-$$objective-half-linear.cifar10 || exit 1; done
	$(BIN)/zoo ship '*.cifar10' '*.cifar10-half' '*.cifar10-grey' '*.fashion-mnist' --into model_cards
	$(BIN)/zoo export 'resnet*.cifar10' 'r7[-x][!n]*.cifar10' '*-mini-*.cifar10' 'wrn-10-2-*.cifar10' all-cnn-c-short.cifar10 \
		'*-linear.cifar10' $(OBJECTIVES:%=--embeddings resnet7-%.cifar10) \
		--data cifar10:test -o model_cards/cifar10.outputs.safetensors  # all but r7-nine, an ensemble of them

# Each benchmark is a script that prints ratios against a peer in the same run; use otherwise idle cores.
bench: $(READY)
	@for script in tests/benchmarks/*.py; do echo "== $$script"; $(BIN)/python $$script || exit 1; done

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[dev,ray]"
	touch $@

clean:
	rm -rf .venv .pytest_cache .mypy_cache .ruff_cache .hypothesis

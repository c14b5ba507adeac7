# The only command surface: `make demo`, `make test`, `make lint`. Each installs what it needs first.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed

.DEFAULT_GOAL := help
.PHONY: help install demo emulator test chaos bench lint format docs docs-site screenshots lock clean

help: ## Show this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

install: $(STAMP) ## Make the environment from requirements.lock

# One stamp: rebuilt when the lock or the project file changes, shared by every target.
$(STAMP): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "prefect-vertex needs Python 3.11 or newer; set PYTHON=/path/to/python3.11"; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) \
	  || { rm -rf $(VENV); echo "Python has no venv here; mend it with: sudo apt-get install python3-venv"; exit 1; }
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check uv
	@VIRTUAL_ENV=$(abspath $(VENV)) $(BIN)/uv pip sync --quiet --require-hashes requirements.lock
	@VIRTUAL_ENV=$(abspath $(VENV)) $(BIN)/uv pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $(STAMP)

demo: $(STAMP) ## The main job on real input: server, emulator, worker, forecast (KEEP=1, SERIES=all, REPLICAS=3)
	@$(BIN)/prefect-vertex demo $(if $(SERIES),--series $(SERIES)) $(if $(REPLICAS),--replicas $(REPLICAS)) $(if $(KEEP),--keep)

emulator: $(STAMP) ## The Vertex AI emulator and Cloud Storage, until Ctrl-C
	@$(BIN)/prefect-vertex emulator start

test: $(STAMP) ## All tests, with the short form of the chaos suite
	$(BIN)/python -m pytest $(ARGS)

chaos: $(STAMP) ## The long chaos suite, with its figures
	CHAOS_LONG=1 $(BIN)/python -m pytest tests/chaos -q -s $(ARGS)

bench: $(STAMP) ## The benchmarks beside prefect-gcp's worker (ARGS="--quick")
	$(BIN)/python -m benchmarks $(ARGS)

lint: $(STAMP) ## Style, types, layers, spelling
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	$(BIN)/codespell
	$(BIN)/validate-pyproject pyproject.toml

format: $(STAMP) ## Write the format and the safe fixes
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(STAMP) ## Write the reference pages from the code
	$(BIN)/python docs/render.py

docs-site: $(STAMP) ## Build the documentation into site/, strictly and offline
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

screenshots: $(STAMP) ## Take the pictures of docs/images anew, from Prefect's own UI (needs Chromium)
	SCREENSHOTS=docs/images $(BIN)/python -m pytest tests/browser -q $(ARGS)

lock: $(STAMP) ## Resolve requirements.lock anew: names, versions, hashes, no addresses
	$(BIN)/uv pip compile --universal --generate-hashes --python-version 3.11 --extra demo --extra emulator --extra quota \
	  --group test --group lint --group docs --group build --no-header --no-annotate --no-emit-index-url \
	  --upgrade --output-file requirements.lock pyproject.toml

clean: ## Remove what make made
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache dist site

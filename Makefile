# Everything here runs on a machine that has Python >= 3.11, pip and make, and nothing else. A target
# first makes .venv with the pinned packages that it needs; a stamp in there says that it is done.

PYTHON ?= python3
JOBS ?= auto
ARGS ?=

VENV := .venv
PY := $(VENV)/bin/python
PIP := $(PY) -m pip --disable-pip-version-check --quiet install --no-deps

.DELETE_ON_ERROR:
.PHONY: help demo test test-network check lint types layers pins docs experiments bench clean

help: ## list these commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-12s %s\n", $$1, $$2 }' Makefile

demo: $(VENV)/.runs ## train on a simulated wireless edge and write runs/demo/report.html
	$(VENV)/bin/scfl demo --out runs/demo

test: $(VENV)/.develops ## run the tests, on every core (make test JOBS=1 ARGS='-k coding')
	$(PY) -m pytest -n $(JOBS) $(ARGS)

# The limit is for a machine that hangs: it takes about four minutes, mostly Flower's own waits, so
# the federation and the hosts with links run side by side.
test-network: $(VENV)/.networks ## run the tests against a real Flower federation on this machine
	SCFL_TEST_NETWORK=1 timeout --signal=INT --kill-after=60 900 $(PY) -m pytest tests/network \
	  -n 2 --dist loadfile $(ARGS)

check: lint types layers pins ## check style, types, layers and pins

lint: $(VENV)/.develops
	$(PY) -m ruff check
	$(PY) -m ruff format --check

types: $(VENV)/.develops
	$(PY) -m mypy

layers: $(VENV)/.develops
	$(VENV)/bin/lint-imports

pins: $(VENV)/.develops
	$(PY) -m pip check

docs: $(VENV)/.develops ## run every example of the documentation
	$(if $(wildcard tests/test_docs.py),$(PY) -m pytest tests/test_docs.py,@echo "no examples yet")

# A data set that this machine cannot get leaves out its two experiments, by name.
experiments: $(VENV)/.runs ## run the paper's experiments in small and compare with what is expected
	@rm -rf runs/quick; failed=; for data in digits mnist fashion-mnist cifar; do \
	  set=$$([ $$data = cifar ] && echo cifar-10-vgg16-small || echo $$data); \
	  [ $$data = digits ] || $(VENV)/bin/scfl data get $$set || { \
	    echo "left out: figure-1-$$data and figure-2-$$data, because $$set is not to be had here"; \
	    continue; }; \
	  for name in figure-1-$$data figure-2-$$data $$([ $$data = digits ] && echo privacy-digits); do \
	    $(VENV)/bin/scfl figure $$name --quick --jobs 2 --out runs/quick/$$name || failed="$$failed $$name"; \
	  done; \
	done; [ -z "$$failed" ] || { echo "not as expected:$$failed"; exit 1; }

bench: $(VENV)/.develops ## measure the gradient kernel on this machine
	$(PY) -m benchmarks.kernel

clean: ## remove whatever make and the tools left, and the demo's results
	rm -rf $(VENV) runs/demo runs/quick .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -prune -exec rm -rf {} +

# The pins name every package to the last, so pip has nothing to resolve (--no-deps).
$(VENV)/.runs: pyproject.toml requirements/runtime.txt requirements/build.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo >&2 \
	  "scfl needs Python 3.11 or newer, which $(PYTHON) is not; name one: make PYTHON=python3.12"; exit 1; }
	@echo "Installing scfl and what it runs on into $(VENV), once: this takes about half a minute."
	@# A half-made environment is made anew. Debian's Python without python3-venv makes one with no pip.
	@$(PY) -m pip show --quiet pip 2>/dev/null || $(PYTHON) -m venv --clear $(VENV) >/dev/null 2>&1 || { \
	  $(PYTHON) -m venv --clear --without-pip $(VENV) && \
	  $(PYTHON) -m pip install --quiet --target $(VENV)/lib/python3.*/site-packages pip; }
	@$(PIP) -r requirements/runtime.txt -r requirements/build.txt
	@$(PIP) --no-build-isolation --editable .
	@touch $@

$(VENV)/.develops: $(VENV)/.runs requirements/dev.txt
	@echo "Installing what tests and checks scfl, once."
	@$(PIP) -r requirements/dev.txt
	@touch $@

$(VENV)/.networks: $(VENV)/.develops requirements/flower.txt
	@echo "Installing Flower, once."
	@$(PIP) -r requirements/flower.txt
	@touch $@

# Everything needs only Python 3.11+ and make; targets create .venv themselves.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
DEMO := $(shell mktemp -u -d 2>/dev/null || echo /tmp/warmstart-demo)
WORKERS ?= 2
CLAUDE ?= 2.1.327 2.1.197
HOST ?= all
PYTEST = $(BIN)/python -m pytest $(TEST_OPTIONS)
SPREAD := -n $(WORKERS) --dist worksteal
# What the first line of the tests says when they run for the first time.
TAKES = $(if $(ARGS),,$(1))

.DEFAULT_GOAL := help
.PHONY: help demo smoke test test-slow test-host test-hosts test-hosts-newest hook-changes test-browser check format bench docs clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade --constraint constraints.txt pip
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --group dev --editable .
	@touch $@

demo: $(READY) ## Import the sample sessions, show how they went, and start a new one warm
	@WARMSTART_HOME=$(DEMO) PATH="$(CURDIR)/$(BIN):$$PATH" sh demo.sh

smoke: export TESTS_TAKE = $(call TAKES,ten seconds)
smoke: $(READY) ## See in ten seconds whether the essential works
	@$(PYTEST) tests/test_smoke.py $(ARGS)

# Without byte code, each worker would compile all tests again.
test test-slow: export PYTHONDONTWRITEBYTECODE :=

test: export TESTS_TAKE = $(call TAKES,about 4 minutes on two cores)
test: $(READY) ## Run the tests
	@$(PYTEST) $(SPREAD) -m "not slow and not hosts and not browser" $(ARGS)

test-slow: export TESTS_TAKE = $(call TAKES,about 15 minutes on two cores)
test-slow: $(READY) ## Run the long tests: crashes at random points, many processes, 1,000 examples of what is generated
	@$(PYTEST) $(SPREAD) -m "(slow or hypothesis) and not hosts and not browser" --hypothesis-profile thorough $(ARGS)

# A real agent may fail for reasons of its own, so a failed test runs once more, alone.
test-hosts: export TESTS_TAKE = $(call TAKES,about 13 minutes on two cores)
test-hosts: $(READY) ## Run the tests with real agents (installs them into .hosts)
	@sh tests/hosts/install.sh "$(PYTHON)" "$(CURDIR)/.hosts" "$(HOST)" $(CLAUDE)
	@WARMSTART_TEST_HOSTS="$(CURDIR)/.hosts" WARMSTART_TEST_CLAUDE="$(CLAUDE)" \
		$(BIN)/python -m pytest -p tests.second_try $(SPREAD) -m hosts $(ARGS)

# The mark `skipif`, which all these tests have, matches `pi` too.
test-host: ## Run the tests with one real agent: make test-host HOST=codex
	@$(MAKE) --no-print-directory test-hosts HOST=$(HOST) ARGS='$(if $(filter all,$(HOST)),,-k "$(patsubst pi,[pi],$(HOST))") $(ARGS)'

test-hosts-newest: ## Run the tests with the newest Claude Code
	@$(MAKE) --no-print-directory test-hosts CLAUDE=latest

hook-changes: $(READY) ## Show what changed in the hooks of real agents since tests/hosts/hooks.txt was written
	@sh tests/hosts/install.sh "$(PYTHON)" "$(CURDIR)/.hosts" "$(HOST)" $(CLAUDE)
	@$(BIN)/python -m tests.hosts.hook_changes "$(CURDIR)/.hosts" $(ARGS)

test-browser: export TESTS_TAKE = $(call TAKES,about a minute)
test-browser: $(READY) ## Run the tests that open pages in a real browser (installs Chromium if it is missing)
	@sh tests/browser/install.sh "$(CURDIR)/$(VENV)"
	@WARMSTART_TEST_BROWSER=1 $(BIN)/python -m pytest $(TEST_OPTIONS) -m browser $(ARGS)

check: $(READY) ## Format, lint, types, tests
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	@$(MAKE) --no-print-directory test

format: $(READY) ## Format the code and fix what lint can fix
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(READY) ## Run the benchmarks, each against a baseline in the same run
	$(BIN)/python bench/startup.py
	$(BIN)/python bench/sync.py
	$(BIN)/python bench/postgres.py
	$(BIN)/python bench/redact.py
	$(BIN)/python bench/profiling.py
	$(BIN)/python bench/recall.py
	$(BIN)/python bench/handoff.py
	$(BIN)/python bench/memory.py
	$(BIN)/python bench/templates.py
	$(BIN)/python bench/examples.py
	$(BIN)/python bench/foresight.py
	$(BIN)/python bench/turns.py
	$(BIN)/python bench/preflight.py

docs: $(READY) ## Write the commands' help into docs/
	$(BIN)/python docs/generate.py

clean: ## Remove everything that make created
	rm -rf $(VENV) .hosts .pytest_cache .mypy_cache .ruff_cache .hypothesis

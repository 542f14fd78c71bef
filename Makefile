# make demo     crawl, index and search the bundled web (URL=https://… a site of yours, PAGES=N, SERVE=0); needs no root
# make test     lint, types, layers and tests
# make floors   whether a speed ratio to Scrapy fell, in half a minute to four
# make prove    the slow proofs, then the benchmarks
# make bench    the benchmarks alone (needs nginx and wget)
# make lint     lint, types and layers alone
# LOCKED=1      with any of these: the exact packages of requirements/*.lock, by their hashes, not the newest that fit
# make clean    remove what these commands made, not your workspaces

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DELETE_ON_ERROR:
.NOTPARALLEL:
.PHONY: demo test lint floors prove bench system clean

PYTHON ?= python3
BIN := .venv/bin
STAMPS := .venv/.stamps
# Bytecode is kept, whatever the machine says: tests start Lycosa some hundred times, and compiling it anew takes a second each time.
unexport PYTHONDONTWRITEBYTECODE
# pip is told nothing about indexes: it reads the machine's own configuration.
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet
# With LOCKED=1 nothing is installed that no hash stands for (scripts/lock renews them): not even what builds Lycosa itself.
install = $(if $(LOCKED),$(PIP) --require-hashes -r requirements/$1.lock && $(PIP) --no-deps --no-build-isolation -e .,$(PIP) $2)

demo: $(STAMPS)/run
	@$(BIN)/lycosa demo $(if $(URL),--url '$(URL)') $(if $(PAGES),--pages '$(PAGES)') $(if $(filter 0 no false,$(SERVE)),--no-serve)

test: $(STAMPS)/dev system lint
	$(BIN)/pytest -n 3 --dist loadfile

lint: $(STAMPS)/dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

floors: $(STAMPS)/floors system
	$(BIN)/python -m bench.floors $(FLOORS)

prove: $(STAMPS)/bench system
	$(BIN)/pytest -m prove
	$(MAKE) --no-print-directory bench

bench: $(STAMPS)/bench system
	scripts/bench $(BIN)/python

system:
	@scripts/install-system

# Each set of packages is installed again only when pyproject.toml changed; the sets contain one another.
$(STAMPS)/run: pyproject.toml
	@scripts/make-venv '$(PYTHON)' .venv
	$(call install,run,-e .)
	@mkdir -p $(STAMPS) && touch $@

$(STAMPS)/dev: pyproject.toml
	@scripts/make-venv '$(PYTHON)' .venv
	$(call install,dev,-e '.[dev]')
	@mkdir -p $(STAMPS) && touch $(STAMPS)/run $@

$(STAMPS)/floors: pyproject.toml
	@scripts/make-venv '$(PYTHON)' .venv
	$(PIP) -e '.[dev,floors]'
	@mkdir -p $(STAMPS) && touch $(STAMPS)/run $(STAMPS)/dev $@

$(STAMPS)/bench: pyproject.toml
	@scripts/make-venv '$(PYTHON)' .venv
	$(call install,bench,-e '.[dev,bench]')
	@mkdir -p $(STAMPS) && touch $(STAMPS)/run $(STAMPS)/dev $(STAMPS)/floors $@

clean:
	rm -rf .venv demo-data build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find src tests bench -name __pycache__ -type d -prune -exec rm -rf {} +

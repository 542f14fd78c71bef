# make demo     crawl, index and search the bundled web (URL=https://… PAGES=N: a site; SERVE=0)
# make test     run lint, type checks, layer checks and tests
# make floors   compare speed ratios to Scrapy with their lower limits (0.5 to 4 minutes)
# make prove    run the slow tests, then the benchmarks
# make bench    run the benchmarks (needs nginx and wget)
# make lint     run lint, type checks and layer checks
# make release  build dist/ with checksums and a bill of materials, install it elsewhere, run the demo
# make docs     build the documentation into site/, readable without a network
# make clean    delete everything that these commands created, except workspaces
# LOCKED=1      with each of these: install exactly the packages of requirements/*.lock, by hash

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DELETE_ON_ERROR:
.NOTPARALLEL:
.PHONY: demo test lint floors prove bench system release docs clean

PYTHON ?= python3
BIN := .venv/bin
STAMPS := .venv/.stamps
# Keep bytecode: tests start Lycosa hundreds of times, and compiling it takes 1 s each time.
unexport PYTHONDONTWRITEBYTECODE
# uv installs where it is available (UV= turns it off), pip otherwise. Both read the same locks.
UV ?= $(shell command -v uv)
PIP = $(if $(UV),$(UV) pip install --quiet --python $(BIN)/python,$(BIN)/python -m pip --disable-pip-version-check install --quiet --no-compile)
# LOCKED=1 installs only packages with a known hash, the build packages included. scripts/lock renews
# the hashes.
install = $(if $(LOCKED),$(PIP) --require-hashes -r requirements/$1.lock && $(PIP) --no-deps --no-build-isolation -e .,$(PIP) $2)

demo: $(STAMPS)/run
	@$(BIN)/lycosa demo $(if $(URL),--url '$(URL)') $(if $(PAGES),--pages '$(PAGES)') $(if $(filter 0 no false,$(SERVE)),--no-serve)

test: $(STAMPS)/dev system lint
	$(BIN)/pytest -n 3 --dist loadfile --no-loadscope-reorder -m 'not prove and not floors' --durations 20

lint: $(STAMPS)/dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

docs: $(STAMPS)/dev
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

floors: $(STAMPS)/floors system
	$(BIN)/python -m bench.floors $(FLOORS)

prove: $(STAMPS)/bench system
	$(BIN)/pytest -m prove
	$(MAKE) --no-print-directory bench

bench: $(STAMPS)/bench system
	scripts/bench $(BIN)/python

release:
	scripts/release '$(PYTHON)'

system:
	@scripts/install-system

comma := ,
# Install a set of packages again only when pyproject.toml changed. Each set contains the previous.
$(STAMPS)/run: pyproject.toml
	@scripts/make-venv '$(PYTHON)' .venv '$(UV)'
	$(call install,run,-e .)
	@mkdir -p $(STAMPS) && touch $@

$(STAMPS)/dev: pyproject.toml
	@scripts/make-venv '$(PYTHON)' .venv '$(UV)'
	$(call install,dev,-e '.[dev]')
	@mkdir -p $(STAMPS) && touch $(STAMPS)/run $@

$(STAMPS)/floors: pyproject.toml
	@scripts/make-venv '$(PYTHON)' .venv '$(UV)'
	$(PIP) -e '.[dev,floors]'
	@mkdir -p $(STAMPS) && touch $(STAMPS)/run $(STAMPS)/dev $@

$(STAMPS)/bench: pyproject.toml
	@scripts/make-venv '$(PYTHON)' .venv '$(UV)'
	$(call install,bench,-e '.[dev$(comma)bench]')
	@mkdir -p $(STAMPS) && touch $(STAMPS)/run $(STAMPS)/dev $(STAMPS)/floors $@

clean:
	rm -rf .venv demo-data build dist site .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find src tests bench -name __pycache__ -type d -prune -exec rm -rf {} +

# Every target sets up what it needs: a Python 3.11 and a package registry are enough. `make help` lists them.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# One more than there are cores: a story waits for its sandbox half of the time.
JOBS ?= 3
# More arguments for pytest, as in: make test TESTS="tests/rbac -k policy"
TESTS ?=
# A whole story (worker, sandbox, browser) per process: stealing work evens out the long ones.
PYTEST := $(BIN)/python -m pytest -n $(JOBS) --dist worksteal --durations 10
# Other schedules than on SQLite, and fewer.
ON_POSTGRES := SLIPWAY_SIMULATOR_SEED=50000 SLIPWAY_SIMULATOR_SCHEDULES=3 $(BIN)/python -m tests.postgres

# Hundreds of processes start from the same sources: each would compile them for itself, whatever the shell says.
export PYTHONDONTWRITEBYTECODE :=
.DEFAULT_GOAL := help

.PHONY: help
help: ## Show this list
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  make %-18s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: run
run: $(VENV)/run.stamp ## Start Slipway with a pretend AWS account and a demo; Ctrl-C ends it
	@exec $(BIN)/python -m ops --ends-with-parent

.PHONY: test
test: $(VENV)/dev.stamp chromium ## Run the tests of the gate on SQLite: ten minutes on two cores
	@$(PYTEST) --lane gate $(TESTS)

.PHONY: test-all
test-all: $(VENV)/dev.stamp chromium ## Run every test on SQLite, those with a database on PostgreSQL, then fuzz the API
	@$(PYTEST) --timeout 900 --lane all $(TESTS)
	@$(ON_POSTGRES) $(PYTEST) --timeout 900 --lane database $(TESTS)
	@$(if $(TESTS),,$(BIN)/python -m tests.fuzz)

.PHONY: test-postgres
test-postgres: $(VENV)/dev.stamp ## Run those that depend on the database on a PostgreSQL that this starts
	@$(ON_POSTGRES) $(PYTEST) --lane postgres $(TESTS)

.PHONY: check
check: $(VENV)/dev.stamp chromium ## Everything that must hold before a change lands: lint, types, wiring beside the tests
	@$(BIN)/python -m tests.checks

.PHONY: lint
lint: $(VENV)/dev.stamp ## Format, style and layers
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/djade --check --target-version 5.2 $$(find templates -name '*.html')
	$(BIN)/lint-imports --no-logo

.PHONY: types
types: $(VENV)/dev.stamp ## Types
	$(BIN)/mypy

.PHONY: wiring
wiring: $(VENV)/dev.stamp # Migrations that match the models, settings that are safe in production
	@$(BIN)/python -m tests.wiring

.PHONY: format
format: $(VENV)/dev.stamp ## Rewrite the code in the project's format
	$(BIN)/ruff check --fix-only --quiet .
	$(BIN)/ruff format .

.PHONY: migrate
migrate: $(VENV)/run.stamp ## Bring the database up to date
	$(BIN)/python manage.py migrate

.PHONY: delegate-wheel
delegate-wheel: $(BIN)/python ## Build the wheel of the delegate's program into dist/
	@$(BIN)/python deploy/delegate/build_wheel.py dist

.PHONY: freeze-migrations
freeze-migrations: $(VENV)/dev.stamp ## Freeze new migrations; those that landed are never changed
	@$(BIN)/python -m tests.ops.frozen_migrations

.PHONY: bench
bench: $(VENV)/dev.stamp ## Measure, and print ratios; BENCH_FIGURES=FILE continues a run that was cut
	@$(BIN)/python -m benchmarks

.PHONY: bench-agents
bench-agents: $(VENV)/dev.stamp ## Measure agents on one web server; AGENTS_SOCKETS=100 for fewer
	@$(BIN)/python -m benchmarks agents

.PHONY: bench-clients
bench-clients: $(VENV)/dev.stamp ## Measure rollouts beside other clients; ROUNDS=6 for more of them
	@$(BIN)/python -m benchmarks clients

.PHONY: bench-events
bench-events: $(VENV)/dev.stamp ## Measure rollouts with and without events of AWS; EVENTS_ROLLOUTS=8 for fewer
	@$(BIN)/python -m benchmarks events

.PHONY: bench-fleet
bench-fleet: $(VENV)/dev.stamp ## Measure 10,000 agents on two web servers; FLEET_SOCKETS=800 FLEET_POLLING=200 for fewer
	@$(BIN)/python -m benchmarks fleet

.PHONY: bench-in-flight
bench-in-flight: $(VENV)/dev.stamp ## Measure many rollouts at once; IN_FLIGHT=50 PARKED=500 for fewer
	@$(BIN)/python -m benchmarks in_flight

.PHONY: bench-logs
bench-logs: $(VENV)/dev.stamp ## Measure the log, from a container's output to a hundred sockets
	@$(BIN)/python -m benchmarks logs

.PHONY: capacity
capacity: $(VENV)/dev.stamp ## Compute what an installation needs; DELEGATES=5000 DEPLOYMENTS=100 for a size of yours
	@$(BIN)/python -m benchmarks.capacity

.PHONY: bench-batches
bench-batches: $(VENV)/dev.stamp ## Measure 200 deployments that start at once; STARTS=40 for fewer
	@$(BIN)/python -m benchmarks batches

.PHONY: bench-outage
bench-outage: $(VENV)/dev.stamp ## Measure a minute without PostgreSQL: lost lines, and the time to catch up
	@$(BIN)/python -m benchmarks outage

.PHONY: bench-pages
bench-pages: $(VENV)/dev.stamp ## Measure pages with 100,000 executions; BENCH_DATABASE=postgres for one only
	@$(BIN)/python -m benchmarks pages

.PHONY: bench-parsers
bench-parsers: $(VENV)/dev.stamp ## Fuzz five parsers with 5,000,000 inputs each; PARSER_INPUTS=100000 for fewer
	@$(BIN)/python -m benchmarks parsers

.PHONY: bench-routing
bench-routing: $(VENV)/dev.stamp ## Measure routing among 10,000 delegates; ROUTING_DELEGATES=2000 for fewer
	@$(BIN)/python -m benchmarks routing

.PHONY: bench-scale
bench-scale: $(VENV)/dev.stamp ## Measure one and two web servers and workers on PostgreSQL and Valkey
	@$(BIN)/python -m benchmarks scale

.PHONY: soak
soak: $(VENV)/dev.stamp ## Deploy for four hours while faults are injected, and check the history; SOAK_MINUTES=5 for less
	@$(BIN)/python -m benchmarks.soak

.PHONY: test-soak
test-soak: $(VENV)/dev.stamp ## Run the tests that are too long for every day
	@SLIPWAY_SOAK=1 $(PYTEST) --timeout 3600 -m soak $(TESTS)

.PHONY: fuzz
fuzz: $(VENV)/dev.stamp ## Ask a Slipway of its own what its description allows, as three roles; FUZZ_CASES=40 for more
	@$(BIN)/python -m tests.fuzz

.PHONY: docs
docs: $(VENV)/dev.stamp ## Build the documentation, which Slipway then serves under /docs/
	@$(BIN)/python manage.py build_docs

.PHONY: screenshot
screenshot: $(VENV)/dev.stamp chromium ## Make docs/screenshot.png again
	@$(BIN)/python docs/screenshots.py

.PHONY: screenshots
screenshots: $(VENV)/dev.stamp chromium ## Take the main pages, light, dark and narrow, into test-results/screenshots
	@$(BIN)/python docs/screenshots.py --pages

VERSION = $(shell sed -n 's/^version = "\(.*\)"/\1/p' pyproject.toml)
PLATFORMS ?= linux/amd64,linux/arm64

.PHONY: image
image: ## Build the images slipway and slipway-delegate for this machine
	docker build --target slipway --build-arg VERSION=$(VERSION) -t slipway:$(VERSION) .
	docker build --target delegate --build-arg VERSION=$(VERSION) -t slipway-delegate:$(VERSION) .

.PHONY: push
push: ## Build both images for amd64 and arm64, push them to REGISTRY, print their digests
	@deploy/images/push.sh "$(REGISTRY)" "$(VERSION)" "$(PLATFORMS)"

.PHONY: release
release: $(VENV)/dev.stamp ## Check that this commit can be released, and tag it with its version
	@$(BIN)/python -m ops.release

# Browser tests need one. Root on Debian gets it here; everybody else is told how at the end of the run.
.PHONY: chromium
chromium:
	@if [ "$$(id -u)" = 0 ] && ! command -v chromium >/dev/null && command -v apt-get >/dev/null; then \
	  echo "Installing Chromium for the browser tests"; \
	  { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq chromium; } >/dev/null \
	    || echo "Chromium could not be installed; browser tests will be skipped"; \
	fi

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "Slipway needs Python 3.11 or newer and '$(PYTHON)' is not. Name another one: make PYTHON=python3.12 run"; exit 1; }
	@$(PYTHON) -m venv $(VENV) || { \
	  echo "No virtual environment could be made in $(VENV). On Debian: apt-get install python3-venv"; exit 1; }

# The agent, as it is called in its image.
$(BIN)/slipway-delegate: ops/slipway-delegate | $(BIN)/python
	@ln -sf "$(CURDIR)/$<" $@

# The command line.
$(BIN)/slipway: ops/slipway | $(BIN)/python
	@ln -sf "$(CURDIR)/$<" $@

$(VENV)/run.stamp: requirements-standalone.lock | $(BIN)/python $(BIN)/slipway-delegate $(BIN)/slipway
	@echo "Installing what Slipway needs into $(VENV), once (a minute or two)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r requirements-standalone.lock
	@touch $@

# The development lock holds all of the other one.
$(VENV)/dev.stamp: requirements-dev.lock | $(BIN)/python $(BIN)/slipway-delegate $(BIN)/slipway
	@echo "Installing what Slipway and its tests need into $(VENV), once (a minute or two)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r requirements-dev.lock
	@touch $(VENV)/run.stamp $@

# Everything here sets itself up. A target that needs Python depends on `setup`, which is stamps:
# the second run finds them fresh and starts at once.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

VENV := .venv
BIN := $(VENV)/bin
STAMPS := $(VENV)/.stamps
PIP := $(BIN)/python -m pip --disable-pip-version-check --no-input
# What is checked is what exists: a room that a branch does not have yet is no error.
CODE := $(wildcard marshal tests model_tests proof tools benchmarks examples conftest.py)

.PHONY: help setup check test test-all spec model demo golden model-full triples mutants spec-mutants walks prove prove-full bench bench-reducer bench-validate bench-replay bench-client bench-ranges bench-watch bench-groups night simulate simulate-groups simulated-mutants reached chaos soak unsafe fuzz fuzz-replay conformance locks support docs docs-site audit sbom lock clean

help: ## Print this
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-18s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(STAMPS)/jars $(STAMPS)/broker $(STAMPS)/connector $(STAMPS)/spark $(STAMPS)/kernel ## The virtual environment, locked dependencies, Java, TLC, Kafka

$(STAMPS)/venv:
	@python="$$(tools/find_python.sh)"; echo "setup: $(VENV) on $$python"; "$$python" -m venv $(VENV)
	@mkdir -p $(STAMPS) && touch $@

# Two steps, so that nothing enters without a hash: first what builds wheels, then, with pip's
# own (unhashed) build environments switched off, the rest. Only PySpark is built from source.
$(STAMPS)/deps: requirements-build.lock requirements.lock | $(STAMPS)/venv
	@echo "setup: dependencies (PySpark is some 400 MB, the first time takes minutes)"
	@$(PIP) install --quiet --require-hashes --only-binary :all: -r requirements-build.lock
	@$(PIP) install --quiet --require-hashes --only-binary :all: --no-binary pyspark \
	  --no-build-isolation -r requirements.lock
	@touch $@

$(STAMPS)/package: pyproject.toml $(STAMPS)/deps
	@$(PIP) install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

$(STAMPS)/jars: $(STAMPS)/package $(addprefix marshal/kafka_marshal/,java/class_data.py modelcheck/tlc/jars.py)
	@$(BIN)/python -m tools.setup.tlc
	@touch $@

$(STAMPS)/broker: $(STAMPS)/package $(addprefix marshal/kafka_marshal/,java/class_data.py testing/broker.jars)
	@$(BIN)/python -m tools.setup.broker
	@touch $@

$(STAMPS)/connector: $(STAMPS)/package tests/replay/connector.jars
	@$(BIN)/python -m tests.replay.connector
	@touch $@

$(STAMPS)/spark: $(STAMPS)/package marshal/kafka_marshal/java/class_data.py
	@$(BIN)/python -m tools.setup.spark
	@touch $@

$(STAMPS)/kernel: $(STAMPS)/package $(wildcard marshal/kafka_marshal/kernel/*.py)
	@$(BIN)/python -m tools.setup.kernel
	@touch $@

check: setup ## Format, lint, types, import contracts, long sentences
	$(BIN)/ruff format --check $(CODE)
	$(BIN)/ruff check $(CODE)
	$(BIN)/mypy $(CODE)
	$(BIN)/lint-imports
	$(BIN)/python -m tools.prose

test: setup ## All tests: is the code right, and is it the specified protocol
	$(BIN)/python -m pytest -n 6

test-all: setup ## All tests, those of the night and all seeds, too
	$(BIN)/python -m pytest -n 6 --all $(ARGS)

model: setup ## The model tests alone: every transition that TLC exports, held against the reducer
	$(BIN)/python -m pytest --all model_tests

model-full: setup ## Every model's graph and every edge of an instance, by the Python machines; ARGS=--fresh
	$(BIN)/python -m model_tests.explorer $(ARGS)

spec: setup ## Run every model that changed, and compare with what it must give; ARGS=--update records it, --fresh runs all
	$(BIN)/python -m tools.runs.spec $(ARGS)

spec-mutants: setup ## Mistakes in the specification, and which model notices each; ARGS=--update records it
	$(BIN)/python -m tools.spec_mutants $(ARGS)

demo: setup ## Check two models, replay the bundled captures on Spark, show the findings
	$(BIN)/python -m tools.demo

golden: setup ## Rewrite the whiteboard stories in tests/golden; review them as a diff
	$(BIN)/python -m pytest tests/test_golden.py tests/core/groups/test_group_stories.py --update-golden $(ARGS)

triples: setup ## Rewrite tests/data/{triples,machines}.jsonl.gz and groups/steps.tsv.gz, samples of TLC's transitions
	$(BIN)/python -m model_tests.transitions.sample $(ARGS)
	$(BIN)/python -m model_tests.groups.edges $(ARGS)

mutants: setup ## Mutants of everything, and what kills each; fails if one survives unexplained
	$(BIN)/python -m model_tests.mutants $(ARGS)

walks: setup ## Random walks for ten minutes, with a seed that repeats them; ARGS="--walks 1000"
	$(BIN)/python -m model_tests.walks $(ARGS)

prove: setup ## The reducer for every record, the machine with any number of clients: a table of what is proved
	$(BIN)/python -m proof $(ARGS)

prove-full: setup ## The same by the second solver, and every mistake in it refuted
	$(BIN)/python -m proof --solver cvc5 $(ARGS)
	$(BIN)/python -m proof --mutants $(ARGS)
	$(BIN)/python -m proof --needed $(ARGS)

bench: setup ## Everything that must stay fast, beside its peers: a page, and what fell by more than 15 %; ARGS="client --quick", "--update"
	$(BIN)/python -m benchmarks.suite $(ARGS)

bench-reducer: setup ## Decode and step a million records in plain CPython
	$(BIN)/python -m benchmarks.bench_reducer $(ARGS)

bench-validate: setup ## Validate simulated runs of 10^4, 10^5 and 10^6 events
	$(BIN)/python -m benchmarks.bench_validate $(ARGS)

bench-replay: setup ## Replay 10 million records, beside Spark, polars and DuckDB
	$(BIN)/python -m benchmarks.bench_replay $(ARGS)

bench-client: setup ## The client beside confluent-kafka, consumer groups and transactions
	$(BIN)/python -m benchmarks.bench_client $(ARGS)

bench-ranges: setup ## Shared partitions beside share groups, a plain consumer and one process
	$(BIN)/python -m benchmarks.bench_ranges $(ARGS)

bench-watch: setup ## From append to finding at 10,000 records/s, on a real broker
	$(BIN)/python -m benchmarks.bench_watch $(ARGS)

bench-groups: setup ## Groups and their assignments beside Kafka's own; ARGS="start death", "assignment"
	$(BIN)/python -m benchmarks.groups.protocol $(ARGS)

night: setup ## Every long target, a line for each; ARGS="spec walks" for some of them
	$(BIN)/python -m tools.night $(ARGS)

simulate: setup ## The shipped consumers under faults, in simulated time; ARGS="--hours 10 --seed 1"
	$(BIN)/python -m tools.simulate $(ARGS)

simulate-groups: setup ## The same for controllers and members of groups; ARGS="--hours 2"
	$(BIN)/python -m tools.simulate --groups $(ARGS)

simulated-mutants: setup ## How many simulated runs find each mistake of the client; ARGS="--seconds 60 --only fetch"
	$(BIN)/python -m tools.simulate.mutants $(ARGS)

reached: setup ## What simulated runs reach: branches, actions, verdicts, pairs of faults; ARGS="--runs 600"
	$(BIN)/python -m tools.simulate.reached $(ARGS)

locks: setup ## What is found without one lock of the client; ARGS="--only fetcher", "--clean 100"
	$(BIN)/python -m tools.simulate.fine $(ARGS)

chaos: setup ## Consumers, also sharing by ranges, under random faults on real brokers, ten minutes; ARGS="--night", "--seed 1"
	$(BIN)/python -m tools.chaos $(ARGS)

unsafe: setup ## What each unsafe setting of Kafka loses, on real brokers; ARGS="--only acks"
	$(BIN)/python -m tools.chaos.unsafe $(ARGS)
soak: setup ## An hour without a fault: memory, handles, threads stay flat; ARGS="--seconds 600"
	$(BIN)/python -m tools.soak $(ARGS)

fuzz: setup ## Hostile input for every reader, by coverage; ARGS="--seconds 600 --target capture"
	$(BIN)/python -m tools.fuzz $(ARGS)

fuzz-replay: setup ## Ten million records, hostile ones among them, through a whole replay
	$(BIN)/python -m tools.fuzz.millions $(ARGS)

conformance: setup ## The Kafka in memory beside a real one, by scripts; ARGS="--seconds 600"
	$(BIN)/python -m tests.client.conformance $(ARGS)

support: setup ## The wheel under each Python here, with the oldest and the newest librdkafka
	$(BIN)/python -m tools.support $(ARGS)

docs: setup ## Write what is generated: links of docs/safety.md, tables of rooms, the replay's pages in docs/reference, docs/simulation.md and spec/README.md, docs/reference/rpc.md, docs/pictures
	$(BIN)/python -m tools.rooms
	$(BIN)/python -m tools.links
	$(BIN)/python -m tools.pictures
	$(BIN)/python -m tools.pages.models
	$(BIN)/python -m tests.client.conformance.page
	$(BIN)/python -m tools.pages.replay
	@mkdir -p build
	$(BIN)/python -m tools.pages.simulation > build/simulation.md
	mv build/simulation.md docs/simulation.md
	$(BIN)/python -m tools.pages.mutants > build/simulated-mutants.md
	mv build/simulated-mutants.md docs/reference/simulated-mutants.md
	$(BIN)/python -m tools.pages.rpc > build/rpc.md
	mv build/rpc.md docs/reference/rpc.md

# Its own environment, so that `make setup` does not grow; nothing of the package is imported.
build/site-venv/.stamp: requirements-site.lock
	@rm -rf build/site-venv; "$$(tools/find_python.sh)" -m venv build/site-venv
	@build/site-venv/bin/python -m pip --disable-pip-version-check --no-input install --quiet \
	  --require-hashes --only-binary :all: -r requirements-site.lock
	@touch $@

docs-site: build/site-venv/.stamp ## Build the site in build/docs-site/site, and look for dead links
	build/site-venv/bin/python tools/site.py --generator build/site-venv/bin/zensical

# Its own environment, too: what examines the dependencies is none of them.
build/audit-venv/.stamp: requirements-audit.lock
	@rm -rf build/audit-venv; "$$(tools/find_python.sh)" -m venv build/audit-venv
	@build/audit-venv/bin/python -m pip --disable-pip-version-check --no-input install --quiet \
	  --require-hashes --only-binary :all: -r requirements-audit.lock
	@touch $@

# Its own environment, too: an S3 for a test of the night, which starts it as a process.
build/s3-venv/.stamp: requirements-s3.lock
	@rm -rf build/s3-venv; "$$(tools/find_python.sh)" -m venv build/s3-venv
	@build/s3-venv/bin/python -m pip --disable-pip-version-check --no-input install --quiet \
	  --require-hashes --only-binary :all: -r requirements-s3.lock
	@touch $@

# Not part of `make check`, since it needs the network. It fails where it could not ask: --strict.
audit: build/audit-venv/.stamp ## Ask which locked dependency has a known vulnerability (needs the network)
	for lock in requirements.lock requirements-build.lock requirements-site.lock requirements-audit.lock \
	  requirements-s3.lock; do \
	  build/audit-venv/bin/pip-audit --strict --disable-pip --require-hashes --progress-spinner off -r $$lock; done

sbom: build/audit-venv/.stamp ## Write sbom.cdx.json, what requirements.lock is made of (CycloneDX)
	build/audit-venv/bin/python -m tools.sbom

lock: ## Resolve the dependencies anew into the lock files (needs uv)
	tools/lock.sh

clean: ## Remove what make made here (the cache of jars stays)
	rm -rf $(VENV) .hypothesis .mypy_cache .pytest_cache .ruff_cache .import_linter_cache build dist demo-out
	find . -name __pycache__ -type d -not -path './.git/*' -prune -exec rm -rf {} +

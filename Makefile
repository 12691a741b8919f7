# Everything a developer does here; `make` alone lists it.

SHELL := bash
# Every process of the tests would compile all modules again.
unexport PYTHONDONTWRITEBYTECODE
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.SUFFIXES:

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SETUP_DONE := $(VENV)/.setup-done
NODE_DONE := node_modules/.setup-done
# aiobotocore's botocore is older than ddbload's: what `make bench` and `make lab` compare with lives apart.
RIVALS := .venv-bench
RIVALS_DONE := $(RIVALS)/.setup-done
# checkov pins the versions of what it needs, botocore among them: it lives apart, too.
CHECKOV := .venv-checkov
CHECKOV_DONE := $(CHECKOV)/.setup-done
AUDIT := .venv-audit
AUDIT_DONE := $(AUDIT)/.setup-done
# A tenth of pip's CPU time.
INSTALL := UV_SYSTEM_CERTS=true UV_HTTP_TIMEOUT=180 $(BIN)/uv pip install --quiet
RARELY_IMPORTED := /(docker|graphql|mpmath|mypyc?|networkx|pip|pyarrow|pygments|setuptools|sympy)/|/aws_cdk/aws_

# Cases of each property in `make property`.
CASES ?= 1000
# Seeds of `make simulate`.
SEEDS ?= 10000
# Moments at which `make trials` kills an import, and a deployed function.
KILL_POINTS ?= 1000
KILL_FUNCTIONS ?= 100
# More words for pytest: make test ARGS="-k splitter -x"
ARGS ?=
# Processes that tests run in: one more than cores, since tests of a deployed stack wait half of
# their time.
CORES := $(shell getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2)
JOBS ?= $(shell echo $$(($(CORES) + 1)))

# Rounds of `make bench`.
ROUNDS ?= 5
# What `make lab` and `make lab-page` run: all experiments, at small sizes.
EXPERIMENT ?=
SIZE ?=
LATENCY_MS ?=
SEED ?=

# The demo's two go to its recipe by environment, so that any character may stand in a file's name.
FILE ?=
TABLE_KEY ?=
export FILE TABLE_KEY

.PHONY: help
help: ## Show this list
	@echo "Usage: make TARGET"
	@awk -F ':.*## ' '/^##@ / { printf "\n%s\n", substr($$0, 5) } \
		/^[a-z_-]+:.*## / { printf "  %-14s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

##@ Set up

.PHONY: setup
setup: $(SETUP_DONE) ## Make .venv from locks/dev.txt and install ddbload into it, editable

# Without it `make test PYTHON=...` would run on the Python that .venv has.
.PHONY: python
python:
ifneq ($(origin PYTHON),file)
	@[ ! -x $(BIN)/python ] || ! command -v "$(PYTHON)" >/dev/null || \
		[ "$$($(BIN)/python -c 'import sys; print(sys.version)')" = \
			"$$("$(PYTHON)" -c 'import sys; print(sys.version)')" ] || \
		{ echo "make: .venv has $$($(BIN)/python --version), and PYTHON=$(PYTHON) is $$("$(PYTHON)" --version 2>&1): make clean first" >&2; exit 1; }
endif

$(SETUP_DONE): locks/dev.txt pyproject.toml | python
	@command -v "$(PYTHON)" >/dev/null || \
		{ echo "make: no $(PYTHON) here; ddbload needs Python 3.11 or newer (make setup PYTHON=...)" >&2; exit 1; }
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "make: $$("$(PYTHON)" --version 2>&1) is too old; ddbload needs Python 3.11 or newer (make setup PYTHON=...)" >&2; exit 1; }
	"$(PYTHON)" -m venv $(VENV)
	sed -n '/^uv==/,/^    # via/p' locks/dev.txt >$(VENV)/uv.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes --requirement $(VENV)/uv.txt
	$(INSTALL) --python $(BIN)/python --require-hashes --requirement locks/dev.txt
	# What every process of the tests imports, once and by all cores. The rest is compiled when imported.
	$(BIN)/python -m compileall -qq -j 0 -x '$(RARELY_IMPORTED)' $(VENV)/lib || true
	$(INSTALL) --python $(BIN)/python --no-deps --no-build-isolation --editable .
	@touch $@

.PHONY: node_modules
node_modules: $(NODE_DONE) ## Install what tests and demo run on Node

# Without install scripts: nothing here needs a compiled addon, and none may run code at installation.
$(NODE_DONE): package.json package-lock.json
	@command -v node >/dev/null && command -v npm >/dev/null || \
		{ echo "make: no node and npm here; tests and demo need Node.js 22 or newer" >&2; exit 1; }
	@node -e 'process.exit(parseInt(process.versions.node) < 20 ? 1 : 0)' || \
		{ echo "make: Node.js $$(node --version) is too old; tests and demo need 22 or newer" >&2; exit 1; }
	npm ci --ignore-scripts --no-audit --no-fund --no-update-notifier --loglevel=error
	@touch $@

.PHONY: checkov
checkov: $(CHECKOV_DONE) ## Install checkov, by which a test reads the template

# An environment of its own, from a list of packages with their hashes.
define install_apart
	$(BIN)/python -m venv --without-pip $(@D)
	$(INSTALL) --python $(@D)/bin/python --require-hashes --requirement $<
	@touch $@
endef

$(CHECKOV_DONE): locks/checkov.txt | $(SETUP_DONE)
	$(install_apart)

$(AUDIT_DONE): locks/audit.txt | $(SETUP_DONE)
	$(install_apart)

##@ Check

.PHONY: lint
lint: setup ## Check style, types and who imports whom
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

.PHONY: format
format: setup ## Put the code into shape
	$(BIN)/ruff check --fix-only .
	$(BIN)/ruff format .

UNIT := tests/unit
# Not with the test of what an import loads, either: measuring loads more.
COVERED := $(UNIT) --ignore=tests/unit/test_import_time.py tests/cli tests/property

.PHONY: test-unit
test-unit: setup ## Run the unit tests, which start no servers, in a minute
	$(BIN)/python -m pytest --numprocesses=$(JOBS) --dist=worksteal --quiet $(ARGS) $(UNIT)

# pytest alone would call a run good in which every test was skipped.
.PHONY: test
test: setup node_modules checkov ## Run every test (ARGS="-k word" for some)
	@set -o pipefail; $(BIN)/python -m pytest --numprocesses=$(JOBS) --dist=loadscope --no-loadscope-reorder \
		$(if $(MAKE_TERMOUT),--color=yes) $(ARGS) | tee $(VENV)/.pytest-output
	@grep --quiet --extended-regexp '[1-9][0-9]* passed' $(VENV)/.pytest-output || \
		{ echo "make: no test passed, so this run says nothing" >&2; exit 1; }

.PHONY: coverage
coverage: setup node_modules ## Measure which lines unit, command line and property tests run
	rm -f .coverage .coverage.*
	$(BIN)/python -m pytest --numprocesses=$(JOBS) --dist=loadscope --no-loadscope-reorder --quiet \
		--cov --cov-report=term-missing:skip-covered $(ARGS) $(COVERED)

.PHONY: property
property: setup ## Run the property tests, CASES=1000 each
	DDBLOAD_PROPERTY_CASES=$(CASES) $(BIN)/python -m pytest --timeout=0 $(ARGS) tests/property

.PHONY: simulate
simulate: setup ## Run bursts of 100,000 uploads, and the simulated table with SEEDS=10000 (ARGS="--first 5000")
	$(BIN)/python -m tests.sim.bursts
	$(BIN)/python -m tests.sim $(SEEDS) $(ARGS)

# Takes a quarter of an hour. Seconds of the processor count, so that other work makes a little difference.
.PHONY: simulate-scale
simulate-scale: setup ## Write docs/scale.md: loads of a terabyte and of a million objects, in virtual time
	$(BIN)/python -m tests.sim.scale >docs/scale.md.new
	mv docs/scale.md.new docs/scale.md

# KILL_SEED=2 makes other moments; they depend on the machine, too.
.PHONY: trials
trials: setup node_modules rivals ## Run what takes longer than CI: property, simulate, KILL_POINTS=1000 kills, a soak, other servers
	$(MAKE) --no-print-directory property
	$(MAKE) --no-print-directory simulate
	$(call if_here,java javac mvn,test-dynamodb-local)
	$(call if_here,go,test-versitygw)
	DDBLOAD_TRIALS=1 KILL_POINTS=$(KILL_POINTS) KILL_FUNCTIONS=$(KILL_FUNCTIONS) \
		$(BIN)/python -m pytest --numprocesses=$(JOBS) --timeout=0 $(ARGS) tests/trials
	@echo "trials passed: CASES=$(CASES), SEEDS=$(SEEDS), KILL_POINTS=$(KILL_POINTS), KILL_FUNCTIONS=$(KILL_FUNCTIONS)"

# Make a target, or print one line if a program that it needs is missing.
define if_here
	@for each in $(1); do command -v $$each >/dev/null || \
		{ echo "make: left out $(2): no $$each here" >&2; exit 0; }; done; \
		$(MAKE) --no-print-directory $(2)
endef

# Maven fetches 50 MB the first time; each jar has a hash. It is no part of `.ci/run`.
.PHONY: test-dynamodb-local
test-dynamodb-local: setup ## Run every write mode against DynamoDB Local; needs Java 17 and Maven
	@command -v java >/dev/null && command -v javac >/dev/null && command -v mvn >/dev/null || \
		{ echo "make: no java, javac and mvn here; DynamoDB Local needs Java 17 or newer, and Maven" >&2; exit 1; }
	DDBLOAD_DYNAMODB_LOCAL=1 $(BIN)/python -m pytest --quiet $(ARGS) tests/dynamodb_local tests/contract/test_statements.py tests/contract/test_row_writes.py

# Go builds it from modules with hashes, for some minutes the first time. It is no part of `.ci/run`.
.PHONY: test-versitygw
test-versitygw: setup node_modules ## Run reads, listings and the ledger against versitygw, an S3 server; needs Go 1.25
	@command -v go >/dev/null || { echo "make: no go here; versitygw needs Go 1.25 or newer" >&2; exit 1; }
	DDBLOAD_VERSITYGW=1 $(BIN)/python -m pytest --quiet $(ARGS) tests/versitygw tests/contract/test_s3_contract.py \
		tests/contract/test_source_contract.py tests/contract/test_store_contract.py

# Dollars that `make test-aws` may spend.
BUDGET ?= 2

# It asks first; with AWS_ENDPOINT_URL it runs against an emulation (docs/contributing/proof.md).
.PHONY: test-aws
test-aws: setup node_modules ## Prove ddbload on your AWS account for at most BUDGET=2 dollars, and remove everything
	@$(BIN)/python -m proof --budget $(BUDGET) $(ARGS)

.PHONY: test-aws-clean
test-aws-clean: setup ## Remove what a proof has left in your AWS account, by its tag
	@$(BIN)/python -m proof --clean $(ARGS)

# What the layers of functions have, which `-c extras=...` makes.
LAYERS := $(wildcard lambdas/extras-*.txt)

# Each program asks a database on the internet. pip-audit is strict: what cannot be looked up fails.
.PHONY: audit
audit: setup node_modules $(AUDIT_DONE) ## Look for known vulnerabilities in packages, and for risky code
	$(AUDIT)/bin/bandit --quiet --recursive --configfile pyproject.toml app.py ddbload infra lambdas localaws
	$(AUDIT)/bin/pip-audit --strict --disable-pip --require-hashes --requirement locks/dev.txt
	for list in lambdas/requirements.txt $(LAYERS); do \
		$(AUDIT)/bin/pip-audit --strict --disable-pip --require-hashes --requirement $$list || exit 1; \
	done
	npm audit

##@ Try

# A developer's environment has all that the demos need. Otherwise they get one of their own, without
# the tools of developers.
DEMO := .venv-demo
ifeq ($(wildcard $(SETUP_DONE)),)
DEMO_BIN := $(DEMO)/bin
DEMO_DONE := $(DEMO)/.demo-done
IMPORT_DEMO_DONE := $(DEMO)/.import-demo-done
else
DEMO_BIN := $(BIN)
DEMO_DONE := setup
IMPORT_DEMO_DONE := setup
endif

define install_demo
	@command -v "$(PYTHON)" >/dev/null || \
		{ echo "make: no $(PYTHON) here; ddbload needs Python 3.11 or newer (make $@ PYTHON=...)" >&2; exit 1; }
	@echo "make: installing into this folder: $(PARTS)"
	"$(PYTHON)" -m venv $(DEMO)
	$(DEMO)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes --no-compile --requirement $<
	@touch $@
endef

$(DEMO)/.import-demo-done: PARTS := botocore, click and rich (60 MB in $(DEMO)); dynalite and aws-cdk (50 MB in node_modules)
$(DEMO)/.import-demo-done: locks/run.txt
	$(install_demo)

$(DEMO)/.demo-done: PARTS := aws-cdk-lib and moto (510 MB in $(DEMO)); dynalite and aws-cdk (250 MB in node_modules)
$(DEMO)/.demo-done: locks/demo.txt
	$(install_demo)

.PHONY: demo
demo: $(DEMO_DONE) node_modules ## The whole pipeline on this machine; FILE="my.csv" with TABLE_KEY=id for yours
	$(call run_demo,)

.PHONY: demo-import
demo-import: $(IMPORT_DEMO_DONE) node_modules ## The same file by `ddbload import` alone, in seconds
	$(call run_demo,--import-only)

define run_demo
	@status=0; \
	$(DEMO_BIN)/python -m ddbload demo $(1) $${FILE:+--file "$$FILE"} $${TABLE_KEY:+--table-key "$$TABLE_KEY"} || status=$$?; \
	if [ $$status -eq 3 ]; then \
		echo "make: the demo finished, but rows were rejected (ddbload's exit 3)" >&2; \
	fi; \
	exit $$status
endef

# cdk finds the app, and the Python that runs it, by cdk.json.
.PHONY: synth
synth: setup node_modules ## Write the deployment's template into cdk.out (ARGS="-c tables=books")
	node_modules/.bin/cdk synth --quiet $(ARGS)

##@ Measure

.PHONY: bench
bench: setup $(RIVALS_DONE) ## Measure every engine beside boto3, aiobotocore, Go's SDK and a floor in C (ROUNDS=5 ARGS="--shapes wide")
	$(BIN)/python -m bench.compare --rounds $(ROUNDS) $(ARGS)

$(RIVALS_DONE): locks/bench.txt | $(SETUP_DONE)
	$(install_apart)

.PHONY: rivals
rivals: $(RIVALS_DONE) ## Install what `make bench` and `make lab` run beside ddbload

define run_lab
	@$(BIN)/python -m lab $(1) $(if $(EXPERIMENT),--experiment $(EXPERIMENT)) $(if $(SIZE),--size $(SIZE)) \
		$(if $(LATENCY_MS),--latency-ms $(LATENCY_MS)) $(if $(SEED),--seed $(SEED)) $(ARGS)
endef

.PHONY: lab
lab: setup node_modules rivals ## Run the published experiments beside ddbload, into build/lab.md (EXPERIMENT=writers SIZE=10000 LATENCY_MS=8)
	$(call run_lab,)

.PHONY: lab-page
lab-page: setup node_modules rivals ## Write docs/contributing/lab.md: the same, on an idle machine only
	$(call run_lab,--page)

.PHONY: bench-convert
bench-convert: setup $(RIVALS_DONE) ## Measure convert beside DuckDB, and with several processes
	$(BIN)/python -m bench.convert $(ARGS)

.PHONY: bench-start
bench-start: setup ## Measure the CPU time that functions and commands need to start
	$(BIN)/python -m bench.start $(ARGS)

.PHONY: bench-table
bench-table: setup ## Measure how simulated tables are used and shared, beside boto3's adaptive retries
	$(BIN)/python -m bench.rates $(ARGS)

# Takes most of an hour, since the tables' seconds are real ones.
.PHONY: bench-sockets
bench-sockets: ROUNDS = 3
bench-sockets: setup ## Measure loads of tables with limits over sockets, beside boto3 (ROUNDS=3 ARGS="--load writers")
	$(BIN)/python -m bench.sockets --rounds $(ROUNDS) $(ARGS)

##@ Release

.PHONY: wheel
wheel: sbom ## Build the wheel into dist/, with its bills of materials
	$(BIN)/python -m build --wheel --no-isolation

.PHONY: zipapp
zipapp: setup ## Build dist/ddbload.pyz, one file that runs with any Python from 3.11 on
	$(BIN)/python -m release.build_zipapp dist/ddbload.pyz

# Reproducible: neither has a time or a random number in it.
.PHONY: sbom
sbom: setup $(AUDIT_DONE) ## List what wheel and functions consist of, as CycloneDX in dist/
	mkdir -p dist
	set -o pipefail; $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --no-header \
		--constraint locks/dev.txt pyproject.toml | \
		$(AUDIT)/bin/cyclonedx-py requirements --pyproject pyproject.toml --output-reproducible \
			--output-file dist/ddbload.cdx.json -
	$(AUDIT)/bin/cyclonedx-py requirements --output-reproducible \
		--pyproject pyproject.toml --output-file dist/functions.cdx.json lambdas/requirements.txt
	for list in $(LAYERS); do \
		$(AUDIT)/bin/cyclonedx-py requirements --output-reproducible --pyproject pyproject.toml \
			--output-file dist/layers-$$(basename $$list .txt).cdx.json $$list || exit 1; \
	done

# Parts of locks/dev.txt, in the same versions.
LOCK_PART := --quiet --universal --python-version 3.11 --generate-hashes --no-annotate \
	--constraint locks/dev.txt --custom-compile-command "make lock"

.PHONY: lock
lock: setup ## Write requirements.txt and every list of hashed packages anew (ARGS=--upgrade for newer versions)
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
		--extra deploy --extra dev --extra localaws \
		--custom-compile-command "make lock" --output-file locks/dev.txt $(ARGS) pyproject.toml
	$(BIN)/python -m release.requirements >requirements.txt
	$(BIN)/uv pip compile $(LOCK_PART) --output-file locks/run.txt pyproject.toml
	$(BIN)/uv pip compile $(LOCK_PART) --output-file locks/deploy.txt locks/deploy.in
	$(BIN)/uv pip compile $(LOCK_PART) --extra deploy --extra localaws --output-file locks/demo.txt pyproject.toml
	for system in 2_26:3.11:x86_64-manylinux_2_17 2_34:3.12:x86_64-manylinux_2_34; do \
		IFS=: read -r glibc python platform <<< "$$system"; \
		$(BIN)/uv pip compile --quiet --python-version "$$python" --python-platform "$$platform" \
			--only-binary :all: --generate-hashes --custom-compile-command "make lock" \
			--output-file "lambdas/extras-$$glibc.txt" $(ARGS) lambdas/extras.in || exit 1; \
	done
	for list in audit bench checkov; do \
		$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
			--custom-compile-command "make lock" --output-file locks/$$list.txt $(ARGS) locks/$$list.in || exit 1; \
	done

.PHONY: clean
clean: ## Remove everything that make and its tools have made
	rm -rf .dynamodb-local .bench-build $(VENV) $(DEMO) $(RIVALS) $(CHECKOV) $(AUDIT) node_modules build cdk.out dist .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The commands of this project. They need only make and Python 3.11 or newer.
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-builtin-rules --no-print-directory

# Python keeps compiled modules, even if the machine's settings say otherwise. Tests start hundreds of processes, and each
# would compile the package again.
export PYTHONDONTWRITEBYTECODE :=

PYTHON ?= python3
BIN := .venv/bin
# Four processes take the groups of tests/conftest.py in this order: on two cores, because tests on real servers wait for
# half their time. The first groups show mistakes soonest, then come the longest groups, and small ones at the end, so that
# no process waits long for the others.
TESTS := --numprocesses=4 --no-loadscope-reorder -m "not long" tests/unit tests/e2e tests/integration tests/spark tests/workflow
SOURCES := $(wildcard include dags plugins demo bench docs faults scripts tests)

.PHONY: help
help:  ## show this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "make %-18s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: setup
setup:  ## make .venv with the pinned packages, and with a Java wheel if there is no Java 17 or newer
	@command -v $(PYTHON) >/dev/null || { \
		echo "There is no $(PYTHON) on PATH. Nothing was installed. Install Python 3.11 or newer, or name one: make $@ PYTHON=..." >&2; exit 1; }
	@$(PYTHON) scripts/setup.py

# The checks without tests. pre-commit runs them before each commit.
.PHONY: check-fast
check-fast: setup  ## check format, lint, types and import contracts, in seconds
	@$(BIN)/ruff format --check $(SOURCES)
	@$(BIN)/ruff check $(SOURCES)
	@$(BIN)/mypy & types=$$!; $(BIN)/lint-imports --no-logo; contracts=$$?; wait $$types && exit $$contracts

.PHONY: check
check: check-fast site  ## run check-fast, make the site, and run the unit tests but the slow ones
	$(BIN)/pytest -q --numprocesses=2 -m "not slow" tests/unit --deselect tests/unit/repository/test_house.py::test_the_import_contracts_hold

# A second build forgets what the first one warned of, so that every build is a whole one.
.PHONY: site
site: setup  ## make the documents as a site in build/site; fails if a link leads nowhere
	@$(BIN)/sphinx-build --fail-on-warning --nitpicky --keep-going --fresh-env --quiet --conf-dir docs . build/site
	@echo "build/site/index.html"

# The browser's tests keep many pictures; docs/img has those that pages show.
.PHONY: pictures
pictures: setup test-tools  ## make the pictures of the documents anew, light and dark, by the tests that look at the pages in a browser
	@SCREENSHOTS=build/pictures $(BIN)/pytest -q $(wildcard tests/workflow/pages/test_*_browser.py)
	@for picture in docs/img/*.png; do cp "build/pictures/$${picture##*/}" docs/img/ || exit 1; done

.PHONY: reference
reference: setup  ## write what settings, policies and forms take into docs/reference.md; tests compare it with the code
	@$(BIN)/python -m scripts.reference

.PHONY: format
format: setup  ## rewrite the sources in this project's format
	$(BIN)/ruff check --fix-only $(SOURCES)
	$(BIN)/ruff format $(SOURCES)

.PHONY: test
test: setup test-tools  ## run all tests but those of test-long: unit, Spark, workflow, real brokers, four Airflow processes, a browser
	$(BIN)/pytest --junitxml=build/tests.xml $(TESTS)

.PHONY: test-times
test-times:  ## print where the last make test spent its time, by folder, file and test
	@$(PYTHON) -m scripts.test_times

.PHONY: test-long
test-long: setup test-tools  ## run tests of minutes each: demos without ZooKeeper and in containers, installations, each permission, a bucket with a Spark cluster, people who end a run in mid-copy
	$(BIN)/pytest -q -m long tests/unit tests/e2e tests/integration tests/spark tests/workflow

.PHONY: test-topologies
test-topologies: setup test-tools  ## run whole rebalances in other Airflows: PostgreSQL, FAB, LocalExecutor, two Celery workers; six minutes
	$(BIN)/pytest -q tests/topologies

.PHONY: test-pythons
test-pythons: setup  ## run the unit tests with other Pythons (PYTHONS="python3.12 python3.13 …")
	@for python in $(or $(PYTHONS),python3.12 python3.13); do echo "$$python" && \
		$(BIN)/uv venv --quiet --clear --no-python-downloads --python $$python build/python && \
		$(BIN)/uv pip install --quiet --python build/python --no-deps --require-hashes -r requirements.txt -r requirements-dev.txt && \
		$(BIN)/uv pip install --quiet --python build/python --no-deps --no-build-isolation -e . && \
		build/python/bin/pytest -q --numprocesses=2 tests/unit || exit 1; done; rm -rf build/python

.PHONY: test-fast
test-fast: setup  ## run the unit tests alone
	$(BIN)/pytest -q tests/unit

.PHONY: test-tools
test-tools: setup
	@sh scripts/install-chromium.sh
	@$(BIN)/python -c "from kafka_rebalance.local_cluster.jars.class_path import spark_source_jars, tiered_storage_jar, tools_jars; \
		from kafka_rebalance.local_cluster.jars.locked_jars import ROOTS, TIERED; from kafka_rebalance.local_cluster.jvms.class_archive import find_runtime; \
		[(find_runtime(version, print), tools_jars(version, print)) for version in ROOTS]; [tiered_storage_jar(version, print) for version in TIERED]; spark_source_jars(print)"

.PHONY: demo
demo: setup  ## run one rebalance on this machine, from trigger to verification (APPROVE=ui|auto; VERSION=4.4.0; KRAFT=1; KEEP=1 leaves it running)
	@APPROVE="$(APPROVE)" VERSION="$(VERSION)" KRAFT="$(KRAFT)" KEEP="$(KEEP)" $(BIN)/python -m demo

.PHONY: bench
bench: setup  ## measure the planner on clusters of four sizes, drawn anew: bytes over the bound, balance, time and memory, into docs/
	$(BIN)/python -m bench.planner S 12x1200 M L

.PHONY: bench-xl
bench-xl: setup  ## measure the same with 1,000 brokers and a million replicas
	$(BIN)/python -m bench.planner XL

.PHONY: bench-murmur2
bench-murmur2: setup  ## measure keys hashed per second: a plain loop, numpy, and Spark with one core and with two
	$(BIN)/python -m bench.spark.murmur2

.PHONY: bench-controller
bench-controller: setup  ## measure how long a batch keeps the controller busy, by the size of its topic
	$(BIN)/python -m bench.execution.controller_cost

.PHONY: bench-reading
bench-reading: setup  ## measure how long the parts of a snapshot take without ZooKeeper, with 10,000 partitions
	$(BIN)/python bench/reading.py

.PHONY: bench-first-look
bench-first-look: setup  ## measure kafka-rebalance check on three real brokers with 20,000 partitions, without and with ZooKeeper
	$(BIN)/python -m bench.first_look
	$(BIN)/python -m bench.first_look --zookeeper

.PHONY: bench-size
bench-size: setup  ## measure the snapshot of 300 brokers and 150,000 partitions, and another client beside it, into docs/
	$(BIN)/python -m bench.size

.PHONY: odd-clusters
odd-clusters: setup  ## plan 200 odd clusters, drawn anew, and count every figure of their plans again; half an hour (SEED=… draws the same)
	$(BIN)/python -m bench.odd_clusters $(if $(SEED),--seed $(SEED))

.PHONY: bench-nightly
bench-nightly: setup  ## measure the nightly check of twelve clusters, one dead and one slow; seven minutes, into docs/
	$(BIN)/python -m bench.nightly

.PHONY: bench-answers
bench-answers: setup  ## measure answers and events within seconds on real Airflows (AIRFLOWS="3.3.2 3.3.1 …"); ten minutes each, into docs/
	PYTHONPATH=tests $(BIN)/python -m bench.early_answers $(AIRFLOWS)

.PHONY: bench-month
bench-month: setup  ## simulate thirty nights of one cluster: growth, arrivals, a lost broker, a new one; a minute, into docs/
	$(BIN)/python -m bench.month

.PHONY: bench-execution
bench-execution: setup  ## measure moves of empty partitions, with the product and bare, into docs/
	$(BIN)/python -m bench.execution.with_zookeeper

.PHONY: bench-execution-kraft
bench-execution-kraft: setup  ## measure the same without ZooKeeper
	$(BIN)/python -m bench.execution.without_zookeeper

.PHONY: bench-clients
bench-clients: setup  ## measure latencies of clients beside throttled moves, on three versions; eight minutes, into docs/
	$(BIN)/python -m bench.execution.clients

.PHONY: bench-rolling
bench-rolling: setup  ## compute how long plans take with batches and without, on paper; ten minutes, into docs/
	$(BIN)/python -m bench.rolling S M L

.PHONY: bench-whole-job
bench-whole-job: setup  ## measure the planner from snapshot to written plans, by step, up to 2,000 brokers; ten minutes, into docs/
	$(BIN)/python -m bench.spark.whole_job S M L XL 2xXL

.PHONY: bench-executors
bench-executors: setup  ## measure each part of a candidate, and plans on one Spark executor and on two; ten minutes, into docs/
	$(BIN)/python -m bench.spark.executors M:add L:add L:add:3 L:skew:3 XL:add XL:add:3

.PHONY: bench-web
bench-web: setup  ## measure the run's page and its searches at 1,000 brokers and 150,000 moves, in a browser, into docs/
	@sh scripts/install-chromium.sh
	$(BIN)/python -m bench.web.looks

.PHONY: house
house: setup  ## print sizes, imports and borders of the package, for a person to judge
	@$(BIN)/python -m scripts.house

.PHONY: coverage
coverage: setup  ## count the branches of the pure rooms that the unit tests take, into docs/; fails below 95 %
	$(BIN)/python -m bench.strength.branches

.PHONY: mutation
mutation: setup  ## change what decides a write, place by place, and count the changes that no test notices, into docs/; fails below 95 %
	$(BIN)/python -m bench.strength.mutants

.PHONY: protocol
protocol: setup  ## search every state of a model of lock, fence, requests and stops, and print the shortest way to what is broken; about twenty minutes
	PYTHONPATH=tests $(BIN)/python -m support.protocol_model

.PHONY: faults
faults: setup  ## cause faults during a move, on every version: kills, disks, topics, storage, clocks; 90 minutes, into docs/ (RESUME=1 goes on)
	$(BIN)/python -m faults $(if $(RESUME),--resume)

.PHONY: soak
soak: setup  ## run fifty rebalances with a random fault each on one cluster, and count what they leave; forty minutes, into docs/
	$(BIN)/python -m faults.soak

# cyclonedx-bom asks for every format that jsonschema can check. rfc3987-syntax, for addresses, builds 39 parsers when
# it is imported: 1.6 of the 3.6 CPU seconds in which a process imports Airflow. Nothing here checks that format.
.PHONY: lock
lock: setup  ## pin pyproject.toml and the requirements*.in again, with hashes; UPGRADE=1 takes the newest versions
	@pin() { name=$$1; shift; $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
			$(if $(UPGRADE),--upgrade) --custom-compile-command "make lock" --output-file $$name.txt $$name.in "$$@"; }; \
		pin requirements pyproject.toml --all-extras && \
		echo rfc3987-syntax | pin requirements-dev --excludes /dev/stdin && pin requirements-java

.PHONY: update
update: setup  ## take the newest versions that the requirements*.in allow, install them, and say what changed
	@$(PYTHON) scripts/update.py

.PHONY: audit
audit: setup  ## compare the pinned packages with the known vulnerabilities; fails where that service does not answer
	@$(BIN)/python scripts/audit.py

SBOM := build/sbom.json
.PHONY: sbom
sbom: setup  ## write what is pinned, with hashes, as a CycloneDX bill of materials into build/
	@mkdir -p $(dir $(SBOM))
	@$(BIN)/python -W ignore::UserWarning -m cyclonedx_py requirements requirements.txt --pyproject pyproject.toml \
		--output-reproducible --output-file $(SBOM)
	@echo "$(SBOM)"

.PHONY: release
release: setup  ## make VERSION=x.y.z: check, set the version, date the changelog, build, commit, tag; publishes nothing (DRY=1 changes nothing)
	@DRY="$(DRY)" $(BIN)/python scripts/release.py "$(VERSION)"

.PHONY: clean
clean:  ## remove everything that these commands made in the checkout; the jar cache stays
	rm -rf .venv .demo .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis build dist
	rm -rf include/*.egg-info
	find $(SOURCES) -name __pycache__ -type d -prune -exec rm -rf {} +

# `make` lists what there is. Needs a Python 3.11 to 3.14 with its venv module; the rest comes from
# requirements-dev.lock into .venv. With another Python: make clean setup PYTHON=/path/to/python

PYTHON ?= python3
SOAK_MINUTES ?= 60
SIMULATED_SEED ?= 0
SIMULATED_SEEDS ?= 1000
ROOM ?= engine/checkpoints
MUTANTS ?= 60
FUZZ_MINUTES ?= 30
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
SUPPORTED := import sys; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 15))
LOCK := $(BIN)/uv pip compile --quiet --universal --fork-strategy fewest --prerelease disallow \
	--generate-hashes

# uv takes a third of pip's time. It knows none of pip's settings: where they name the one registry
# that can be reached, pip installs. Python compiles a module when it is first imported: most of them
# never are.
LOCKED := --only-binary :all: --require-hashes
install = $(BIN)/uv pip install --quiet --no-config --python $(BIN)/python $(LOCKED) $(1) || \
	$(BIN)/python -m pip install --quiet $(LOCKED) --no-compile $(1)

# Nothing asks a question, neither here nor in CI.
export PIP_NO_INPUT := 1
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# Tests start hundreds of processes: each would compile all modules anew, for a quarter of a second.
unexport PYTHONDONTWRITEBYTECODE
# The lock files name the command that makes them, not the machine that it ran on.
export UV_CUSTOM_COMPILE_COMMAND := make lock

.DEFAULT_GOAL := help
.PHONY: help setup check lint format types test ci ci-computes ci-waits test-spark kernels wheel vectors test-laws test-others \
	test-long test-rare test-bounds test-quick image chaos simulate fuzz model mutate demo docs bench bench-full coverage figures plots pictures audit sbom schemas \
	reference golden chart release hooks lock lock-peers clean

help: ## list these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' Makefile

setup: $(INSTALLED) ## install everything into .venv (instant when nothing changed)

# The stamp is made last: an installation that broke off is taken up again by the next run.
$(INSTALLED): requirements-build.lock requirements-dev.lock pyproject.toml
	@$(BIN)/python -c 'import pip; $(SUPPORTED)' 2>/dev/null || { \
	    for python in "$(PYTHON)" python3.13 python3.12 python3.11 python3.14; do \
	        if "$$python" -c '$(SUPPORTED)' 2>/dev/null; then break; fi; python=; \
	    done; \
	    if [ -z "$$python" ]; then \
	        echo "error: slidestat needs Python 3.11 to 3.14, and $(PYTHON) is not one." >&2; \
	        echo "what to do: install one, or name one: make setup PYTHON=/path/to/python." >&2; \
	        exit 1; \
	    fi; \
	    echo "making $(VENV) with $$("$$python" --version)"; \
	    "$$python" -m venv --clear $(VENV) || { \
	        echo "error: this Python cannot make a virtual environment." >&2; \
	        echo "what to do: install its venv module (on Debian: python3-venv)." >&2; \
	        exit 1; \
	    }; \
	}
	@echo "installing the packages of requirements-dev.lock into $(VENV): a minute or two, 2 GB"
	@# Registries fail now and then: each try waits longer than the one before.
	@# PySpark has no wheel: its archive is built by what is locked, not by what a registry has now.
	@for pause in 5 20 60 0; do \
	    $(BIN)/python -m pip install --quiet $(LOCKED) --no-compile -r requirements-build.lock && \
	    { $(call install,--no-binary pyspark --no-build-isolation -r requirements-dev.lock); } && exit 0; \
	    [ $$pause -eq 0 ] || echo "the installation failed; trying again in $$pause s" >&2; \
	    sleep $$pause; \
	done; \
	echo "error: the packages of requirements-dev.lock could not be installed." >&2; \
	echo "what to do: see pip's message above; run make setup again to go on." >&2; \
	exit 1
	@# No isolation: the build backend is one of the locked packages, so nothing is fetched here.
	@echo "installing slidestat itself, as it is in this folder"
	@$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $@
	@echo "done. Next: $(BIN)/slidestat demo shows it at work; make test runs the tests; make lists the rest"

check: lint types ## lint, formatting and types, as the hooks and CI run them

lint: setup ## lint and formatting alone
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: setup ## types alone
	$(BIN)/mypy

format: setup ## correct the formatting, and what lint can correct
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# Two halves run at once. The tests in the folders of LAWS compute all the time; the others wait for
# brokers and workers more than they compute, and have limits of time: they go first wherever both
# want a core. Each process has a broker of its own, and a file's tests run in one of them, as do
# all of Spark's session (the long ones of two), in this order: the longest first, so that none is
# left for the end. Where a process dies, all end: pytest-xdist, which would start another, can wait
# for ever for tests that it gave to the first.
LAWS := $(addprefix tests/,engine referee live audit synopses kernels testing golden declare)
LONGEST := $(addprefix tests/,docs spark chaos demo broker security local admin cli web)
OTHERS := $(LONGEST) $(filter-out $(LAWS) $(LONGEST) tests/model tests/__pycache__,$(patsubst %/,%,$(wildcard tests/*/))) \
	$(wildcard tests/test_*.py)
PYTEST := $(BIN)/python -m pytest --dist loadgroup --no-loadscope-reorder --max-worker-restart 0
LOGS := .pytest_cache
# THIRD=0, 1 or 2 runs a third of the laws, of Spark's and of the longest tests.
OF_A_THIRD := $(if $(THIRD),-p tests.thirds --third $(THIRD))
OF_SPARK := $(if $(THIRD),$(OF_A_THIRD) --third-of tests/spark/)

# Beside other tests they may take long: their limit of time is for what hangs. The others have the
# output, and go first wherever both want a core.
define logged
@mkdir -p $(LOGS)
@echo "$@: how far it is, is in $(2)"
@if $(1) > $(2) 2>&1; then tail -n 1 $(2); else cat $(2); exit 1; fi
endef

test: setup ## lint, types and all tests but the longest, on a real broker
	@$(MAKE) --no-print-directory --jobs 2 kernels check
	@$(MAKE) --no-print-directory --keep-going --jobs 2 test-laws test-others

# The halves of `test`, each with its half of `test-long` behind it: what computes fills all of the
# time in which the others wait. A failure keeps none of the others from running. It is make that
# runs two at once: what a shell has in its background ignores interrupts, which tests send.
ci: setup ## both at once in the order that takes least time, and the documents' site, as CI does
	@$(MAKE) --no-print-directory --jobs 2 kernels check
	@$(MAKE) --no-print-directory --keep-going --jobs 2 ci-computes ci-waits

ci-computes:
	@$(MAKE) --no-print-directory test-laws; laws=$$?; \
	    $(MAKE) --no-print-directory test-bounds; bounds=$$?; \
	    $(MAKE) --no-print-directory docs && exit $$((laws + bounds))

ci-waits:
	@$(MAKE) --no-print-directory test-others; others=$$?; \
	    $(MAKE) --no-print-directory test-rare && exit $$others

kernels: setup ## compile all kernels that are not compiled yet; instant when nothing changed
	@$(BIN)/python -m slidestat.kernels.units

wheel: setup ## the wheel for this Python and this kind of processor, with all kernels compiled, into dist
	SLIDESTAT_KERNELS=1 $(BIN)/python -m hatchling build -t wheel

vectors: setup ## write the golden vectors of kernels again, after a change of kernels; many minutes
	$(BIN)/python -m scripts.vectors

test-laws: setup ## those of all tests that need no broker and compute long
	$(call logged,nice -n 10 $(PYTEST) --timeout 1800 -n 2 $(OF_A_THIRD) -m "not long" $(LAWS),$(LOGS)/laws.log)

test-others: setup ## all other tests
	$(PYTEST) --timeout 600 -n 4 $(OF_SPARK) -m "not long" $(OTHERS)

# Two halves again: the one waits for brokers and Spark, the other computes.
test-long: setup ## the longest tests: half a minute and more each, of what is rare
	@$(MAKE) --no-print-directory --keep-going --jobs 2 test-rare test-bounds

# Other files are not read: each process would take half a minute for it.
test-rare: setup ## those of them that are marked as long
	$(PYTEST) --timeout 900 -n 4 -m long $(OF_A_THIRD) $$(grep -rlw --include 'test_*.py' 'mark[.]long' $(OTHERS) $(LAWS))

# All vectors; the laws of synopses; stored bytes of every format; and of kernels elsewhere those over
# records. Each has a sample of its cases. What runs kernels as plain Python checks all the same.
OF_VECTORS := test_machine_code_does_what_plain_python_did
OF_KERNELS := $(addprefix tests/,kernels/test_kernel_units.py::$(OF_VECTORS) synopses golden \
	kafka/test_fetches.py engine/decoding/test_readers.py engine/emissions/test_number_texts.py)
CHECKED := NUMBA_BOUNDSCHECK=1 nice -n 10

test-bounds: setup ## no kernel reads outside its arrays: all laws once more, with numba's checks on
	@$(CHECKED) $(BIN)/python -m slidestat.kernels.units
	$(call logged,$(CHECKED) $(PYTEST) --timeout 1800 -n 2 -p tests.sampled $(OF_A_THIRD) -m "not long" \
	    -k "$(OF_VECTORS) or not plain_python" $(OF_KERNELS),$(LOGS)/bounds.log)

test-quick: setup ## the tests that need no broker
	$(BIN)/python -m pytest $(addprefix --ignore tests/,admin broker chaos cli docs doctor infer local produce spark)

# PySpark alone is another: what it needs of others is what is locked. The folder comes first on the
# path, for workers of Spark as well.
SPARK ?= 4.2.1
SPARK_FOLDER := build/pyspark-$(SPARK)

test-spark: setup ## the tests of Spark with another PySpark (SPARK=4.2.1) than the locked one
	@[ -d $(SPARK_FOLDER) ] || { \
	    $(BIN)/python -m pip install --no-build-isolation --no-deps --target $(SPARK_FOLDER).part \
	        pyspark==$(SPARK) && mv $(SPARK_FOLDER).part $(SPARK_FOLDER); \
	}
	PYTHONPATH=$(abspath $(SPARK_FOLDER)) $(PYTEST) --timeout 1200 -n 1 -m "not long" tests/spark

image: setup ## build the image on Debian packages, and run it read-only; needs podman, runc, mmdebstrap, root
	MAKE_IMAGE=1 $(BIN)/python -m pytest tests/deploy/test_image.py

chaos: setup ## two million events while all fails, then an hour (SOAK_MINUTES) in which nothing may grow
	CHAOS_EVENTS=2000000 CHAOS_ROUNDS=20 SOAK_MINUTES=$(SOAK_MINUTES) \
	    $(BIN)/python -m pytest tests/chaos

simulate: setup ## the worker's own code under faults, in SIMULATED_SEEDS schedules from SIMULATED_SEED on
	SIMULATED_SEED=$(SIMULATED_SEED) SIMULATED_SEEDS=$(SIMULATED_SEEDS) \
	    $(BIN)/python -m pytest tests/faust/simulation

model: setup ## check the protocol's model with Quint's simulator, whole and without each guard; needs npm
	npm install --prefix build/quint --no-save --silent --no-audit --no-fund \
	    @informalsystems/quint@0.33.1 antlr4ts@0.5.0-alpha.4
	$(BIN)/python -m pytest -n 2 tests/model

# One decoder, or several: make fuzz DECODERS='records "key states"'. Coverage is known of Python alone.
fuzz: setup kernels ## fuzz all decoders of bytes from outside, by coverage, for FUZZ_MINUTES in all
	$(BIN)/uv pip install --quiet --target build/atheris atheris==3.0.0
	NUMBA_DISABLE_JIT=1 PYTHONPATH=build/atheris \
	    $(BIN)/python -m tests.security.fuzz $$(($(FUZZ_MINUTES) * 60)) $(DECODERS)
	NUMBA_BOUNDSCHECK=1 $(BIN)/python -m tests.security.fuzz --kept-only $(DECODERS)

mutate: setup kernels ## put MUTANTS faults into the code of ROOM, one by one, and see which its tests notice
	$(BIN)/python -m scripts.mutate $(ROOM) $(MUTANTS)

demo: setup ## real events through a real broker, every figure checked against the exact one
	$(BIN)/slidestat demo

bench: setup ## ours and other libraries side by side, every answer checked; many minutes
	$(BIN)/python -m benchmarks.everything

bench-full: setup ## the same with more events, workloads and runs; an hour or two
	$(BIN)/python -m benchmarks.everything --full

docs: setup ## the documentation as a site, into build/site; a warning is an error
	@for pause in 5 20 60 0; do \
	    { $(call install,--quiet -r requirements-docs.lock); } && exit 0; \
	    [ $$pause -eq 0 ] || echo "the installation failed; trying again in $$pause s" >&2; \
	    sleep $$pause; \
	done; exit 1
	$(BIN)/sphinx-build -q --fail-on-warning --keep-going -c scripts/site . build/site
	@echo "the site is build/site/docs/README.html"

figures: setup ## write what was measured last into README and docs
	$(BIN)/python -m benchmarks.documents.written

plots: setup ## measure and draw space, errors and cost against span
	$(BIN)/python -m benchmarks.documents.plots 1e9
	$(BIN)/python -m benchmarks.documents.written

pictures: setup ## draw the theory's pictures, and take those of both pages with a headless Chromium
	$(BIN)/python -m benchmarks.documents.pictures
	$(BIN)/python -m scripts.picture_of_live_page docs/live-page.png
	$(BIN)/python -m scripts.picture_of_report docs/report.png

audit: setup ## known vulnerabilities of what is locked, as PyPI tells them; needs the internet
	$(BIN)/uv tool run pip-audit==2.10.1 --requirement requirements-dev.lock --disable-pip --no-deps \
	    --strict

sbom: setup ## a bill of materials of what a worker is installed with, CycloneDX, into build/sbom.json
	@mkdir -p build
	$(BIN)/uv tool run --from cyclonedx-bom==7.3.0 cyclonedx-py requirements requirements.lock \
	    --pyproject pyproject.toml --mc-type application --output-reproducible --of JSON -o build/sbom.json

schemas: setup ## write the JSON Schemas again after a change of the structs
	$(BIN)/python -m slidestat.schemas.publish

reference: setup ## write the reference of declarations again after a change of fields or docstrings
	$(BIN)/python -m scripts.reference

golden: setup ## write the golden files of new cases; none that is there is changed
	$(BIN)/python -m tests.golden.freeze

# What the tests of some rooms run of these rooms themselves: make coverage COVERED="engine declare". Of
# all rooms it would take hours.
COVERED ?= declare live referee
comma := ,
empty :=
REPORTED = $(subst $(empty) ,$(comma),$(patsubst %,app/slidestat/%/*,$(COVERED)))

coverage: setup kernels ## which lines and branches of the rooms in COVERED their own tests run, kernels apart
	@rm -rf build/coverage && mkdir -p build/coverage
	-nice -n 10 $(BIN)/coverage run -m pytest -q -n 2 -m "not long" --dist loadgroup $(addprefix tests/,$(COVERED))
	@$(BIN)/coverage combine --quiet
	@$(BIN)/coverage html --quiet --include '$(REPORTED)'
	@$(BIN)/coverage report --include '$(REPORTED)'

# Helm is built from its Go module, once: the tests check what it made, and need neither.
HELM := build/bin/helm
$(HELM):
	GOBIN=$(CURDIR)/build/bin go install helm.sh/helm/v3/cmd/helm@v3.19.0

chart: setup $(HELM) ## lint the Helm chart, and render the Kubernetes manifest from it; needs Go 1.24 or later
	$(BIN)/python -m scripts.chart $(HELM)

# make release VERSION=0.2.0
release: setup ## name VERSION in all files that have it, date the changelog's section; needs Go, as chart does
	$(BIN)/python -m scripts.release $(VERSION)
	@$(MAKE) --no-print-directory chart

hooks: setup ## run the same checks before each git commit
	$(BIN)/pre-commit install

lock: setup ## lock again after a change of pyproject.toml (delete the locks first to move them on)
	$(LOCK) pyproject.toml --extra worker --extra local --extra avro --extra protobuf --extra msk --extra otlp \
	    --output-file requirements.lock
	$(LOCK) pyproject.toml --group dev --extra avro --extra protobuf --extra local --extra spark --extra msk --extra mcp --extra otlp --constraint requirements.lock \
	    --output-file requirements-dev.lock
	$(LOCK) --group build --constraint requirements-dev.lock --output-file requirements-build.lock
	$(LOCK) --group docs --constraint requirements-dev.lock --output-file requirements-docs.lock

lock-peers: export UV_CUSTOM_COMPILE_COMMAND := make lock-peers
lock-peers: setup ## lock the environments of the benchmarks' peers again
	for name in quix bytewax pathway plots ddsketch chdb clink; do \
	    $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
	        benchmarks/peers/requirements-$$name.in \
	        --output-file benchmarks/peers/requirements-$$name.lock || exit 1; \
	done

clean: ## remove .venv, caches and what was built
	rm -rf $(VENV) build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

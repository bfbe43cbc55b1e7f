# Two commands are enough on a new machine with Python 3.10 or newer: make demo, make test.
#
#   make PYTHON=python3.12 ...    another interpreter for a new environment
#   make VENV=/elsewhere ...      another folder for it
#   make test ARGS="-k crop -x"   additional arguments for the command of the target
#   make test JOBS=8              number of processes that run tests in parallel (3 keep two cores busy: many tests wait)

PYTHON ?= python3
VENV   ?= .venv
CUDA   ?= cuda13
ARGS   ?=
JOBS   ?= 3

BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check

# The name of a stamp lists the installed extras.
DEMO := $(VENV)/.installed-demo
DEV  := $(VENV)/.installed-test,demo,bench,examples,video,parity
GPU  := $(VENV)/.installed-test,demo,bench,examples,video,parity,$(CUDA)
GPU_BENCH := $(VENV)/.installed-test,demo,bench,examples,video,parity,training,$(CUDA)
SCALE := $(VENV)/.installed-test,demo,bench,examples,video,parity,ray
CLUSTER := $(VENV)/.installed-test,demo,bench,examples,video,parity,ray-train,test-stores
RIVALS := $(VENV)/.installed-test,demo,bench,examples,video,parity,rivals
DOCS := $(VENV)/.installed-docs

# If Python may not write bytecode, each of the many processes that tests start compiles everything again.
unexport PYTHONDONTWRITEBYTECODE

# Tests fork their process thousands of times. With large pages, its page tables are small. tests/conftest.py hides the
# variable from the programs that tests start.
test test-thorough: export GLIBC_TUNABLES := glibc.malloc.hugetlb=1

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo test test-thorough test-cluster lint format bench bench-check bench-operators bench-scale bench-graphs bench-rivals fuzz sanitize chaos faults soak test-gpu sanitize-gpu bench-gpu bench-gpus operators generated docs clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-15s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

demo: $(DEMO) ## run the whole product once: generate images, train on them, compare with a plain DataLoader
	$(BIN)/dali-proxy demo $(ARGS)

test: $(DEV) ## run the tests that need no GPU, without those of make test-thorough, in about ten minutes
	$(BIN)/python -m pytest -m "not gpu and not thorough" -n $(JOBS) --dist loadfile --no-loadscope-reorder $(ARGS)

test-thorough: $(DEV) ## run the tests that repeat those of make test with more values, or for longer
	$(BIN)/python -m pytest -m "thorough and not gpu" -n $(JOBS) --dist loadfile --no-loadscope-reorder $(ARGS)

test-cluster: $(CLUSTER) ## run the tests with a local Ray cluster, and with the clients of S3 and Google Cloud Storage, in four minutes
	DALI_PROXY_REQUIRE_CLUSTER=1 $(BIN)/python -m pytest tests/dali_proxy/cluster tests/pipeline/remote -m "not gpu" $(ARGS)

lint: $(DEV) ## check style, formatting and types; list warnings about English and long files
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m docs.style

format: $(DEV) ## apply the fixes and the formatting of ruff
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(DEV) ## compare with torch's DataLoader and NVIDIA DALI on the CPU, in eight minutes
	$(BIN)/python -m benchmarks $(ARGS)

bench-check: $(DEV) ## compare ratios with the last committed results; fail if one became worse
	$(BIN)/python -m benchmarks.regression $(ARGS)

bench-operators: $(DEV) ## compare every operator with NVIDIA DALI's on the CPU, in four minutes
	$(BIN)/python -m benchmarks.operators $(ARGS)
	$(BIN)/python -m docs.operators_speed

bench-scale: $(SCALE) ## measure throughput, memory and the time to the first batch by ranks and nodes, in five minutes
	$(BIN)/python -m benchmarks.scale $(ARGS)

bench-rivals: $(RIVALS) ## compare loaders on kinds of data, as many as fit into fifteen minutes (ARGS="--jobs audio --rivals torch spdl": parts)
	$(BIN)/python -m benchmarks.comparison $(ARGS)
	$(BIN)/python -m docs.comparison

bench-graphs: $(DEV) ## compare whole graphs with NVIDIA DALI's on the CPU, in four minutes
	$(BIN)/python -m benchmarks.graphs --batches 32 --limit 240 $(ARGS)

fuzz: $(DEV) ## attack a server with hostile clients, and parsers with damaged files, for ten minutes (ARGS="--seconds 60": shorter)
	$(BIN)/python -m tests.fuzz $(ARGS)

faults: $(DEV) ## run the tests of faults that take minutes or gigabytes (as root: also those that limit memory)
	$(BIN)/python -m pytest -m faults -o faulthandler_timeout=900 $(ARGS)

sanitize: $(DEV) ## let parsers read damaged files with C modules that check all accesses, for five minutes; run the modules' tests
	.ci/sanitize $(BIN)/python $(ARGS)

chaos: $(DEV) ## compare random events and faults with a model of what must come out, for 20 minutes (ARGS="--seconds 60 --seed 1": others)
	$(BIN)/python -m tests.chaos $(ARGS)

soak: $(DEV) ## train for half an hour while faults are injected (ARGS="--seconds 60": shorter)
	$(BIN)/python -m tests.soak $(ARGS)

test-gpu: $(GPU) ## run the tests that need a GPU
	$(BIN)/python -m pytest -m gpu $(ARGS)

sanitize-gpu: $(GPU) ## check the GPU tests of kernels with compute-sanitizer: accesses outside of arrays, races
	$(BIN)/python -m tests.sanitize $(ARGS)

bench-gpu: $(GPU_BENCH) ## measure everything on GPU 0 in nine minutes: pixels, rates, graphs, training, sizes, a timeline
	$(BIN)/python -m benchmarks.gpu $(ARGS)

bench-gpus: $(GPU_BENCH) ## train on one and on several GPUs from each loader, in six minutes for two GPUs
	$(BIN)/python -m benchmarks.gpu.data_parallel $(ARGS)

operators: $(DEV) ## compare all operators with NVIDIA DALI's, and write docs/operators.md
	DALI_PROXY_PARITY_EXAMPLES=60 DALI_PROXY_PARITY_RECORD=docs/parity.json $(BIN)/python -m pytest tests/parity $(ARGS)
	$(BIN)/python -m docs.operators --list

generated: $(DEV) ## write the stubs, tables, figures and images that are generated from the code
	$(BIN)/python -m docs.all

docs: $(DOCS) ## build the documentation into site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict $(ARGS)
	@echo "Open file://$(CURDIR)/site/index.html"

clean: ## remove the environment and all build results
	rm -rf $(VENV) build dist site *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find dali_proxy pipeline tests benchmarks examples -name __pycache__ -prune -exec rm -rf {} +

# pip is the last file that venv writes, so its existence means that the environment is complete.
$(BIN)/pip:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10) and "Python 3.10 or newer is required, but this is \
	%d.%d: try make PYTHON=python3.12" % sys.version_info[:2])'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed-%: pyproject.toml setup.py constraints.txt $(wildcard dali_proxy/pipeline/*.h dali_proxy/pipeline/*/*.[ch] dali_proxy/pipeline/*/*/*.h) | $(BIN)/pip
	@echo "Installing dali-proxy[$*] into $(VENV) (the first time downloads PyTorch, which takes minutes) ..."
	@$(PIP) install --quiet --constraint constraints.txt --editable '.[$*]'
	@touch '$@'

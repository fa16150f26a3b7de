# make demo | make test | make test-all | make check | make bench | make conformance | make clean
# Everything lives in .venv; a second run of a target does no work twice (files in .stamps).

PYTHON ?= python3
TORCH ?= torch==2.13.0
VENV := .venv
BIN := $(VENV)/bin
STAMPS := .stamps
NATIVE_SOURCES := $(shell find csrc -name '*.cpp' -o -name '*.h')
JOBS ?= 2
# Real ONNX files that their authors ship inside packages; only the files are wanted, not what they run on.
SHIPPED_MODELS := magika==1.0.3 silero-vad==6.2.3 swift-f0==0.3.0 basic-pitch==0.4.0

export SIMACC_REQUIRE_NATIVE = 1

.PHONY: demo test test-all check bench conformance clean tools

demo: $(STAMPS)/installed
	$(BIN)/python examples/quickstart.py

test: $(STAMPS)/installed $(STAMPS)/models
	$(BIN)/python -m pytest -n $(JOBS) -m "not slow"

test-all: $(STAMPS)/installed $(STAMPS)/models
	$(BIN)/python -m pytest -n $(JOBS)

check: $(STAMPS)/installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(STAMPS)/installed
	$(BIN)/python -m benchmarks

# PyTorch's own databases of operators, modules and optimizers against the CPU: under half an hour on two cores.
conformance: $(STAMPS)/installed
	$(BIN)/python -m tests.conformance --jobs $(JOBS) --out docs/conformance.md

tools:
	@command -v $(PYTHON) >/dev/null || { echo "make: $(PYTHON) is missing: install Python 3.10 or later (Debian: apt install python3 python3-venv)"; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || { echo "make: $(PYTHON) is older than 3.10: install a later one and run make PYTHON=python3.x"; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { echo "make: $(PYTHON) cannot make a virtual environment (Debian: apt install python3-venv)"; exit 1; }
	@command -v $${CXX:-c++} >/dev/null || { echo "make: a C++20 compiler is missing (Debian: apt install g++)"; exit 1; }

$(STAMPS)/venv: | tools
	@mkdir -p $(STAMPS)
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	touch $@

# PyTorch first and pinned: another package that asked for it would bring a build for GPUs.
$(STAMPS)/torch: $(STAMPS)/venv
	$(BIN)/python -m pip install --quiet -c constraints.txt "$(TORCH)" numpy ninja "setuptools>=77" wheel "pybind11>=2.13"
	touch $@

$(STAMPS)/installed: $(STAMPS)/torch pyproject.toml setup.py constraints.txt $(NATIVE_SOURCES)
	$(BIN)/python -m pip install --quiet --no-build-isolation -c constraints.txt --editable ".[all,dev]"
	touch $@

$(STAMPS)/models: $(STAMPS)/installed
	$(BIN)/python -m pip install --quiet --no-deps $(SHIPPED_MODELS)
	touch $@

clean:
	rm -rf $(VENV) $(STAMPS) build out *.egg-info simdevice/*.so simdevice/*.so.sha256

# Two commands matter: `make demo` and `make test`. Both set up their own virtual environment first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
DEMO := demo
REAL := demo-real
COMMA := ,

# Else every process compiles all modules it imports: torch alone takes seconds more.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help demo demo-real test test-slow faults doctest docs slurm lint types layers check setup clean

help:
	@echo "make demo   simulated cohort -> pretraining -> embeddings -> cross-validation -> report (in $(DEMO)/)"
	@echo "make demo-real   the same on the sample cohort of real brains (in $(REAL)/)"
	@echo "make test   every default test"
	@echo "make faults plants every fault of tests/faults in a copy, which its tests must find (half an hour of two cores)"
	@echo "make docs   the site in docs/_build/html, with all examples run; warnings are errors"
	@echo "make slurm  install SLURM itself (Debian, Ubuntu; as root), with which slow tests run a cluster of this machine"
	@echo "make check  tests, slow tests, doctests, lint, types, import layers, examples: what continuous integration runs"
	@echo "make clean  remove the virtual environment and the demos"

setup: $(VENV)/.installed

NEEDS := pyproject.toml weights/measures/pyproject.toml weights/brains/pyproject.toml constraints.txt

# Python compiles what is imported, when it is; pip would compile all of 15,000 files, with one core.
define install
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "neurocontrast needs Python 3.11 or newer; say which with: make PYTHON=/path/to/python3.11 ..."; exit 2; }
	@$(PYTHON) -m venv $(VENV) \
	  || { echo "Python's venv module is missing; on Debian or Ubuntu: apt-get install python3-venv"; exit 2; }
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --no-compile -c constraints.txt -e $(1) -e ./weights/measures
endef

$(VENV)/.installed: $(NEEDS)
	$(call install,'.[dev$(COMMA)docs$(COMMA)images$(COMMA)prepare$(COMMA)slurm]' -e ./weights/brains)
	@touch $@ $(VENV)/.demo

# The demo needs what users need, half of the whole.
$(VENV)/.demo: $(NEEDS)
	$(call install,.)
	@touch $@

demo: $(VENV)/.demo
	@PATH="$(CURDIR)/$(BIN):$$PATH" sh pipelines/demo.sh $(DEMO)

demo-real: setup
	@PATH="$(CURDIR)/$(BIN):$$PATH" sh pipelines/demo_real.sh $(REAL)

# One thread a worker: two torch processes with two threads each on two cores are some ten times slower.
PYTEST := OMP_NUM_THREADS=1 MKL_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses auto --dist worksteal

test: setup
	$(PYTEST)

test-slow: setup
	$(PYTEST) -m slow

faults: setup
	OMP_NUM_THREADS=1 MKL_NUM_THREADS=1 $(BIN)/python tests/faults/plant.py --jobs $$(nproc)

doctest: setup
	$(PYTEST) --doctest-modules neurocontrast

docs: setup
	OMP_NUM_THREADS=2 $(BIN)/sphinx-build --quiet --fail-on-warning --keep-going -c docs -b html . docs/_build/html
	@echo "docs/_build/html/index.html"

slurm:
	apt-get update -qq
	DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends slurmctld slurmd slurm-client munge >/dev/null

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: setup
	$(BIN)/mypy

layers: setup
	$(BIN)/lint-imports

check:
	bash .ci/run

clean:
	rm -rf $(VENV) $(DEMO) $(REAL) docs/_build docs/api.rst docs/gallery docs/reference

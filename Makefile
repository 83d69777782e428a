# Every target installs what it needs into .venv first; a second run finds it there.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test quick lint coverage docs hooks bench soak clean
.DELETE_ON_ERROR:
# Some images set it, and then every process compiles every module anew.
unexport PYTHONDONTWRITEBYTECODE

# One stamp per set of extras: a file that is newer than what decides its contents means "installed".
define installed
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[$(1)]'
	@touch $@
endef

$(VENV)/.installed-demo: pyproject.toml constraints.txt
	$(call installed,train$(comma)speech$(comma)plot$(comma)serve)

$(VENV)/.installed-dev: pyproject.toml constraints.txt
	$(call installed,dev)

$(VENV)/.installed-bench: pyproject.toml constraints.txt
	$(call installed,dev$(comma)bench)

$(VENV)/.installed-docs: pyproject.toml constraints.txt
	$(call installed,docs)

$(VENV)/.installed-hooks: pyproject.toml constraints.txt
	$(call installed,hooks)

comma := ,

demo: $(VENV)/.installed-demo
	$(BIN)/myxtts demo

# Two processes: one mostly compiles, which takes one core. A file stays in one of them, so that what its tests share is
# made once; those that take longest begin first (tests/conftest.py).
PYTEST := -m pytest --dist loadfile --no-loadscope-reorder
test: $(VENV)/.installed-dev
	$(BIN)/python $(PYTEST) -n 2 -m "not soak"

# What needs no TensorFlow and takes no long time. Three processes: they mostly wait for the programs that they start.
quick: $(VENV)/.installed-dev
	$(BIN)/python $(PYTEST) -n 3 -m "not soak and not long" --without-tensorflow -r fE

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# `make coverage TESTS=tests/test_store.py` measures what one file of tests covers.
TESTS ?= tests
coverage: $(VENV)/.installed-dev
	$(BIN)/coverage erase
	$(BIN)/coverage run $(PYTEST) -n 2 -m "not soak" $(TESTS)
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage report

# Into site/; `.venv/bin/mkdocs serve` shows it while you write.
docs: $(VENV)/.installed-docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

# Formats and checks what is about to be committed: .pre-commit-config.yaml.
hooks: $(VENV)/.installed-hooks
	$(BIN)/pre-commit install

# All of it takes about two hours on two cores; `make bench PROGRAMS=benchmarks/bench_step.py` runs one. Those that need
# recordings of yours are run one at a time, with ARGUMENTS.
NEED_DATA := $(patsubst %,benchmarks/bench_%.py,human minutes)
PROGRAMS ?= $(filter-out $(NEED_DATA),$(wildcard benchmarks/bench_*.py))
bench: $(VENV)/.installed-bench
	@mkdir -p bench-results
	@for program in $(PROGRAMS); do \
		name=$$(basename $$program .py); echo "$$name"; \
		$(BIN)/python $$program $(ARGUMENTS) --json bench-results/$$name.json > bench-results/$$name.new || exit 1; \
		cat bench-results/$$name.new; mv bench-results/$$name.new bench-results/$$name.txt; \
	done
	$(BIN)/python tools/make_results.py

# Here times count: TensorFlow and XLA compile as they do for users.
soak: $(VENV)/.installed-dev
	TENSORFLOW_AS_FOR_USERS=1 XLA_FLAGS= $(BIN)/python -m pytest -m soak
	$(BIN)/python -m pytest -m "hypothesis and not soak" --hypothesis-profile other

clean:
	rm -rf $(VENV) demo site bench-results .coverage .coverage.* .pytest_cache .mypy_cache .ruff_cache .hypothesis

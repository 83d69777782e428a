# Every target installs what it needs into .venv first; a second run finds it there.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test lint bench soak clean
.DELETE_ON_ERROR:

# One stamp per set of extras: a file that is newer than what decides its contents means "installed".
define installed
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[$(1)]'
	@touch $@
endef

$(VENV)/.installed-demo: pyproject.toml constraints.txt
	$(call installed,speech)

$(VENV)/.installed-dev: pyproject.toml constraints.txt
	$(call installed,dev)

$(VENV)/.installed-bench: pyproject.toml constraints.txt
	$(call installed,dev$(comma)bench)

comma := ,

demo: $(VENV)/.installed-demo
	$(BIN)/myxtts make-corpus demo/corpus --clips 100 --seed 1
	$(BIN)/myxtts check-data demo/corpus
	$(BIN)/myxtts precompute --data-path demo/corpus

# Two processes: one mostly compiles, which takes one core.
test: $(VENV)/.installed-dev
	$(BIN)/python -m pytest -n 2 --dist worksteal -m "not soak"

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(VENV)/.installed-bench
	@mkdir -p bench-results
	@for program in benchmarks/bench_*.py; do \
		name=$$(basename $$program .py); echo "$$name"; \
		$(BIN)/python $$program --json bench-results/$$name.json || exit 1; \
	done

soak: $(VENV)/.installed-dev
	$(BIN)/python -m pytest -m soak

clean:
	rm -rf $(VENV) demo bench-results .pytest_cache .mypy_cache .ruff_cache .hypothesis

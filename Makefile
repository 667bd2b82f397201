# For people: make demo, test, test-slow, lint, docs, bench, and `make check`, which lists checks that need other programs.
# Environments are made when first needed, from pyproject.toml and constraints.txt: see tests/checks/table.toml.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
CHECKS := $(PYTHON) -m tests.checks
TEST := .venv/bin
LEAN := .venv-lean/bin
# One process of tests more than there are cores, up to four: a quarter of their time they wait, for the disk, for stores
# and for processes that they started.
WORKERS ?= $(shell cores=$$(getconf _NPROCESSORS_ONLN); echo $$((cores < 4 ? cores + 1 : 4)))
PYTEST := $(TEST)/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder
WHOLE := tests/end_to_end tests/addons
# Tests of pages and of the package's structure, which `make lint` runs.
PAGES := tests/pages tests/test_architecture.py

# Modules stay compiled, those that pytest rewrites too: the tests start hundreds of processes.
export PYTHONDONTWRITEBYTECODE =

.PHONY: bench check clean demo docs lean-environment lint test test-environment test-slow

test-environment:
	@$(CHECKS) --environment test > /dev/null

lean-environment:
	@$(CHECKS) --environment lean > /dev/null

demo: lean-environment
	$(LEAN)/python examples/write_digits.py demo/digits
	$(LEAN)/shardmill images --input demo/digits --output demo/datasets --name digits \
	  --splits train=0.8,validation=0.1,test=0.1 --stratify_by label --overwrite
	$(LEAN)/python examples/write_tables.py demo/tables
	$(LEAN)/shardmill csv --input demo/tables/wine.csv --output demo/datasets --name wine \
	  --label cultivar --stratify_by cultivar --splits train=0.8,test=0.2 --overwrite
	$(LEAN)/shardmill text --input demo/tables/text --output demo/datasets --name lines --line_numbers --overwrite
	for name in digits wine lines; do $(LEAN)/shardmill verify demo/datasets/$$name || exit 1; done
	$(LEAN)/shardmill inspect demo/datasets/digits --contact_sheet demo/digits.png
	$(LEAN)/shardmill report demo/datasets/digits --output demo/digits.html
	@echo
	@echo 'Open demo/digits.html: the page of the images, with statistics. Open demo/digits.png: some of them.'
	@echo 'The data sets are in demo/datasets. Next: $(LEAN)/shardmill inspect demo/datasets/wine, and docs/first-images.md.'

test: test-environment
	$(PYTEST) -m 'not slow' $(addprefix --ignore=,$(WHOLE) $(PAGES))
	$(PYTEST) -m 'not slow' $(WHOLE)

# Kills, faults and nights on stores, installations, other runners, tutorials, most cases with TensorFlow.
test-slow: test-environment
	$(PYTEST) -m slow

lint: test-environment
	$(TEST)/ruff format --check .
	$(TEST)/ruff check .
	$(TEST)/mypy src/shardmill tests benchmarks examples
	$(TEST)/python -m tests.support.prose
	$(TEST)/codespell
	$(PYTEST) -m 'not slow' $(PAGES)
	for file in $(wildcard src/shardmill/_native*.c); do $(CC) -std=gnu11 -fPIC -Wall -Wextra -Werror -Wno-unused-parameter \
	  -O3 -I$$($(TEST)/python -c 'import sysconfig; print(sysconfig.get_paths()["include"])') -c -o /dev/null $$file || exit 1; done

docs:
	$(CHECKS) docs

# Forty minutes and 25 GB of disk; writes the tables of docs/benchmarks.md. `make bench QUICK=1` tries all on tiny inputs.
bench: export SHARDMILL := $(abspath $(LEAN))/shardmill
bench: test-environment lean-environment
	$(TEST)/python benchmarks/$(if $(CORES),bench_cores.py --cores $(CORES),run_all.py $(if $(QUICK),--quick))

check:
	@$(CHECKS) $(NAME)

clean:
	rm -rf .venv .venv-* demo bench-data build dist *.egg-info

# One virtual environment, pinned by constraints.txt, serves everything; it is made when first needed.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV ?= .venv
BIN := $(VENV)/bin

.PHONY: demo test lint format bench clean

$(VENV)/installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check uv
	$(BIN)/uv pip install --quiet --python $(BIN)/python -c constraints.txt -e '.[test]'
	touch $@

demo: $(VENV)/installed
	$(BIN)/python examples/write_digits.py demo/digits
	$(BIN)/shardmill images --input demo/digits --output demo/datasets --name digits \
	  --splits train=0.8,validation=0.1,test=0.1 --stratify_by label --overwrite
	$(BIN)/shardmill verify demo/datasets/digits --decode
	$(BIN)/shardmill inspect demo/datasets/digits --contact_sheet demo/digits.png

test: $(VENV)/installed
	$(BIN)/python -m pytest

lint: $(VENV)/installed
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy shardmill transforms pipelines tests benchmarks examples

format: $(VENV)/installed
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(VENV)/installed
	$(BIN)/python benchmarks/bench_images.py
	$(BIN)/python benchmarks/bench_memory.py

clean:
	rm -rf $(VENV) demo bench-data build dist *.egg-info

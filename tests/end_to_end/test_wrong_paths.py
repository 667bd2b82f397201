"""Paths, places and processes that are not what a command expects: one sentence that says what to do, or a warning."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import shardmill
from tests.support.command import REPOSITORY, Run


def write_csv(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("a,b\n1,x\n2,y\n3,z\n")
    return path


def convert(run: Run, path: object, output: Path, command: str = "csv", *flags: str) -> str:
    """Return the error of a conversion that must not begin."""
    result = run(command, "--input", path, "--output", output, "--name", "d", *flags)
    assert result.status == 2
    assert not output.exists()
    return result.err


@pytest.mark.parametrize(
    ("command", "file", "words"),
    [
        ("images", "x.csv", "is for `shardmill csv`; this command reads images"),
        ("parquet", "x.csv", "is for `shardmill csv`"),
        ("csv", "x.parquet", "is for `shardmill parquet`"),
        ("csv", "x.jsonl", "is for `shardmill jsonl`"),
        ("text", "x.parquet", "is for `shardmill parquet`"),
        ("jsonl", "x.csv", "is for `shardmill csv`"),
        ("audio", "x.npy", "is for `shardmill arrays`"),
        ("csv", "x.jpg", "is for `shardmill images`"),
        ("parquet", "x.arrow", "Dataset.from_file(FILE).to_parquet(NEW)"),
        ("webdataset", "x.mds", "MosaicML's StreamingDataset reads it"),
    ],
)
@pytest.mark.parametrize("pattern", ["{file}", "*{suffix}"])
def test_files_of_another_command(command: str, file: str, words: str, pattern: str, run: Run, tmp_path: Path) -> None:
    write_csv(tmp_path / file)
    path = tmp_path / pattern.format(file=file, suffix=Path(file).suffix)
    assert words in convert(run, path, tmp_path / "out", command)


@pytest.mark.parametrize(("file", "command"), [("x.txt", "csv"), ("x.csv", "text"), ("x.dat", "csv")])
def test_a_text_file_is_read_as_asked(file: str, command: str, run: Run, tmp_path: Path) -> None:
    path = write_csv(tmp_path / file)
    assert run(command, "--input", path, "--output", tmp_path / "out", "--name", "d").status == 0


def test_arrow_files_are_read_once_they_are_parquet(run: Run, tmp_path: Path) -> None:
    from datasets import Dataset

    Dataset.from_dict({"a": [1, 2]}).save_to_disk(tmp_path / "saved")
    result = run("parquet", "--input", tmp_path / "saved", "--output", tmp_path / "out", "--name", "d")
    assert result.status == 2
    assert "Dataset.from_file(FILE).to_parquet(NEW)" in result.err
    (file,) = (tmp_path / "saved").glob("*.arrow")
    Dataset.from_file(str(file)).to_parquet(tmp_path / "new.parquet")
    result = run("parquet", "--input", tmp_path / "new.parquet", "--output", tmp_path / "out", "--name", "d")
    assert result.status == 0
    assert sorted(example["a"] for example in shardmill.examples(tmp_path / "out" / "d")) == [1, 2]


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("--direct_num_workers", "-1"), "expected a number of processes, or 0 for one per core"),
        (("--file_template", "{DATASET}-{SPLIT}.tfrecord.gz-{SHARD_X_OF_Y}"), "which --compression gzip adds"),
    ],
)
def test_flags(flags: tuple[str, ...], words: str, run: Run, tmp_path: Path) -> None:
    assert words in convert(run, write_csv(tmp_path / "x.csv"), tmp_path / "out", "csv", *flags)


def test_a_hub_is_downloaded_first(run: Run, tmp_path: Path) -> None:
    assert "hf download NAME --repo-type dataset" in convert(run, "hf://datasets/x", tmp_path / "out")


@pytest.fixture
def two(run: Run, tmp_path: Path) -> Path:
    """A folder of two data sets."""
    for name in ("flowers", "rows"):
        path = write_csv(tmp_path / "x.csv")
        assert run("csv", "--input", path, "--output", tmp_path / "all", "--name", name).status == 0
    return tmp_path / "all"


@pytest.mark.parametrize("command", ["inspect", "verify", "report"])
def test_a_folder_of_data_sets_is_listed(command: str, run: Run, two: Path) -> None:
    result = run(command, two)
    assert result.status == 2
    assert f"it holds data sets; give one of them: {two}/flowers, {two}/rows" in result.err
    page = ("--output", two / "page.html") if command == "report" else ()
    assert run(command, two / "flowers", *page).status == 0


@pytest.mark.parametrize("command", ["inspect", "verify", "report"])
def test_what_is_no_folder(command: str, run: Run, two: Path, tmp_path: Path) -> None:
    assert "it is a file; give the folder that its manifest.json is in" in run(command, tmp_path / "x.csv").err
    assert "there is no such folder" in run(command, tmp_path / "away").err


@pytest.mark.parametrize("unreadable", ["flowers", "flowers/1.0.0", "flowers/1.0.0/manifest.json"])
def test_what_may_not_be_read(unreadable: str, two: Path) -> None:
    path = two / unreadable
    mode = path.stat().st_mode
    bind = "from tests.support.command import bind_root_to_permissions; bind_root_to_permissions(); "
    read = f"import shardmill; list(shardmill.examples({str(two / 'flowers')!r}))"
    inspect = f"from shardmill.pipelines.cli import main; sys.exit(main(['inspect', {str(two / 'flowers')!r}]))"
    path.chmod(0)
    try:
        found, inspected = (
            subprocess.run(
                [sys.executable, "-c", f"import sys; {bind}{program}"], cwd=REPOSITORY, capture_output=True, text=True
            )
            for program in (read, inspect)
        )
    finally:
        path.chmod(mode)
    assert "shardmill.errors.UserError: " in found.stderr
    assert "cannot be read: Permission denied" in found.stderr
    assert inspected.returncode == 2
    assert "cannot be read: Permission denied" in inspected.stderr


def shell(words: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run `shardmill` with `words` in a shell, in a folder."""
    command = f"{sys.executable} -m shardmill {words}"
    return subprocess.run(
        command, shell=True, cwd=folder, capture_output=True, text=True, env={**os.environ, **environment}
    )


@pytest.mark.parametrize("more", ["", " --json"])
def test_a_full_disk_behind_stdout_loses_no_version(more: str, tmp_path: Path) -> None:
    write_csv(tmp_path / "x.csv")
    found = shell(f"csv --input x.csv --output out --name d{more} > /dev/full", tmp_path)
    assert found.returncode == 0
    assert "standard output cannot be written: No space left on device; " in found.stderr
    assert "published" in found.stderr
    assert "Traceback" not in found.stderr
    found = shell("inspect out/d > /dev/full", tmp_path)
    assert found.returncode == 1
    assert found.stderr == "shardmill: error: standard output cannot be written: No space left on device\n"


def test_recipes_after_a_full_disk_behind_stdout_are_built(tmp_path: Path) -> None:
    write_csv(tmp_path / "x.csv")
    for name in ("one", "two"):
        recipe = f"name: {name}\noutput: out\ncsv:\n  input: x.csv\n"
        (tmp_path / f"{name}.yaml").write_text(recipe)
    found = shell("rebuild one.yaml two.yaml > /dev/full", tmp_path)
    assert found.returncode == 0, found.stderr
    assert (tmp_path / "out/one/LATEST").exists()
    assert (tmp_path / "out/two/LATEST").exists()
    assert found.stderr.count("standard output cannot be written") == 1


def test_a_folder_that_was_deleted(tmp_path: Path) -> None:
    folder = tmp_path / "deleted"
    folder.mkdir()
    path = write_csv(tmp_path / "x.csv")
    command = f"rmdir ../deleted; {sys.executable} -m shardmill csv --input {path} --output out --name d"
    found = subprocess.run(command, shell=True, cwd=folder, capture_output=True, text=True)
    assert found.returncode == 2
    assert found.stderr == "shardmill: error: the folder that this command runs in was deleted; change to another one\n"


def test_a_locale_that_is_not_utf_8(tmp_path: Path) -> None:
    write_csv(tmp_path / "é" / "x.csv")
    ascii_locale = {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}
    found = shell("csv --input . --output ../out --name d", tmp_path / "é", **ascii_locale)
    assert found.returncode == 2
    assert "set PYTHONUTF8=1" in found.stderr
    assert not (tmp_path / "out").exists()
    found = shell("csv --input . --output ../out --name d", tmp_path / "é", **{**ascii_locale, "PYTHONUTF8": "1"})
    assert found.returncode == 0


def write_lines(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text('{"a": 1}\n{"a": 2}\n')
    return path


@pytest.mark.parametrize(
    ("command", "pattern"),
    [
        ("jsonl", "**/*.jsonl"),
        ("jsonl", "**/*.json"),
        ("reshard", "**/*.tfrecord*"),
        ("reshard", "**/*-test.tfrecord*"),
        ("text", "**/*.txt"),
        ("text", "*/*/*/*.pbtxt"),
    ],
)
def test_a_glob_that_matches_the_output_stops_the_first_job(
    command: str, pattern: str, run: Run, tmp_path: Path
) -> None:
    write_lines(tmp_path / "x/a.jsonl")
    result = run(command, "--input", tmp_path / "x" / pattern, "--output", tmp_path / "x/out", "--name", "d")
    assert result.status == 2
    assert "the next run would read its own output" in result.err


@pytest.mark.parametrize("pattern", ["all", "all/**/*.tfrecord*", "all/d/**/*.tfrecord*"])
def test_data_sets_below_the_input_are_passed_over(pattern: str, run: Run, tmp_path: Path) -> None:
    source = write_lines(tmp_path / "x.jsonl")
    assert run("jsonl", "--input", source, "--output", tmp_path / "all", "--name", "d").status == 0
    result = run("reshard", "--input", tmp_path / pattern, "--output", tmp_path / "out", "--name", "d")
    assert result.status == 2
    assert "passed over 1 output file that shardmill wrote" in result.err
    assert "to read it, give the folder of a version" in result.err
    source = tmp_path / "all/d/1.0.0"
    assert run("reshard", "--input", source, "--output", tmp_path / "out", "--name", "d").status == 0


def test_the_folder_of_a_data_set_is_its_latest_version(run: Run, tmp_path: Path) -> None:
    for number, version in enumerate(("1.0.0", "1.0.1", "1.1.0")):
        source = tmp_path / "x.jsonl"
        source.write_text(f'{{"a": {number}}}\n')
        flags = ("--output", tmp_path / "all", "--name", "d", "--version", version)
        assert run("jsonl", "--input", source, *flags).status == 0
    assert run("rollback", tmp_path / "all/d", "1.0.1").status == 0
    assert run("reshard", "--input", tmp_path / "all/d", "--output", tmp_path / "out", "--name", "d").status == 0
    assert [example["a"] for example in shardmill.examples(tmp_path / "out/d")] == [1]


def test_a_recipe_of_a_glob_above_data_sets_is_unchanged(run: Run, tmp_path: Path) -> None:
    write_lines(tmp_path / "x/a.jsonl")
    source = tmp_path / "x/a.jsonl"
    assert run("jsonl", "--input", source, "--output", tmp_path / "x/sets", "--name", "other").status == 0
    recipe = f"name: d\noutput: {tmp_path}/out\njsonl:\n  input: {tmp_path}/x/**/*.jsonl\n"
    (tmp_path / "d.yaml").write_text(recipe)
    assert run("rebuild", tmp_path / "d.yaml").status == 0
    (tmp_path / "x/sets/other/1.0.0-rejects.jsonl").write_text('{"a": 3}\n')
    result = run("rebuild", tmp_path / "d.yaml")
    assert result.status == 0
    assert "unchanged" in result.out

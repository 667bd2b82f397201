"""Paths, places and processes that are not what a command expects: one sentence that says what to do, or a warning;
input that cannot be listed or read is reported alike, however it is named and of whatever kind it is."""

import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shardmill
from shardmill.data.tfrecord import frame_record
from shardmill.pipelines import cli
from shardmill.transforms.inputs import listing
from shardmill.transforms.inputs.folders import FileKind
from tests.support.command import Process, Run, bind_root_to_permissions, image, npy, write_files
from tests.support.encoded import encode_example
from tests.support.jobs import Built, Jobs

TABLE = "a,b\n1,x\n2,y\n3,z\n"


def write_csv(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(TABLE)
    return path


@pytest.mark.parametrize(
    ("command", "file", "words"),
    [
        ("images", "x.csv", "is for `shardmill csv`; this command reads images"),
        ("csv", "x.parquet", "is for `shardmill parquet`"),
        ("csv", "x.jpg", "is for `shardmill images`"),
        ("parquet", "x.arrow", "Dataset.from_file(FILE).to_parquet(NEW)"),
        ("webdataset", "x.mds", "MosaicML's StreamingDataset reads it"),
        ("jsonl", "x.jsonl.xz", "no command reads this format; unpack it, or compress it with gzip"),
    ],
)
def test_files_of_another_command(command: str, file: str, words: str, jobs: Jobs) -> None:
    jobs.refuse(f"{command} --input in/{file.replace('x.c', '*.c')}", words, files={file: TABLE})


@pytest.mark.parametrize(("file", "command"), [("x.txt", "csv"), ("x.csv", "text"), ("x.dat", "csv")])
def test_a_text_file_is_read_as_asked(file: str, command: str, jobs: Jobs) -> None:
    jobs.build(f"{command} --input in/{file}", files={file: TABLE})


def test_arrow_files_are_read_once_they_are_parquet(jobs: Jobs) -> None:
    from datasets import Dataset

    Dataset.from_dict({"a": [1, 2]}).save_to_disk(jobs.folder / "in")
    jobs.refuse("parquet", "Dataset.from_file(FILE).to_parquet(NEW)")
    (file,) = jobs.folder.glob("in/*.arrow")
    Dataset.from_file(str(file)).to_parquet(jobs.folder / "new.parquet")
    assert sorted(jobs.build("parquet --input new.parquet").table.column("a")) == [1, 2]


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ("--direct_num_workers -1", "expected a number of processes, or 0 for one per core"),
        ("--file_template {DATASET}-{SPLIT}.tfrecord.gz-{SHARD_X_OF_Y}", "which --compression gzip adds"),
        ("--input hf://datasets/x", "hf download NAME --repo-type dataset"),
    ],
)
def test_flags(flags: str, words: str, jobs: Jobs) -> None:
    jobs.refuse(f"csv {flags}", words, files={"x.csv": TABLE})


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of two data sets, beside the table that they were made of."""
    folder = tmp_path_factory.mktemp("two")
    for name in ("flowers", "rows"):
        words = ("csv", "--input", write_csv(folder / "x.csv"), "--output", folder / "all", "--name", name)
        assert cli.main([str(word) for word in words]) == 0
    return folder / "all"


@pytest.mark.parametrize("command", ["inspect", "verify", "report"])
def test_a_folder_that_is_no_data_set(command: str, run: Run, two: Path, tmp_path: Path) -> None:
    result = run(command, two)
    assert result.status == 2
    assert f"it holds data sets; give one of them: {two}/flowers, {two}/rows" in result.err
    of_file = "it is a file; give the folder" if command == "report" else "the file begins as texts do"
    refused = run(command, two.with_name("x.csv"))
    assert (of_file in refused.out + refused.err, refused.status > 0) == (True, True)
    assert "there is no such folder" in run(command, two / "away").err
    page = ("--output", tmp_path / "page.html") if command == "report" else ()
    assert run(command, two / "flowers", *page).status == 0


def read_bound_to_permissions(directory: Path) -> None:
    bind_root_to_permissions()
    with pytest.raises(shardmill.UserError, match="cannot be read: Permission denied"):
        list(shardmill.examples(directory))


@pytest.mark.parametrize("unreadable", ["flowers", "flowers/1.0.0", "flowers/1.0.0/manifest.json"])
def test_what_may_not_be_read(unreadable: str, two: Path, tmp_path: Path) -> None:
    path = two / unreadable
    mode = path.stat().st_mode
    before = partial(read_bound_to_permissions, two / "flowers")
    path.chmod(0)
    try:
        inspected = Process(tmp_path / "process", "inspect", two / "flowers", before=before).result()
    finally:
        path.chmod(mode)
    assert (inspected.status, "cannot be read: Permission denied" in inspected.err) == (2, True), inspected.err


def to_a_full_disk() -> None:
    os.dup2(os.open("/dev/full", os.O_WRONLY), 1)


def test_a_full_disk_behind_stdout_loses_no_version(tmp_path: Path) -> None:
    words = ("csv", "--input", write_csv(tmp_path / "x.csv"), "--output", tmp_path / "out", "--name", "d")
    for name, more in ("plain", ()), ("json", ("--json", "--overwrite")):
        found = Process(tmp_path / name, *words, *more, before=to_a_full_disk).result()
        assert found.status == 0
        assert "standard output cannot be written: No space left on device; " in found.err
        assert "published" in found.err
        assert "Traceback" not in found.err
    found = Process(tmp_path / "inspect", "inspect", tmp_path / "out/d", before=to_a_full_disk).result()
    assert (found.status, found.err) == (
        1,
        "shardmill: error: standard output cannot be written: No space left on device\n",
    )


def test_recipes_after_a_full_disk_behind_stdout_are_built(tmp_path: Path) -> None:
    recipes = [tmp_path / f"{name}.yaml" for name in ("one", "two")]
    for path in recipes:
        path.write_text(f"name: {path.stem}\noutput: {tmp_path}/out\ncsv:\n  input: {write_csv(tmp_path / 'x.csv')}\n")
    found = Process(tmp_path / "process", "rebuild", *recipes, before=to_a_full_disk).result()
    assert found.status == 0, found.err
    assert (tmp_path / "out/one/LATEST").exists()
    assert (tmp_path / "out/two/LATEST").exists()
    assert found.err.count("standard output cannot be written") == 1


def test_a_folder_that_was_deleted(tmp_path: Path) -> None:
    folder = tmp_path / "deleted"
    folder.mkdir()
    path = write_csv(tmp_path / "x.csv")
    command = f"rmdir ../deleted; {sys.executable} -m shardmill csv --input {path} --output out --name d"
    found = subprocess.run(command, shell=True, cwd=folder, capture_output=True, text=True)
    assert found.returncode == 2
    assert found.stderr == "shardmill: error: the folder that this command runs in was deleted; change to another one\n"


def test_a_locale_that_is_not_utf_8(tmp_path: Path) -> None:
    folder = write_csv(tmp_path / "é" / "x.csv").parent
    ascii_locale = {**os.environ, "LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}
    words = [sys.executable, *["-m", "shardmill", "csv", "--input", ".", "--output", "../out", "--name", "d"]]
    found = subprocess.run(words, cwd=folder, capture_output=True, text=True, env=ascii_locale)
    assert found.returncode == 2
    assert "set PYTHONUTF8=1" in found.stderr
    assert not (tmp_path / "out").exists()
    found = subprocess.run(words, cwd=folder, capture_output=True, text=True, env={**ascii_locale, "PYTHONUTF8": "1"})
    assert found.returncode == 0


LINES = {"a.jsonl": '{"a": 1}\n{"a": 2}\n'}


@pytest.mark.parametrize(
    ("command", "pattern"), [("jsonl", "**/*.jsonl"), ("reshard", "**/*-test.tfrecord*"), ("text", "*/*/*/*.pbtxt")]
)
def test_a_glob_that_matches_the_output_stops_the_first_job(command: str, pattern: str, jobs: Jobs) -> None:
    said = "the next run would read its own output"
    jobs.refuse(f"{command} --input in/{pattern} --output in/out", said, files=LINES)


@pytest.mark.parametrize("pattern", ["all", "all/**/*.tfrecord*", "all/n/**/*.tfrecord*"])
def test_data_sets_below_the_input_are_passed_over(pattern: str, jobs: Jobs) -> None:
    jobs.build("jsonl --output all", files=LINES)
    said = "passed over 1 output file that shardmill wrote…to read it, give the folder of a version"
    jobs.refuse(f"reshard --input {pattern}", said)
    jobs.build("reshard --input all/n/1.0.0")


def test_the_folder_of_a_data_set_is_its_latest_version(jobs: Jobs, run: Run) -> None:
    for number, version in enumerate(("1.0.0", "1.0.1", "1.1.0")):
        jobs.build(f"jsonl --output all --version {version}", files={"x.jsonl": f'{{"a": {number}}}\n'})
    assert run("rollback", "all/n", "1.0.1").status == 0
    assert [example["a"] for example in jobs.build("reshard --input all/n").examples()] == [1]


def test_a_recipe_of_a_glob_above_data_sets_is_unchanged(jobs: Jobs, run: Run) -> None:
    jobs.build("jsonl --input in/a.jsonl --output in/sets --name other", files=LINES)
    Path("d.yaml").write_text("name: d\noutput: out\njsonl:\n  input: in/**/*.jsonl\n")
    assert run("rebuild", "d.yaml").status == 0
    Path("in/sets/other/1.0.0-rejects.jsonl").write_text('{"a": 3}\n')
    result = run("rebuild", "d.yaml")
    assert result.status == 0
    assert "unchanged" in result.out


# By the kind: its command, the suffix of its files, and the content of one by a number
KINDS: Mapping[str, tuple[str, str, Callable[[int], bytes]]] = {
    "images": ("images", "jpg", image),
    "arrays": ("arrays", "npy", lambda number: npy(np.full((2, 2), number, np.float32))),
    "csv": ("csv", "csv", lambda number: b"n\n%d\n" % number),
    "reshard": ("reshard", "tfrecord", lambda number: frame_record(encode_example({"n": [number]}))),
}
TOLERANT = ("--on_damaged_file", "reject", "--max_reject_fraction", "0.9")
WAYS = {
    "folder": "--input {0}",
    "deep glob": "--input {0}/**/*.{1}",
    "choices": "--input {0}/{{a,locked,shut,away}}",
    "choices of globs": "--input {0}/{{a,locked,shut,away}}/*.{1}",
    "glob of a named split": "--input train={0}/*/*.{1}",
}


@pytest.fixture
def faulty(tmp_path: Path) -> Iterator[Callable[[str], Path]]:
    """Make a folder of files of a kind, with every fault that a disk has."""

    def make(kind: str) -> Path:
        _, suffix, content = KINDS[kind]
        names = [f"a/{number}.{suffix}" for number in range(3)]
        names += [f"a/secret.{suffix}", f"locked/1.{suffix}", f"shut/1.{suffix}", f"b/1.{suffix}"]
        folder = write_files(tmp_path / "in", {name: content(number) for number, name in enumerate(names)})
        (folder / f"a/gone.{suffix}").symlink_to("nowhere")
        (folder / "b").rename(tmp_path / "elsewhere")
        (folder / "away").symlink_to(tmp_path / "elsewhere" / "inner")
        (tmp_path / "elsewhere" / "inner").mkdir()
        for path, mode in ((f"a/secret.{suffix}", 0), ("locked", 0), ("shut", 0o444), ("../elsewhere", 0)):
            (folder / path).chmod(mode)
        return folder

    yield make
    for name in ("in/locked", "in/shut", "elsewhere"):
        (tmp_path / name).chmod(0o755)


def reasons(tmp_path: Path, *words: object) -> dict[str, str]:
    """Run a job that accepts rejects as a user who is bound to permissions; the reason for each reject."""
    command = (*words, "--output", tmp_path / "out", "--name", "d", *TOLERANT)
    result = Process(tmp_path / "process", *command, before=bind_root_to_permissions).result()
    assert result.status == 0, result.err
    found = Built(tmp_path / "out/d/1.0.0").file_reasons
    return {source.rstrip("/"): reason for source, reason in found.items()}


@pytest.mark.parametrize(
    ("way", "kind"),
    [
        *(("folder", "images"), ("folder", "csv")),
        ("deep glob", "images"),
        ("choices of globs", "csv"),
        ("glob of a named split", "reshard"),
    ],
)
def test_every_fault_is_a_reject(way: str, kind: str, faulty: Callable[[str], Path], tmp_path: Path) -> None:
    command, suffix, _ = KINDS[kind]
    flags = WAYS[way].format(faulty(kind), suffix)

    found = reasons(tmp_path, *command.split(), *flags.split())
    assert {source.removeprefix("train/"): reason for source, reason in found.items()} == {
        f"a/secret.{suffix}": "cannot be read: Permission denied",
        f"a/gone.{suffix}": "dangling or looping symbolic link: No such file or directory",
        "locked": "cannot list the folder: Permission denied",
        f"shut/1.{suffix}": "Permission denied",
        "away": "cannot list the folder: Permission denied",
    }


@pytest.mark.parametrize(("way", "kind"), [("folder", "images"), ("deep glob", "csv"), ("recipe", "csv")])
def test_a_folder_that_cannot_be_listed_fails_the_job(
    way: str, kind: str, faulty: Callable[[str], Path], tmp_path: Path
) -> None:
    """Nobody knows how much is lost."""
    command, suffix, _ = KINDS[kind]
    folder = faulty(kind)
    words = [command, *WAYS.get(way, "").format(folder, suffix).split(), "--output", str(tmp_path), "--name", "d"]
    if way == "recipe":
        recipe = tmp_path / "d.yaml"
        recipe.write_text(f"name: d\noutput: {tmp_path}\n{command}:\n  input: {folder}/*/*.{suffix}\n")
        words = ["rebuild", str(recipe)]
    words += ["--max_reject_fraction", "0.9"] if way != "recipe" else []
    result = Process(tmp_path / "process", *words, before=bind_root_to_permissions).result()
    assert result.status == 1, result
    assert not (tmp_path / "d" / "1.0.0").exists()


def test_a_manifest_names_the_same_rejects(faulty: Callable[[str], Path], tmp_path: Path) -> None:
    folder = faulty("images")
    names = ["a/0.jpg", "a/secret.jpg", "a/gone.jpg", "locked/1.jpg", "shut/1.jpg", "away/1.jpg"]
    (folder / "list.csv").write_text("\n".join(["file_name", *names]) + "\n")

    found = reasons(tmp_path, "images", "--manifest", folder / "list.csv", "--allow_outside")
    denied = "cannot be read: Permission denied"
    assert found == {
        **dict.fromkeys(("a/secret.jpg", "locked/1.jpg", "shut/1.jpg", "away/1.jpg"), denied),
        "a/gone.jpg": "no such file",
    }


def test_manifests_of_a_glob_of_which_one_cannot_be_found(faulty: Callable[[str], Path], tmp_path: Path) -> None:
    folder = faulty("images")
    (folder / "a" / "list.csv").write_text("file_name\n0.jpg\n")
    words = ("images", "--manifest", f"{folder}/*/list.csv", "--output", tmp_path / "out", "--name", "d")
    result = Process(tmp_path / "process", *words, before=bind_root_to_permissions).result()
    assert (result.status, "cannot list the folder: Permission denied" in result.err) == (2, True), result


@pytest.mark.parametrize("pattern", ["in", "in/*/*.jpg", "in/**/*.jpg"])
def test_a_dangling_link_to_a_folder_is_shown(jobs: Jobs, pattern: str) -> None:
    files = {"a/0.jpg": image(0), "a/1.jpg": image(1), "b->nowhere": b""}
    built = jobs.build(f"images --input {pattern}", files=files)
    assert "passed over 1 broken symbolic link, such as 'b'" in built.said


@pytest.mark.parametrize("pattern", ["{0}", "{0}/*/*.{1}", "{0}/**/*.{1}"])
@pytest.mark.parametrize(
    ("kind", "name"), [("images", "@eaDir/1.jpg"), ("parquet", "_temporary/1.parquet"), ("parquet", "a/_x.parquet")]
)
def test_files_of_systems_are_no_input(kind: str, name: str, pattern: str, tmp_path: Path) -> None:
    suffix = name.rpartition(".")[2]
    folder = write_files(tmp_path / "in", dict.fromkeys((f"a/1.{suffix}", name), b"x"))
    (tmp_path / "in" / ".git").mkdir()
    files = FileKind(kind, suffix, is_parquet=kind == "parquet")
    found = list(listing.list_singly(listing.list_input(pattern.format(folder, suffix), files)))

    assert listing.find_names(found) == [f"a/1.{suffix}"]
    skipped = [item.name for item in found if isinstance(item, listing.Skipped) and item.name != ".git"]
    assert skipped == [name if "_x" in name else name.partition("/")[0]]


@pytest.mark.parametrize(("command", "suffix", "content"), [("csv", "csv", b"n\n1\n"), ("text", "txt", b"a\n")])
def test_a_file_that_vanishes_after_it_was_listed_is_a_reject(
    command: str, suffix: str, content: bytes, jobs: Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    list_files = listing.RecordFiles.list_files

    def list_and_delete(*arguments: Any) -> Iterator[Any]:
        yield from list_files(*arguments)
        (jobs.folder / f"in/b.{suffix}").unlink()

    monkeypatch.setattr(listing.RecordFiles, "list_files", list_and_delete)
    built = jobs.build(command, *TOLERANT, files={f"{name}.{suffix}": content for name in "ab"})
    assert ["No such file" in reject["reason"] for reject in built.rejects] == [True]


@pytest.mark.parametrize("kind", ["images", "arrays"])
def test_a_member_of_an_archive_that_cannot_be_read_is_a_reject(kind: str, jobs: Jobs) -> None:
    command, suffix, content = KINDS[kind]
    archive = jobs.folder / "in.zip"
    with zipfile.ZipFile(archive, "w") as file:
        for number in range(3):
            file.writestr(f"a/{number}.{suffix}", content(number))
    data = bytearray(archive.read_bytes())
    data[data.index(content(1)) + len(content(1)) - 2] ^= 1
    archive.write_bytes(data)
    ((source, reason),) = jobs.build(f"{command} --input in.zip", *TOLERANT).file_reasons.items()
    assert source == f"a/1.{suffix}"
    assert "it is damaged: its checksum is another" in reason


def test_links_to_folders_are_followed_by_annotations_too(jobs: Jobs) -> None:
    """Rejects are the same as by --input alone."""
    kinds = (("images", "jpg", image()), ("labels", "txt", b"0 .5 .5 .2 .2\n"))
    write_files(
        jobs.folder / "elsewhere", {f"{kind}/{n}.{suffix}": data for kind, suffix, data in kinds for n in range(4)}
    )
    links: dict[str, bytes | str] = {f"{kind}->../elsewhere/{kind}": b"" for kind, _, _ in kinds}
    links["data.yaml"] = json.dumps({"train": "images", "names": ["ant"]})
    assert jobs.build("images --yolo in/data.yaml --allow_outside", files=links).splits == {"train": 4}

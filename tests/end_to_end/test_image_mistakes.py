"""Mistakes in the flags and the input of `shardmill images`: one sentence, and nothing is written."""

import os
from pathlib import Path

import pytest

from shardmill.pipelines.jobs.registry import KINDS
from tests.support.bad_images import write_manifest
from tests.support.command import (
    Process,
    Run,
    bind_root_to_permissions,
    check_mistake,
    image,
    image_tree,
    read_back,
    tree_bytes,
    write_files,
)

# Flags beside --name, --output and --input (unless --manifest or --input stands among them), and words of the sentence.
WRONG_FLAGS: list[tuple[tuple[str, ...], tuple[str, ...]]] = [
    (("--splits", "train=0.8,test=0.3"), ("--splits", "add up to 1.1", "expected 1")),
    (("--splits", "train=0.5"), ("--splits", "add up to 0.5")),
    (("--splits", "train=1.5,test=-0.5"), ("--splits", "'test' has fraction -0.5")),
    (("--splits", "train=0.5,train=0.5"), ("--splits", "'train' is named twice")),
    (("--splits", "train=lots,test=0.1"), ("--splits", "'train=lots' is not name=fraction")),
    (("--splits", "train=nan,test=0.1"), ("--splits", "'train=nan' is not name=fraction")),
    (("--splits", "a-b=1"), ("--splits", "'a-b=1'", "letters, digits and '_'")),
    (("--splits", ""), ("--splits", "is not name=fraction")),
    (("--num_shards", "0"), ("--num_shards 0", "expected 1 to 99,999")),
    (("--num_shards", "-3"), ("--num_shards", "-3")),
    (("--num_shards", "1000000"), ("--num_shards 1000000", "expected 1 to 99,999")),
    (("--num_shards", "train=1000000"), ("--num_shards train=1000000", "expected 1 to 99,999")),
    (("--num_shards", "many"), ("--num_shards", "'many'", "neither a number nor split=number")),
    (("--num_shards", "train=2,train=3"), ("--num_shards", "names a split twice")),
    (("--num_shards", "nosuch=2"), ("--num_shards nosuch=", "the splits are train")),
    (("--num_shards", "=2"), ("--num_shards",)),
    (("--num_shards", "tets=2", "--splits", "train=0.5,test=0.5"), ("--num_shards tets=2", "--splits has train, test")),
    (("--num_shards", "2", "--shard_size", "1MB"), ("--num_shards or --shard_size, not both",)),
    (("--shard_size", "0"), ("--shard_size 0", "at least 1 byte")),
    (("--shard_size", "big"), ("--shard_size", "'big' is not a size")),
    (("--shard_size", "1e9"), ("--shard_size", "'1e9' is not a size")),
    (("--resize", "224"), ("--resize", "'224' is not WIDTHxHEIGHT")),
    (("--resize", "0x10"), ("--resize", "'0x10' is not WIDTHxHEIGHT")),
    (("--resize", "99999999999x1"), ("--resize", "is not WIDTHxHEIGHT")),
    (("--resize_mode", "cover"), ("--resize_mode cover needs --resize",)),
    (("--resize", "9x9", "--resize_mode", "squash"), ("--resize_mode", "squash", "contain")),
    (("--jpeg_quality", "101"), ("--jpeg_quality 101", "1 to 100")),
    (("--jpeg_quality", "x"), ("--jpeg_quality", "x")),
    (("--max_pixels", "0"), ("--max_pixels 0", "positive")),
    (("--max_reject_fraction", "1.1"), ("--max_reject_fraction 1.1", "0 to 1")),
    (("--max_reject_fraction", "nan"), ("--max_reject_fraction nan", "0 to 1")),
    (("--threads", "-1"), ("--threads -1",)),
    (("--threads", "1000"), ("--threads 1000",)),
    (("--seed", "-1"), ("--seed -1", "2^64")),
    (("--split_seed", str(1 << 64)), ("--split_seed", "2^64")),
    (("--image_format", "webp"), ("--image_format", "webp", "jpeg", "png")),
    (("--verify", "all"), ("--verify", "all", "header")),
    (("--balance", "pixels"), ("--balance", "pixels", "bytes")),
    (("--compression", "zip"), ("--compression", "zip", "gzip")),
    (("--name", "my-flowers"), ("--name 'my-flowers'", "letters, digits and '_'")),
    (("--name", ""), ("--name ''",)),
    (("--name", "../up"), ("--name '../up'",)),
    (("--version", "1.0"), ("--version '1.0'", "1.0.0")),
    (("--version", "../1.0.0"), ("--version '../1.0.0'",)),
    (("--output", ""), ("--output: '' is no path and no URL",)),
    (("--input", ""), ("--input: '' is no path and no URL",)),
    (("--manifest", ""), ("--manifest: '' is no path and no URL",)),
    (("--input", "/no/such/folder"), ("--input /no/such/folder: no such file or folder",)),
    (("--input", "/no/such/*.jpg"), ("nothing matches --input /no/such/*.jpg",)),
    (("--input", "two\nlines"), ("--input two\\nlines", "no such file or folder")),
    (("--group_by", "user"), ("--group_by user needs --splits",)),
    (("--stratify_by", "label"), ("--stratify_by label needs --splits",)),
    (("--group_by", "user", "--splits", "a=1"), ("--group_by user: no such column", "--manifest")),
    (("--stratify_by", "user", "--splits", "a=1"), ("--stratify_by user: no such column", "label")),
    (("--group_by", "a", "--stratify_by", "b", "--splits", "a=1"), ("--group_by and --stratify_by contradict",)),
    (("--allow_outside",), ("--allow_outside", "--manifest")),
    (("--on_new_label", "append"), ("--on_new_label append needs --labels_file",)),
    (("--labels_file", "/no/such/file"), ("--labels_file /no/such/file", "No such file")),
    (("--numshards", "3"), ("unknown flag --numshards", "did you mean --num_shards?")),
    (("--shuffel",), ("unknown flag --shuffel",)),
    (("--num_shard", "3"), ("unknown flag --num_shard", "did you mean --num_shards?")),
    (("--direct_num_worker=2",), ("unknown flag --direct_num_worker=2", "did you mean --direct_num_workers?")),
    (("--direct_num_workers", "two"), ("--direct_num_workers", "two")),
    (
        ("--direct_running_mode", "multi_threading"),
        ("--direct_running_mode multi_threading loses records", "multi_processing"),
    ),
    (("--runner", "NoSuchRunner"), ("--runner", "NoSuchRunner")),
    (("stray",), ("stray",)),
    (("--manifest", "/no/such.csv"), ("--manifest /no/such.csv: no such file",)),
    (("--manifest", "/no/such.parquet"), ("--manifest /no/such.parquet: no such file",)),
    (("--input", "/tmp", "--manifest", "m.csv"), ("either --input", "or --manifest")),
]


@pytest.fixture(scope="session")
def good_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_files(tmp_path_factory.mktemp("folder") / "in", image_tree(("ant", "bee"), 2))


@pytest.mark.parametrize(("flags", "words"), WRONG_FLAGS, ids=lambda value: " ".join(value)[:40] if len(value) else "")
def test_wrong_flag_is_one_sentence_and_writes_nothing(
    run: Run,
    good_folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    flags: tuple[str, ...],
    words: tuple[str, ...],
) -> None:
    monkeypatch.chdir(tmp_path)
    usual = {"--input": good_folder, "--output": tmp_path / "out", "--name": "n"}
    given = {"--input" if flag == "--manifest" else flag for flag in flags}
    result = run(
        "images", *(part for flag, value in usual.items() if flag not in given for part in (flag, value)), *flags
    )
    check_mistake(result, *words)
    assert not any(tmp_path.iterdir())


def test_neither_input_nor_manifest(run: Run, tmp_path: Path) -> None:
    check_mistake(run("images", "--output", tmp_path / "out", "--name", "n"), "either --input", "or --manifest")
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize("missing", ["--output", "--name"])
def test_missing_flag_is_named(run: Run, good_folder: Path, tmp_path: Path, missing: str) -> None:
    flags = {"--output": str(tmp_path / "out"), "--name": "n"}
    del flags[missing]
    check_mistake(run("images", "--input", good_folder, *(part for item in flags.items() for part in item)), missing)
    assert not any(tmp_path.iterdir())


def test_unknown_command(run: Run) -> None:
    others = ("rebuild", "inspect", "verify", "versions", "diff", "report", "rollback", "tag")
    known = ", ".join([*KINDS, *others])
    check_mistake(run("qwerty"), "unknown command 'qwerty'", f"expected {known}")
    for typo, command in (("image", "images"), ("imagse", "images"), ("json", "jsonl"), ("cvs", "csv")):
        check_mistake(run(typo), f"unknown command '{typo}'; did you mean {command}? The commands are {known}")


def test_output_that_is_published(run: Run, good_folder: Path, tmp_path: Path) -> None:
    command = ("images", "--input", good_folder, "--output", tmp_path, "--name", "n")
    assert run(*command).status == 0
    before = tree_bytes(tmp_path)
    check_mistake(
        run(*command, "--seed", "7"), f"{tmp_path}/n/1.0.0 is a published data set", "--overwrite", "--version"
    )
    assert tree_bytes(tmp_path) == before


def test_output_that_holds_files_of_others(run: Run, good_folder: Path, tmp_path: Path) -> None:
    write_files(tmp_path, {"n/1.0.0/thesis.tex": b"years of work"})
    for flags in ((), ("--overwrite",)):
        result = run("images", "--input", good_folder, "--output", tmp_path, "--name", "n", *flags)
        check_mistake(result, "thesis.tex", "which shardmill did not write")
    assert tree_bytes(tmp_path) == {"n/1.0.0/thesis.tex": b"years of work"}


@pytest.mark.parametrize("place", ["out", "out/n", "out/n/1.0.0"])
def test_output_that_is_a_file(run: Run, good_folder: Path, tmp_path: Path, place: str) -> None:
    write_files(tmp_path, {place: b"a file"})
    check_mistake(
        run("images", "--input", good_folder, "--output", tmp_path / "out", "--name", "n"), f"{place} is not a folder"
    )
    assert tree_bytes(tmp_path) == {place: b"a file"}


def test_output_that_is_a_dangling_link(run: Run, good_folder: Path, tmp_path: Path) -> None:
    (tmp_path / "out").symlink_to("unmounted")
    check_mistake(
        run("images", "--input", good_folder, "--output", tmp_path / "out", "--name", "n"), "out is not a folder"
    )
    assert not (tmp_path / "unmounted").exists()


@pytest.mark.parametrize("parent", ["/proc", "/proc/self/fd"])
def test_output_that_nobody_can_make(run: Run, good_folder: Path, parent: str) -> None:
    """By no permission that could be asked for: root has them all."""
    result = run("images", "--input", good_folder, "--output", f"{parent}/x", "--name", "n")
    check_mistake(result, f"--output {parent}/x cannot be written: {parent}/x: No such file or directory")


def test_output_that_is_not_writable(good_folder: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out").chmod(0o555)
    command = ("images", "--input", good_folder, "--output", tmp_path / "out", "--name", "n")
    result = Process(tmp_path / "process", *command, before=bind_root_to_permissions).result()
    check_mistake(result, f"--output: {tmp_path}/out is not writable")
    assert not any((tmp_path / "out").iterdir())


@pytest.mark.parametrize("output", ["in", "in/out", "in/ant", "link"])
def test_output_inside_the_input(run: Run, tmp_path: Path, output: str) -> None:
    folder = write_files(tmp_path / "in", image_tree(("ant",), 2))
    (tmp_path / "link").symlink_to("in")
    before = tree_bytes(folder)
    check_mistake(run("images", "--input", folder, "--output", tmp_path / output, "--name", "n"), "lies inside --input")
    assert tree_bytes(folder) == before


def test_output_inside_a_glob_that_would_match_it(run: Run, tmp_path: Path) -> None:
    folder = write_files(tmp_path / "in", image_tree(("ant",), 2))
    before = tree_bytes(folder)
    for pattern in ("**", "**/*", "*/*/*/*"):
        result = run("images", "--input", folder / pattern, "--output", folder / "out", "--name", "n")
        check_mistake(result, "--output", "lies inside --input")
    assert tree_bytes(folder) == before
    assert run("images", "--input", folder / "**/*.jpg", "--output", folder / "out", "--name", "n").status == 0


def test_input_that_cannot_be_listed(good_folder: Path, tmp_path: Path) -> None:
    folder = write_files(tmp_path / "in", image_tree(("ant",), 2))
    folder.chmod(0)
    command = ("images", "--input", folder, "--output", tmp_path / "out", "--name", "n")
    result = Process(tmp_path / "process", *command, before=bind_root_to_permissions).result()
    folder.chmod(0o755)
    check_mistake(result, f"--input {folder}", "cannot be read")
    assert not (tmp_path / "out").exists()


def test_input_whose_own_path_is_not_utf8(run: Run, tmp_path: Path) -> None:
    folder = tmp_path / os.fsdecode(b"caf\xe9")
    write_files(folder, image_tree(("ant",), 2))
    check_mistake(run("images", "--input", folder, "--output", tmp_path / "out", "--name", "n"), "--input", "UTF-8")
    good = write_files(tmp_path / "in", image_tree(("ant",), 2))
    check_mistake(run("images", "--input", good, "--output", folder / "out", "--name", "n"), "--output", "UTF-8")
    assert not (tmp_path / "out").exists()
    assert not (folder / "out").exists()


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({}, ("nothing matches --input",)),
        ({"ant/": b"", "bee/": b""}, ("no images in --input", "2 folders without images")),
        ({"notes.txt": b"", "ant/list.csv": b""}, ("no images in --input", "1 .txt file, such as 'notes.txt'", "glob")),
        ({".hidden/1.jpg": image(1)}, ("no images in --input", "1 hidden file, such as '.hidden'")),
    ],
    ids=["empty", "empty label folders", "no images", "hidden"],
)
def test_input_without_an_image(run: Run, tmp_path: Path, files: dict[str, bytes], words: tuple[str, ...]) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    for name, content in files.items():
        if name.endswith("/"):
            (folder / name).mkdir()
        else:
            write_files(folder, {name: content})
    check_mistake(run("images", "--input", folder, "--output", tmp_path / "out", "--name", "n"), *words)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("label", [" lead", "trail ", "two\nlines"])
def test_class_folder_whose_name_cannot_stand_in_a_labels_file(run: Run, tmp_path: Path, label: str) -> None:
    folder = write_files(tmp_path / "in", image_tree((label, "bee"), 2))
    result = run("images", "--input", folder, "--output", tmp_path / "out", "--name", "n")
    check_mistake(result, repr(label), "rename the class")
    assert not (tmp_path / "out").exists()


WRONG_MANIFESTS: list[tuple[str, bytes, tuple[str, ...]]] = [
    ("m.csv", b"", ("is empty", "file_name")),
    ("m.csv", b"file_name\n", ("has no rows", "--manifest")),
    ("m.csv", b"name,label\na.jpg,ant\n", ("no column file_name or image_uri", "name, label")),
    ("m.csv", b"file_name,age,age\na.jpg,1,2\n", ("the column 'age' twice",)),
    ("m.csv", b"file_name,\na.jpg,1\n", ("a column without a name",)),
    ("m.csv", b"file_name,height\na.jpg,1\n", ("column 'height'", "a feature that every example has")),
    ("m.csv", b'file_name,label\na.jpg,"ant\nb.jpg,bee\n', ("from line 2", "check the quotes")),
    ("m.csv", "file_name\na.jpg\n".encode("utf-16"), ("UTF-8", "header")),
    ("m.csv", b"file_name,caf\xe9\na.jpg,1\n", ("UTF-8", "header")),
    ("m.csv", b"file_name;label\na.jpg;ant\n", ("no column file_name", "file_name;label")),
    ("m.csv", b"file_name,split\na.jpg,my split\n", ("'my split'", "letters, digits and '_'")),
    ("m.jsonl", b"", ("has no rows",)),
    ("m.jsonl", b'{"name": "a.jpg"}\n', ("no row has a file_name or image_uri",)),
    ("m.jsonl", b'{"file_name": "a.jpg", "image": 1}\n', ("column 'image'", "a feature that every example has")),
    ("m.jsonl", b'{"file_name": "a.jpg", "": 1}\n', ("a column without a name",)),
]


@pytest.mark.parametrize(("name", "content", "words"), WRONG_MANIFESTS, ids=lambda value: str(value)[:50])
def test_wrong_manifest(run: Run, tmp_path: Path, name: str, content: bytes, words: tuple[str, ...]) -> None:
    folder = write_files(tmp_path / "in", {"a.jpg": image(1), "b.jpg": image(2), name: content})
    result = run("images", "--manifest", folder / name, "--output", tmp_path / "out", "--name", "n")
    check_mistake(result, f"--manifest {folder / name}" if "split" not in str(content) else "split", *words)
    assert not (tmp_path / "out").exists()


def test_manifest_that_is_a_folder(run: Run, tmp_path: Path) -> None:
    (tmp_path / "m.csv").mkdir()
    result = run("images", "--manifest", tmp_path / "m.csv", "--output", tmp_path / "out", "--name", "n")
    check_mistake(result, f"--manifest {tmp_path}/m.csv", "directory")
    assert not (tmp_path / "out").exists()


def test_split_flags_where_the_manifest_says_the_split(run: Run, tmp_path: Path) -> None:
    manifest = write_manifest(tmp_path / "in", ["ant/000.jpg,ant,1,train"], header="file_name,label,age,split")
    for flags in (("--splits", "a=1"), ("--splits", "a=1", "--group_by", "age")):
        result = run("images", "--manifest", manifest, "--output", tmp_path / "out", "--name", "n", *flags)
        check_mistake(result, "--splits was given", "the manifest's column 'split'")
    assert not (tmp_path / "out").exists()


def labels_command(tmp_path: Path, names: str) -> tuple[object, ...]:
    """The command on a tree of ants, bees and cows, with a labels file of `names`."""
    folder = write_files(tmp_path / "in", image_tree(("ant", "bee", "cow"), 2))
    (tmp_path / "labels.txt").write_text(names)
    return (
        "images",
        "--input",
        folder,
        "--output",
        tmp_path / "out",
        "--name",
        "n",
        "--labels_file",
        tmp_path / "labels.txt",
    )


def test_class_that_the_labels_file_does_not_know_fails(run: Run, tmp_path: Path) -> None:
    result = run(*labels_command(tmp_path, "cow\nbees\n"))
    check_mistake(result, "class 'ant'", "1 more", "--on_new_label append")
    assert not (tmp_path / "out").exists()


def test_class_that_the_labels_file_does_not_know_is_appended(run: Run, tmp_path: Path) -> None:
    assert run(*labels_command(tmp_path, "cow\nbee\n"), "--on_new_label", "append").status == 0
    contents = read_back(tmp_path / "out" / "n")
    assert (contents.directory / "label.labels.txt").read_text() == "cow\nbee\nant\n"
    ids = {name.split("/")[0]: int(contents.example(name)["label"][0]) for name in contents.records}
    assert ids == {"cow": 0, "bee": 1, "ant": 2}


def test_class_that_the_labels_file_does_not_know_is_rejected(run: Run, tmp_path: Path) -> None:
    command = labels_command(tmp_path, "cow\r\nbee\r\nelk\r\n")
    assert run(*command, "--on_new_label", "reject", "--max_reject_fraction", "0.5").status == 0
    contents = read_back(tmp_path / "out" / "n")
    assert (contents.directory / "label.labels.txt").read_text() == "cow\nbee\nelk\n"
    assert [reject["reason"] for reject in contents.rejects()] == ["class 'ant' is not in --labels_file"] * 2
    assert {contents.label_of(name) for name in contents.records} == {"cow", "bee"}
    assert any("class 'elk' has no examples" in notice for notice in contents.dataset.manifest.notices)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", ("is empty",)),
        (b"ant\nant\n", ("'ant' is twice",)),
        (b"caf\xe9\n", ("is not UTF-8",)),
        (b"ant\n\n", ("''",)),
    ],
)
def test_wrong_labels_file(run: Run, good_folder: Path, tmp_path: Path, content: bytes, words: tuple[str, ...]) -> None:
    (tmp_path / "labels.txt").write_bytes(content)
    command = ("images", "--input", good_folder, "--output", tmp_path / "out", "--name", "n")
    check_mistake(run(*command, "--labels_file", tmp_path / "labels.txt"), *words)
    assert not (tmp_path / "out").exists()


def test_labels_file_for_unlabelled_images(run: Run, tmp_path: Path) -> None:
    folder = write_files(tmp_path / "in", {"1.jpg": image(1)})
    (tmp_path / "labels.txt").write_text("ant\n")
    command = ("images", "--input", folder, "--output", tmp_path / "out", "--name", "n")
    check_mistake(run(*command, "--labels_file", tmp_path / "labels.txt"), "--labels_file was given", "has no labels")
    assert not (tmp_path / "out").exists()

"""Mistakes in the flags and the input of `shardmill images`: one sentence, and nothing is written."""

import os
from pathlib import Path

import pytest

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


def test_unknown_command(run: Run) -> None:
    known = "`shardmill --help` lists all commands"
    check_mistake(run("qwerty"), f"unknown command 'qwerty'; {known}")
    check_mistake(run("--input", "x", "csv"), f"unknown command '--input'; the command comes before its flags; {known}")
    for typo, command in (("image", "images"), ("imagse", "images"), ("json", "jsonl"), ("cvs", "csv")):
        check_mistake(run(typo), f"unknown command '{typo}'; did you mean {command}? {known}")


def test_output_that_is_published(run: Run, good_folder: Path, tmp_path: Path) -> None:
    command = ("images", "--input", good_folder, "--output", tmp_path, "--name", "n")
    assert run(*command).status == 0
    before = tree_bytes(tmp_path)
    check_mistake(
        run(*command, "--seed", "7"), f"{tmp_path}/n/1.0.0 is a published data set", "--overwrite", "--version"
    )
    assert tree_bytes(tmp_path) == before


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


def test_output_inside_a_glob_that_does_not_match_it(run: Run, tmp_path: Path) -> None:
    folder = write_files(tmp_path / "in", image_tree(("ant",), 2))
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


WRONG_MANIFESTS: list[tuple[str, bytes, tuple[str, ...]]] = [
    ("m.csv", b"", ("is empty", "file_name")),
    ("m.csv", b"file_name\n", ("has no rows", "--manifest")),
    ("m.csv", b"name,label\na.jpg,ant\n", ("no column file_name or image_uri", "name, label")),
    ("m.csv", b"file_name,age,age\na.jpg,1,2\n", ("the column 'age' twice",)),
    ("m.csv", b"file_name,\na.jpg,1\n", ("a column without a name",)),
    (
        "m.csv",
        b"file_name,height\na.jpg,1\n",
        ("line 2 gives None and 1 for width and height",),
    ),
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


IN = {f"in/{name}": data for name, data in image_tree(("ant", "bee"), 2).items()}
LABELS = "--labels_file {}/labels.txt"
MANIFEST = "--manifest {}/in/"
# Files, flags in which {} is their folder, and words of the sentence; a name that ends in / is a folder, and -> a link
MISTAKES: list[tuple[dict[str, bytes], str, tuple[str, ...]]] = [
    ({}, "--output {}/out --name n", ("either --input", "or --manifest")),
    (IN, "--input {}/in --name n", ("--output",)),
    (IN, "--input {}/in --output {}/out", ("--name",)),
    *(
        ({**IN, "out/n/1.0.0/thesis.tex": b"years of work"}, flags, ("thesis.tex", "which shardmill did not write"))
        for flags in ("", "--overwrite")
    ),
    *(({**IN, place: b"a file"}, "", (f"{place} is not a folder",)) for place in ("out", "out/n", "out/n/1.0.0")),
    ({**IN, "out->unmounted": b""}, "", ("out is not a folder",)),
    *(
        ({**IN, "link->in": b""}, f"--output {{}}/{output}", ("is inside --input",))
        for output in ("in", "in/out", "in/ant", "link")
    ),
    *(
        (IN, f"--input {{}}/in/{pattern} --output {{}}/in/out", ("--output", "is inside --input"))
        for pattern in ("**", "**/*", "*/*/*/*")
    ),
    ({"in/": b""}, "", ("nothing matches --input",)),
    ({"in/ant/": b"", "in/bee/": b""}, "", ("no images in --input", "2 folders without images")),
    (
        {"in/notes.txt": b"", "in/ant/list.csv": b""},
        "",
        ("no images in --input", "1 .txt file, such as 'notes.txt'", "glob"),
    ),
    ({"in/.hidden/1.jpg": image(1)}, "", ("no images in --input", "1 hidden file, such as '.hidden'")),
    *(
        ({f"in/{label}/1.jpg": image(1), "in/bee/1.jpg": image(2)}, "", (repr(label), "rename the class"))
        for label in (" lead", "trail ", "two\nlines")
    ),
    *(
        (
            {"in/a.jpg": image(1), "in/b.jpg": image(2), f"in/{name}": content},
            f"{MANIFEST}{name}",
            ("split" if b"split" in content else f"--manifest {{}}/in/{name}", *words),
        )
        for name, content, words in WRONG_MANIFESTS
    ),
    ({"in/m.csv/": b""}, f"{MANIFEST}m.csv", ("--manifest {}/in/m.csv", "directory")),
    *(
        (
            {**IN, "in/m.csv": b"file_name,label,age,split\nant/000.jpg,ant,1,train\n"},
            f"{MANIFEST}m.csv {flags}",
            ("--splits was given", "the manifest's column 'split'"),
        )
        for flags in ("--splits a=1", "--splits a=1 --group_by age")
    ),
    ({**IN, "labels.txt": b"bees\n"}, LABELS, ("class 'ant'", "1 more", "--on_new_label append")),
    ({**IN, "labels.txt": b""}, LABELS, ("is empty",)),
    ({**IN, "labels.txt": b"ant\nant\n"}, LABELS, ("'ant' is twice",)),
    ({**IN, "labels.txt": b"caf\xe9\n"}, LABELS, ("is not UTF-8",)),
    ({**IN, "labels.txt": b"ant\n\n"}, LABELS, ("''",)),
    ({"in/1.jpg": image(1), "labels.txt": b"ant\n"}, LABELS, ("--labels_file was given", "has no labels")),
]


@pytest.mark.parametrize("number", range(len(MISTAKES)), ids=lambda number: MISTAKES[number][2][0][:40])
def test_a_mistake_is_one_sentence_and_changes_nothing(run: Run, tmp_path: Path, number: int) -> None:
    files, more, words = MISTAKES[number]
    for name, content in files.items():
        link, _, target = name.partition("->")
        if target:
            (tmp_path / link).symlink_to(target)
        elif name.endswith("/"):
            (tmp_path / name).mkdir(parents=True)
        else:
            write_files(tmp_path, {name: content})
    usual = ["--input", "{}/in", "--output", "{}/out", "--name", "n"]
    given = more.split()
    for flag, value in zip(usual[::2], usual[1::2], strict=True):
        is_told = flag in given or number < 3 or (flag == "--input" and "--manifest" in given)
        given += [] if is_told else [flag, value]

    def there() -> tuple[list[Path], dict[str, bytes]]:
        return sorted(tmp_path.rglob("*")), tree_bytes(tmp_path)

    before = there()
    result = run("images", *(word.replace("{}", str(tmp_path)) for word in given))
    check_mistake(result, *(word.replace("{}", str(tmp_path)) for word in words))
    assert there() == before


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

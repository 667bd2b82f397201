"""Manifests as tools and spreadsheets write them: what is put right is reported with its number."""

from pathlib import Path

import pytest

import shardmill
from shardmill.data.example import decode_example
from tests.support.command import Run, check_mistake, image, read_back, write_files


def files() -> dict[str, bytes]:
    return {f"a/{number}.png": image(number, "PNG", (12 + number, 9)) for number in range(3)}


@pytest.mark.parametrize(
    ("table", "notices"),
    [
        (
            "file_name, label\na/0.png, ant\na/1.png, bee\na/2.png,bee\n",
            [
                "manifest: names of columns with spaces around them, which are left out: 1, such as ' label'",
                "manifest: rows with spaces around values, which are left out: 2, such as ' ant'",
            ],
        ),
        (
            "file_name,label\na\\0.png,ant\na\\1.png,bee\na/2.png,bee\n",
            ["manifest: file names with backslashes, which are read as slashes: 2, such as 'a\\\\0.png'"],
        ),
        (
            "file_name,width,height,label\na/0.png,12,9,ant\na/1.png,13,9,bee\na/2.png,14,9,bee\n",
            [
                "manifest: rows with the width and height of their image, which each example has anyway; the columns"
                " are left out: 3, such as 'a/0.png'"
            ],
        ),
    ],
    ids=["spaces", "backslashes", "sizes"],
)
def test_oddities_are_put_right_and_counted(run: Run, tmp_path: Path, table: str, notices: list[str]) -> None:
    folder = write_files(tmp_path / "in", {**files(), "t.csv": table.encode()})
    result = run("images", "--manifest", folder / "t.csv", "--output", tmp_path / "out", "--name", "n")
    assert result.status == 0, result.err
    contents = read_back(tmp_path / "out/n")
    assert [notice for notice in contents.dataset.manifest.notices if notice.startswith("manifest: ")] == notices
    assert {name: contents.label_of(name) for name in contents.records} == {
        "a/0.png": "ant",
        "a/1.png": "bee",
        "a/2.png": "bee",
    }
    assert set(decode_example(contents.records["a/0.png"][0])) == {*("image", "label", "filename", "height", "width")}


def test_sizes_that_contradict_the_image(run: Run, tmp_path: Path) -> None:
    table = b"file_name,width,height\na/0.png,12,9\na/1.png,640,480\n"
    folder = write_files(tmp_path / "in", {**files(), "t.csv": table})
    result = run("images", "--manifest", folder / "t.csv", "--output", tmp_path / "out", "--name", "n")
    check_mistake(result, "line 3 gives 640 and 480 for width and height, and its image has 13 x 9 pixels")


def test_several_rows_of_a_file(run: Run, tmp_path: Path) -> None:
    rows = "a/0.png,one\na/0.png,two\na/1.png,three\n"
    folder = write_files(tmp_path / "in", {**files(), "t.csv": f"file_name,caption\n{rows}".encode()})
    output = ("--output", tmp_path / "out", "--name", "n")
    assert run("images", "--manifest", folder / "t.csv", *output).status == 0
    notices = read_back(tmp_path / "out/n").dataset.manifest.notices
    (notice,) = (each for each in notices if "several rows" in each)
    assert notice.startswith(
        "1 file, such as 'a/0.png', with several rows in the manifest, each of which is an example"
    )


def test_rows_that_are_boxes_name_the_flag_that_reads_them(run: Run, tmp_path: Path) -> None:
    rows = "a/0.png,ant,1,2,5,6\na/0.png,bee,2,2,7,8\na/1.png,bee,1,1,4,4\n"
    folder = write_files(tmp_path / "in", {**files(), "t.csv": f"file_name,label,xmin,ymin,xmax,ymax\n{rows}".encode()})
    output = ("--output", tmp_path / "out", "--name", "n")
    path = folder / "t.csv"
    check_mistake(run("images", "--manifest", path, *output), f"give --boxes_csv {path} in place of --manifest")
    assert run("images", "--boxes_csv", path, *output).status == 0
    assert sorted(read_back(tmp_path / "out/n").records) == ["a/0.png", "a/1.png"]


ROWS = "a/0.png,ant,train,7,1\na/1.png,bee,train,8,2.5\na/2.png,bee,test,9,3\n"
HEADER = "file_name,label,split,zip,n\n"


@pytest.mark.parametrize(
    ("name", "table", "flags", "expected"),
    [
        ("t.csv", HEADER + ROWS, (), (7, 1.0)),
        ("t.csv", (HEADER + ROWS).replace(",", ";"), ("--delimiter", ";"), (7, 1.0)),
        ("t.tsv", (HEADER + ROWS).replace(",", "\t"), (), (7, 1.0)),
        ("t.txt", (HEADER + ROWS).replace(",", "\t"), ("--delimiter", "tab"), (7, 1.0)),
        ("t.csv", ROWS, ("--columns", "file_name,label,split,zip,n"), (7, 1.0)),
        ("t.csv", HEADER + ROWS, ("--types", "zip=bytes"), (b"7", 1.0)),
        ("t.csv", HEADER + ROWS, ("--types", "zip=float32,n=bytes"), (7.0, b"1")),
        ("t.csv", HEADER + ROWS, ("--drop", "zip"), (None, 1.0)),
        ("t.csv", HEADER + ROWS, ("--only", "zip"), (7, None)),
        ("t.csv", HEADER.replace("split", "subset") + ROWS, ("--split_column", "subset"), (7, 1.0)),
        ("t.csv", HEADER.replace("zip", "image") + ROWS, ("--drop", "image"), (None, 1.0)),
    ],
)
def test_manifests_are_read_as_tables_are(
    run: Run, tmp_path: Path, name: str, table: str, flags: tuple[str, ...], expected: tuple[object, object]
) -> None:
    folder = write_files(tmp_path / "in", {**files(), name: table.encode()})
    found = run("images", "--manifest", folder / name, *flags, "--output", tmp_path / "out", "--name", "n")
    assert found.status == 0, found.err
    (train, test) = (list(shardmill.examples(tmp_path / "out/n", split)) for split in ("train", "test"))
    assert (len(train), len(test)) == (2, 1)
    (first,) = (example for example in train if example["filename"] == b"a/0.png")
    assert (first.get("zip"), first.get("n")) == expected


def test_a_type_of_a_json_manifest(run: Run, tmp_path: Path) -> None:
    rows = "".join(f'{{"file_name": "a/{number}.png", "zip": {number}, "x": 1}}\n' for number in range(3))
    folder = write_files(tmp_path / "in", {**files(), "t.jsonl": rows.encode()})
    flags = ("--types", "zip=bytes", "--drop", "x", "--output", tmp_path / "out", "--name", "n")
    assert run("images", "--manifest", folder / "t.jsonl", *flags).status == 0
    assert sorted(example["zip"] for example in shardmill.examples(tmp_path / "out/n")) == [b"0", b"1", b"2"]


def test_a_value_of_another_type_is_a_reject(run: Run, tmp_path: Path) -> None:
    folder = write_files(tmp_path / "in", {**files(), "t.csv": (HEADER + ROWS).encode()})
    flags = ("--types", "n=int64", "--output", tmp_path / "out", "--name", "n", "--max_reject_fraction", "0.5")
    assert run("images", "--manifest", folder / "t.csv", *flags).status == 0
    (reject,) = read_back(tmp_path / "out/n").rejects()
    assert (reject["line"], reject["reason"]) == (3, "column 'n': '2.5' is not int64")


@pytest.mark.parametrize(
    ("table", "flags", "words"),
    [
        (HEADER + ROWS, ("--drop", "zap"), "--drop zap: --manifest"),
        (HEADER + ROWS, ("--only", "zap"), "--only zap: --manifest"),
        (HEADER + ROWS, ("--types", "zap=bytes"), "--types zap: --manifest"),
        (HEADER + ROWS, ("--split_column", "zap"), "--split_column zap: --manifest"),
        (HEADER + ROWS, ("--drop", "zip", "--only", "n"), "give --drop or --only, not both"),
        ((HEADER + ROWS).replace(",", ";"), (), "--delimiter ';' divides them"),
        ((HEADER + ROWS).replace(",", "\t"), (), "--delimiter tab divides them"),
        (ROWS, (), "if line 1 is a row, give --columns, such as --columns file_name,label"),
    ],
)
def test_mistakes_in_reading_a_manifest(
    run: Run, tmp_path: Path, table: str, flags: tuple[str, ...], words: str
) -> None:
    folder = write_files(tmp_path / "in", {**files(), "t.csv": table.encode()})
    found = run("images", "--manifest", folder / "t.csv", *flags, "--output", tmp_path / "out", "--name", "n")
    check_mistake(found, words)


@pytest.mark.parametrize(
    "flags", [("--delimiter", ";"), ("--columns", "a"), ("--drop", "a"), ("--only", "a"), ("--types", "a=bytes")]
)
def test_flags_about_manifests(run: Run, tmp_path: Path, flags: tuple[str, ...]) -> None:
    folder = write_files(tmp_path / "in", files())
    found = run("images", "--input", folder, *flags, "--output", tmp_path / "out", "--name", "n")
    check_mistake(found, f"{' '.join(flags)} is about a --manifest; leave it out with --input")

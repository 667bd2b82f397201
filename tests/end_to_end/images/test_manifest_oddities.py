"""Manifests as tools and spreadsheets write them: what is put right is reported with its number."""

from pathlib import Path

import pytest

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
    assert "1 file, such as 'a/0.png', with several rows in the manifest, each of which is an example" in notices


def test_rows_that_are_boxes_name_the_flag_that_reads_them(run: Run, tmp_path: Path) -> None:
    rows = "a/0.png,ant,1,2,5,6\na/0.png,bee,2,2,7,8\na/1.png,bee,1,1,4,4\n"
    folder = write_files(tmp_path / "in", {**files(), "t.csv": f"file_name,label,xmin,ymin,xmax,ymax\n{rows}".encode()})
    output = ("--output", tmp_path / "out", "--name", "n")
    path = folder / "t.csv"
    check_mistake(run("images", "--manifest", path, *output), f"give --boxes_csv {path} in place of --manifest")
    assert run("images", "--boxes_csv", path, *output).status == 0
    assert sorted(read_back(tmp_path / "out/n").records) == ["a/0.png", "a/1.png"]

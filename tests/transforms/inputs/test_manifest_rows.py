"""Tests of transforms/inputs/manifest_rows.py.

* Manifests, CSV and JSON lines
* The rows of a manifest, dealt out by name
"""

from pathlib import Path
from typing import Any

import pytest

from shardmill.errors import UserError
from shardmill.metadata.manifest import Reject
from shardmill.transforms.columns.arrow import concatenate, to_batches
from shardmill.transforms.inputs.found_files import FOUND
from shardmill.transforms.inputs.manifest_files import PARSED, drop_duplicates, part_count, rows_at_once, split_by_name
from shardmill.transforms.inputs.manifest_rows import Row, is_textual, read_rows, row_digest


def read(folder: Path, text: str | bytes, name: str = "meta.csv", allow_outside: bool = False) -> list[Row | Reject]:
    (folder / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    return list(read_rows(str(folder / name), allow_outside))


def rows(folder: Path, text: str | bytes, name: str = "meta.csv", allow_outside: bool = False) -> list[Row]:
    found = read(folder, text, name, allow_outside)
    assert all(isinstance(row, Row) for row in found), found
    return [row for row in found if isinstance(row, Row)]


@pytest.mark.parametrize(
    ("path", "textual"),
    [
        ("a.csv", True),
        ("a.CSV", True),
        ("gs://b/a.jsonl", False),
        ("a.ndjson", False),
        ("a.parquet", False),
        ("x.y/a.JSONL", False),
    ],
)
def test_kinds(path: str, textual: bool) -> None:
    assert is_textual(path) is textual


@pytest.mark.parametrize("path", ["a.xls", "a.json", "a", "folder.csv/a"])
def test_unknown_kinds(path: str) -> None:
    words = "expected a name that ends in .csv, .tsv, .txt, .jsonl or .parquet"
    with pytest.raises(UserError, match=f"^--manifest {path}: {words}$"):
        is_textual(path)


def test_csv(tmp_path: Path) -> None:
    assert rows(tmp_path, 'file_name,label,split,price,note\na.jpg,cat,train,7,"x, ""y"""\nd/b.jpg,,,,\n') == [
        Row(2, "a.jpg", None, "cat", "train", {"price": "7", "note": 'x, "y"'}),
        Row(3, "d/b.jpg", None, None, None, {"price": "", "note": ""}),
    ]


def test_json_lines(tmp_path: Path) -> None:
    first = '{"file_name": "a.jpg", "label": 3, "split": "test", "box": [1, 2.5], "ok": true}'
    text = first + '\n\n{"image_uri": "b.jpg", "label": null}\n'

    assert rows(tmp_path, text, "meta.jsonl") == [
        Row(1, "a.jpg", None, "3", "test", {"box": [1, 2.5], "ok": True}),
        Row(3, "b.jpg", None, None, None, {}),
    ]


@pytest.mark.parametrize(
    "text",
    [
        "file_name,label\na.jpg,cat\nb.jpg,dog\n",
        "file_name,label\r\na.jpg,cat\r\nb.jpg,dog\r\n",
        "\ufefffile_name,label\na.jpg,cat\nb.jpg,dog\n",
        "file_name,label\na.jpg,cat\n\nb.jpg,dog",
        'file_name,label\n"a.jpg","cat"\n"b.jpg","dog"\n',
        "image_uri,label\na.jpg,cat\nb.jpg,dog\n",
        "label,file_name\ncat,a.jpg\ndog,b.jpg\n",
    ],
)
def test_spellings_of_one_csv(tmp_path: Path, text: str) -> None:
    assert [(row.name, row.label) for row in rows(tmp_path, text)] == [("a.jpg", "cat"), ("b.jpg", "dog")]


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_a_bom_and_crlf_in_json_lines(tmp_path: Path, ending: str) -> None:
    text = "\ufeff" + ending.join(['{"file_name": "a.jpg"}', '{"file_name": "b.jpg"}', ""])

    assert [row.name for row in rows(tmp_path, text, "meta.jsonl")] == ["a.jpg", "b.jpg"]


def test_line_breaks_within_quotes(tmp_path: Path) -> None:
    found = rows(tmp_path, 'file_name,note\na.jpg,"one\ntwo"\nb.jpg,x\n')

    assert [(row.line, row.columns["note"]) for row in found] == [(2, "one\ntwo"), (4, "x")]


def test_a_long_caption(tmp_path: Path) -> None:
    assert len(rows(tmp_path, f"file_name,note\na.jpg,{'x' * 200_000}\n")[0].columns["note"]) == 200_000


@pytest.mark.parametrize("allowed", [False, True])
def test_addresses_of_the_web_are_img2dataset_s_work(tmp_path: Path, allowed: bool) -> None:
    (found,) = read(tmp_path, "file_name\nhttps://host/a.jpg\n", allow_outside=allowed)
    assert isinstance(found, Reject)
    assert found.reason.startswith("https:// is not read; download it first: img2dataset makes tar files")


@pytest.mark.parametrize("uri", ["s3://bucket/a.jpg", "/elsewhere/a.jpg"])
@pytest.mark.parametrize("allowed", [False, True])
def test_images_elsewhere(tmp_path: Path, uri: str, allowed: bool) -> None:
    (found,) = read(tmp_path, f"file_name\n{uri}\n", allow_outside=allowed)

    if allowed:
        assert found == Row(2, uri, uri, None, None, {})
    else:
        assert isinstance(found, Reject)
        assert found.reason == "lies outside the manifest's folder; give --allow_outside if that is meant"


@pytest.mark.parametrize(
    ("name", "identity"),
    [
        ("./a.jpg", "a.jpg"),
        ("d//a.jpg", "d/a.jpg"),
        ("d/../a.jpg", "a.jpg"),
        ("..a.jpg", "..a.jpg"),
        ("d/..b/a.jpg", "d/..b/a.jpg"),
    ],
)
def test_names_within_the_folder(tmp_path: Path, name: str, identity: str) -> None:
    assert rows(tmp_path, f"file_name\n{name}\n") == [Row(2, identity, None, None, None, {})]


def test_an_absolute_name_within_the_folder_is_relative(tmp_path: Path) -> None:
    assert rows(tmp_path, f"file_name\n{tmp_path}/d/a.jpg\n")[0].name == "d/a.jpg"


@pytest.mark.parametrize("name", ["../a.jpg", "..", "d/../../a.jpg", "./../a.jpg"])
def test_names_that_climb_out(tmp_path: Path, name: str) -> None:
    (found,) = read(tmp_path, f"file_name\n{name}\n")
    (allowed,) = rows(tmp_path, f"file_name\n{name}\n", allow_outside=True)

    assert isinstance(found, Reject)
    assert "outside" in found.reason
    assert allowed.uri is not None
    assert ".." not in allowed.uri


def test_a_climb_hidden_behind_the_folder_s_own_path(tmp_path: Path) -> None:
    (found,) = read(tmp_path, f"file_name\n{tmp_path}/../a.jpg\n")

    assert isinstance(found, Reject)
    assert "outside" in found.reason


@pytest.mark.parametrize(
    ("text", "name", "line", "reason"),
    [
        ("file_name,a\nx.jpg\n", "meta.csv", 2, "the row has 1 fields; the header has 2"),
        ("file_name,a\nx.jpg,1,2\n", "meta.csv", 2, "the row has 3 fields; the header has 2"),
        ("file_name,a\n,1\n", "meta.csv", 2, "the row has no file_name or image_uri"),
        (b"file_name,a\nx.jpg,\xff\n", "meta.csv", 2, "the row is not UTF-8"),
        ('{"file_name": "x"}\n{"a": 1}\n', "meta.jsonl", 2, "the row has no file_name or image_uri"),
        ('{"file_name": "x"}\n{"file_name": 5}\n', "meta.jsonl", 2, "the row has no file_name or image_uri"),
        ('{"file_name": "x"}\n[1]\n', "meta.jsonl", 2, "not a JSON object"),
        ('{"file_name": "x"}\n{"file_name": \n', "meta.jsonl", 2, "not JSON: "),
        ('{"file_name": "x"}\n' + "[" * 200_000 + "\n", "meta.jsonl", 2, "not JSON: "),
        (b'{"file_name": "x"}\n{"file_name": "\xff"}\n', "meta.jsonl", 2, "the row is not UTF-8"),
        ('{"file_name": "x"}\n{"file_name": "\\ud800"}\n', "meta.jsonl", 2, "the row is not UTF-8"),
        ('{"file_name": "x"}\n{"file_name": "a\\u0000b"}\n', "meta.jsonl", 2, "the file name holds a NUL byte"),
        (
            '{"file_name": "x"}\n{"file_name": "y", "label": 1.5}\n',
            "meta.jsonl",
            2,
            "label or split 1.5 is not a string or an integer",
        ),
        (
            '{"file_name": "x"}\n{"file_name": "y", "split": [1]}\n',
            "meta.jsonl",
            2,
            "label or split [1] is not a string",
        ),
        (
            '{"file_name": "x"}\n{"file_name": "y", "label": true}\n',
            "meta.jsonl",
            2,
            "label or split true is not a string",
        ),
        ('{"file_name": "x"}\n{"file_name": "y", "n": ' + "9" * 5000 + "}\n", "meta.jsonl", 2, "not JSON: "),
    ],
)
def test_bad_rows(tmp_path: Path, text: str | bytes, name: str, line: int, reason: str) -> None:
    rejects = [row for row in read(tmp_path, text, name) if isinstance(row, Reject)]

    assert [(reject.line, reject.stage) for reject in rejects] == [(line, "index")]
    assert rejects[0].reason.startswith(reason)


def test_equal_rows_have_one_digest(tmp_path: Path) -> None:
    found = rows(tmp_path, "file_name,label,note\na,x,1\na,x,2\na,x,1\nb,x,1\na,x,1\n")
    digests = [row_digest(row) for row in found]

    assert digests[0] == digests[2] == digests[4]
    assert len(set(digests)) == 3


def test_the_order_of_json_keys_makes_no_other_row(tmp_path: Path) -> None:
    text = '{"file_name": "a", "x": 1, "y": 2}\n{"y": 2, "x": 1, "file_name": "a"}\n'
    first, second = rows(tmp_path, text, "meta.jsonl")

    assert row_digest(first) == row_digest(second)


@pytest.mark.parametrize(
    ("text", "name", "sentence"),
    [
        ("", "meta.csv", "is empty; expected a header"),
        ("name,label\na,b\n", "meta.csv", "has no column file_name or image_uri; its columns are name, label"),
        ("in_file_name,out_file_name\na,b\n", "meta.csv", "; --file_column in_file_name,out_file_name says that these"),
        (
            "file_name;x\na;b\n",
            "meta.csv",
            "its columns are file_name;x; --delimiter ';' divides them",
        ),
        ("file_name,a,a\n", "meta.csv", "has the column 'a' twice"),
        ("file_name,\n", "meta.csv", "has a column without a name"),
        (
            "file_name,filename\n",
            "meta.csv",
            "has a column 'filename', which is the name of a feature that every example has",
        ),
        ('file_name,a\nx,"never closed\n', "meta.csv", "from line 2: .*check the quotes"),
        ('{"name": "a"}\n', "meta.jsonl", "no row has a file_name or image_uri"),
        ('{"file_name": "a", "image": 1}\n', "meta.jsonl", "has a column 'image', which"),
    ],
)
def test_bad_manifests(tmp_path: Path, text: str, name: str, sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        read(tmp_path, text, name)


def test_a_missing_manifest(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"^--manifest .*/gone\.csv: no such file$"):
        list(read_rows(str(tmp_path / "gone.csv"), False))


def test_names_as_they_are(tmp_path: Path) -> None:
    names: list[Any] = ["a b.jpg", "100%.jpg", "#1.jpg", "ü.jpg", "[x].jpg", "it's.jpg"]

    assert [row.name for row in rows(tmp_path, "\n".join(["file_name", *names]))] == names


ROWS = [(f"{n % 90}.jpg", 0, None, "cat", None, n + 2, "{}", None, bytes([n % 90, n >= 180] * 8)) for n in range(200)]


def test_duplicates_are_found_in_any_order() -> None:
    """Rows 180 and later have a name that is there, and other columns."""
    outcomes = []
    for order, size in ((ROWS, 200), (ROWS[::-1], 7)):
        dealt: dict[int, list[object]] = {}
        for batch in to_batches(order, PARSED, size):
            for part, rows in split_by_name(batch, 5):
                dealt.setdefault(part, []).append(rows)
        assert len(dealt) == 5
        kept, rejects = zip(*(drop_duplicates(concatenate(parts), ["m.csv"]) for parts in dealt.values()), strict=True)
        assert kept[0].schema == FOUND
        lines = sorted(line for batch in kept for line in batch["line"].to_pylist())
        outcomes.append((lines, sorted((r.source, r.line or 0, r.reason) for some in rejects for r in some)))
    assert outcomes[0] == outcomes[1]
    lines, repeated = outcomes[0]
    assert lines == [*range(2, 92), *range(182, 202)]
    assert len(repeated) == 90
    assert repeated[0] == ("0.jpg", 92, "duplicate of line 2 in m.csv")


def test_parts_follow_the_bytes() -> None:
    assert [part_count(size) for size in (0, 1 << 20, 10 << 20, 1 << 40)] == [1, 1, 10, 1024]
    assert [rows_at_once(parts) for parts in (1, 100, 1024)] == [10_000, 25_600, 200_000]

"""Manifests, CSV and JSON lines; the rows of a manifest, dealt out by name."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pytest

from shardmill.errors import UserError
from shardmill.metadata.manifest import Reject
from shardmill.transforms.columns.arrow import concatenate, to_batches
from shardmill.transforms.inputs import manifest_files, manifest_table
from shardmill.transforms.inputs.found_files import FOUND, columns_of
from shardmill.transforms.layout.options import TableOptions
from tests.support.command import write_files

NAMES = manifest_table.ManifestNames(flags=TableOptions("--manifest"))


class Row(NamedTuple):
    line: int
    name: str
    uri: str | None
    label: str | None
    split: str | None
    columns: dict[str, Any]


def read_path(
    path: Path, allow_outside: bool = False, names: manifest_table.ManifestNames = NAMES
) -> Iterator[pa.RecordBatch | Reject]:
    manifests = [manifest_files.ManifestFile(str(path))]
    columns = manifest_table.infer_columns(manifests, manifest_table.RESERVED, names)
    findings = manifest_table.ManifestFindings(names)
    yield from manifest_table.ManifestReader(manifests, columns, names, allow_outside).read(findings)
    findings.notices(str(path))


def batches(folder: Path, text: str | bytes, name: str = "meta.csv", allow_outside: bool = False) -> list[Any]:
    (folder / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    return list(read_path(folder / name, allow_outside))


def rows(folder: Path, text: str | bytes, name: str = "meta.csv", allow_outside: bool = False) -> list[Row]:
    found = []
    for batch in batches(folder, text, name, allow_outside):
        assert not isinstance(batch, Reject), batch
        columns = {column: array.to_pylist() for column, array in columns_of(batch).items()}
        for place, row in enumerate(batch.to_pylist()):
            values = {column: column_values[place] for column, column_values in columns.items()}
            found.append(Row(row["line"], row["name"], row["uri"], row["label"], row["split"], values))
    return found


@pytest.mark.parametrize("path", ["a.csv", "a.CSV", "gs://b/a.jsonl", "a.ndjson", "a.parquet", "x.y/a.JSONL"])
def test_formats(path: str) -> None:
    assert manifest_table.manifest_format(path) == path.lower().rpartition(".")[2].replace("ndjson", "jsonl")


@pytest.mark.parametrize("path", ["a.xls", "a.json", "a", "folder.csv/a"])
def test_unknown_kinds(path: str) -> None:
    words = "expected a name that ends in .csv, .tsv, .txt, .jsonl or .parquet"
    with pytest.raises(UserError, match=f"^--manifest {path}: {words}$"):
        manifest_table.manifest_format(path)


def test_csv(tmp_path: Path) -> None:
    assert rows(tmp_path, 'file_name,label,split,price,note\na.jpg,cat,train,7,"x, ""y"""\nd/b.jpg,,,,\n') == [
        Row(2, "a.jpg", None, "cat", "train", {"price": 7, "note": b'x, "y"'}),
        Row(3, "d/b.jpg", None, None, None, {"price": None, "note": None}),
    ]


def test_json_lines(tmp_path: Path) -> None:
    first = '{"file_name": "a.jpg", "label": 3, "split": "test", "box": [1, 2.5], "ok": true}'
    text = first + '\n\n{"image_uri": "b.jpg", "label": null}\n'

    assert rows(tmp_path, text, "meta.jsonl") == [
        Row(1, "a.jpg", None, "3", "test", {"box": [1, 2.5], "ok": 1}),
        Row(3, "b.jpg", None, None, None, {"box": None, "ok": None}),
    ]


@pytest.mark.parametrize(
    "text",
    [
        "file_name,label\na.jpg,cat\nb.jpg,dog\n",
        "file_name,label\na.jpg,cat\n\nb.jpg,dog",
        "image_uri,label\na.jpg,cat\nb.jpg,dog\n",
        "label,file_name\ncat,a.jpg\ndog,b.jpg\n",
    ],
)
def test_spellings_of_one_csv(tmp_path: Path, text: str) -> None:
    assert [(row.name, row.label) for row in rows(tmp_path, text)] == [("a.jpg", "cat"), ("b.jpg", "dog")]


OUTSIDE = "lies outside the manifest's folder; give --allow_outside if that is meant"
WEB = "https:// is not read; download it first: img2dataset makes tar files"


def reason(folder: Path, name: str, allow_outside: bool = False) -> str:
    (found,) = batches(folder, f"file_name\n{name}\n", allow_outside=allow_outside)
    assert isinstance(found, Reject)
    return found.reason


@pytest.mark.parametrize("allowed", [False, True])
def test_addresses_of_the_web_are_img2dataset_s_work(tmp_path: Path, allowed: bool) -> None:
    assert reason(tmp_path, "https://host/a.jpg", allowed).startswith(WEB)


@pytest.mark.parametrize("uri", ["s3://bucket/a.jpg", "/elsewhere/a.jpg"])
def test_images_elsewhere(tmp_path: Path, uri: str) -> None:
    assert reason(tmp_path, uri) == OUTSIDE
    assert rows(tmp_path, f"file_name\n{uri}\n", allow_outside=True) == [Row(2, uri, uri, None, None, {})]


@pytest.mark.parametrize("name", ["../a.jpg", "..", "d/../../a.jpg", "./../a.jpg", "{folder}/../a.jpg"])
def test_names_that_climb_out(tmp_path: Path, name: str) -> None:
    name = name.format(folder=tmp_path)
    (allowed,) = rows(tmp_path, f"file_name\n{name}\n", allow_outside=True)

    assert reason(tmp_path, name) == OUTSIDE
    assert allowed.uri is not None
    assert ".." not in allowed.uri


@pytest.mark.parametrize(
    ("name", "identity"),
    [
        ("./a.jpg", "a.jpg"),
        ("d//a.jpg", "d/a.jpg"),
        ("d/../a.jpg", "a.jpg"),
        ("..a.jpg", "..a.jpg"),
        ("d/..b/a.jpg", "d/..b/a.jpg"),
        ("{folder}/d/a.jpg", "d/a.jpg"),
        *((name, name) for name in ("a b.jpg", "100%.jpg", "#1.jpg", "ü.jpg", "[x].jpg", "it's.jpg")),
    ],
)
def test_names_within_the_folder(tmp_path: Path, name: str, identity: str) -> None:
    found = rows(tmp_path, f"file_name\n{name.format(folder=tmp_path)}\n")
    assert found == [Row(2, identity, None, None, None, {})]


FIRST = '{"file_name": "x"}\n'


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("file_name,a\nx.jpg\ny.jpg,1\nz.jpg,1", "the row has 1 field; expected 2"),
        ("file_name,a\n,1\n", "the row has no file_name or image_uri"),
        (f'{FIRST}{{"a": 1}}\n', "the row has no file_name or image_uri"),
        (f'{FIRST}{{"file_name": \n', "not JSON: "),
        (FIRST + "[" * 200_000 + "\n", "not JSON: "),
        (f'{FIRST}{{"file_name": "y", "n": {"9" * 5000}}}\n', "not JSON: "),
        (f'{FIRST}{{"file_name": "y", "n": {{"x": 1}}}}\n', "column 'n': "),
        (f'{FIRST}{{"file_name": "a\\u0000b"}}\n', "the file name holds a NUL byte"),
        (f'{FIRST}{{"file_name": "y", "label": ["a", ""]}}\n', 'label ["a", ""] has an empty name in it'),
        (f'{FIRST}{{"file_name": "y", "label": ["a", null]}}\n', "column 'label': "),
        (f'{FIRST}{{"file_name": "y", "split": [1]}}\n', "column 'split': "),
    ],
)
def test_bad_rows(tmp_path: Path, text: str | bytes, reason: str) -> None:
    name = "meta.jsonl" if text[:1] in ("{", b"{") else "meta.csv"
    rejects = [row for row in batches(tmp_path, text, name) if isinstance(row, Reject)]

    assert [(reject.line, reject.stage) for reject in rejects] == [(2, "index")]
    assert rejects[0].reason.startswith(reason)


def test_equal_rows_have_one_digest(tmp_path: Path) -> None:
    (batch,) = batches(tmp_path, "file_name,label,note\na,x,1\na,x,2\na,x,1\nb,x,1\na,x,1\n")
    digests = batch[manifest_files.DIGEST.name].to_pylist()

    assert digests[0] == digests[2] == digests[4]
    assert len(set(digests)) == 3


def test_the_order_of_json_keys_makes_no_other_row(tmp_path: Path) -> None:
    text = '{"file_name": "a", "x": 1, "y": 2}\n{"y": 2, "x": 1, "file_name": "a"}\n'
    (batch,) = batches(tmp_path, text, "meta.jsonl")

    assert len(set(batch[manifest_files.DIGEST.name].to_pylist())) == 1


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "is empty; expected a header"),
        ("name,label\na,b\n", "has no column file_name or image_uri; its columns are name, label"),
        ("in_file_name,out_file_name\na,b\n", "; --file_column in_file_name,out_file_name says that these"),
        ("file_name;x\na;b\n", "its columns are file_name;x; --delimiter ';' divides them"),
        ("file_name\tx\na\tb\n", "; --delimiter tab divides them"),
        ("a.png,7\n", "if line 1 is a row, give --columns, such as --columns file_name,label"),
        ("file_name,a,a\n", "^--manifest .*meta.csv, line 1: the header names the column 'a' 2 times"),
        (b"file_name,a\nx.jpg,caf\xe9\n", "1 row is not UTF-8, .* give --encoding cp1252"),
        (FIRST.encode() + b'{"file_name": "caf\xe9"}\n', "1 row is not UTF-8, .* give --encoding cp1252"),
        ("file_name,filename\n", "has a column 'filename', which is the name of a feature that every example has"),
        ('file_name,a\nx,"never closed\n', "^--manifest .*meta.csv, line 2: .*quote"),
        ('{"name": "a"}\n', "has no column file_name or image_uri; its columns are name; --file_column COLUMN gives"),
        ('{"file_name": "a", "image": 1}\n', "has a column 'image', which"),
    ],
)
def test_bad_manifests(tmp_path: Path, text: str | bytes, sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        batches(tmp_path, text, "meta.jsonl" if text[:1] in ("{", b"{") else "meta.csv")


@pytest.mark.parametrize(
    "named", [{"drop": ("a", "zap")}, {"only": ("zap",)}, {"types": (("zap", "bytes"),)}, {"split_column": "zap"}]
)
def test_columns_that_flags_name_and_no_manifest_has(tmp_path: Path, named: dict[str, Any]) -> None:
    path = write_files(tmp_path, {"m.csv": b"file_name,a\nx,1\n"}) / "m.csv"
    with pytest.raises(UserError, match=f"^--{min(named)} zap: --manifest {path} has no such column; its columns are"):
        list(read_path(path, names=manifest_table.ManifestNames(**named)))


ROWS = [(f"{n % 90}.jpg", 0, None, "cat", None, n + 2, None, bytes([n % 90, n >= 180] * 8)) for n in range(200)]


def test_duplicates_are_found_in_any_order() -> None:
    """Rows 180 and later have a name that is there, and other columns."""
    outcomes = []
    for order, size in ((ROWS, 200), (ROWS[::-1], 7)):
        dealt: dict[int, list[object]] = {}
        for batch in to_batches(order, FOUND.append(manifest_files.DIGEST), size):
            for part, rows in manifest_files.split_by_name(batch, 5):
                dealt.setdefault(part, []).append(rows)
        assert len(dealt) == 5
        kept, rejects = zip(
            *(manifest_files.drop_duplicates(concatenate(parts), ["m.csv"]) for parts in dealt.values()), strict=True
        )
        assert kept[0].schema == FOUND
        lines = sorted(line for batch in kept for line in batch["line"].to_pylist())
        outcomes.append((lines, sorted((r.source, r.line or 0, r.reason) for some in rejects for r in some)))
    assert outcomes[0] == outcomes[1]
    lines, repeated = outcomes[0]
    assert lines == [*range(2, 92), *range(182, 202)]
    assert len(repeated) == 90
    assert repeated[0] == ("0.jpg", 92, "duplicate of line 2 in m.csv")


def test_parts_follow_the_bytes() -> None:
    assert [manifest_files.part_count(size) for size in (0, 1 << 20, 10 << 20, 1 << 40)] == [1, 1, 10, 1024]
    assert [manifest_files.rows_at_once(parts) for parts in (1, 100, 1024)] == [10_000, 25_600, 200_000]

"""Each option that reads tables changes how a manifest is read."""

import contextlib
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from shardmill.errors import UserError
from shardmill.metadata.manifest import Reject
from shardmill.pipelines.config.images import ImagesConfig
from shardmill.transforms.inputs.found_files import columns_of
from shardmill.transforms.inputs.manifest_table import ManifestFindings, ManifestReader, infer_columns
from shardmill.transforms.options.declare import options_of
from shardmill.transforms.options.table_options import TableReadOptions

# By option: its value, the name and content of a manifest, and the columns that are read with it
CASES: dict[str, tuple[Any, str, str, dict[str, list[Any]]]] = {
    "delimiter": (";", "m.csv", "file_name;n\na;1\n", {"n": [1]}),
    "quote": ("'", "m.csv", "file_name,n\na,'x,y'\nb,'z'\n", {"n": [b"x,y", b"z"]}),
    "columns": (("file_name", "n"), "m.csv", "a,1\nb,2\n", {"n": [1, 2]}),
    "header": ("none", "m.csv", "a,1\nb,2\n", {"column_2": [1, 2]}),
    "skip_lines": (1, "m.csv", "made by a program\nfile_name,n\na,1\n", {"n": [1]}),
    "comment": ("#", "m.csv", "file_name,n\na,1\n#b,2\n", {"n": [1]}),
    "encoding": ("cp1252", "m.csv", "file_name,n\na,café\n", {"n": ["café".encode()]}),
    "missing": ((), "m.csv", "file_name,n\na,NA\nb,x\n", {"n": [b"NA", b"x"]}),
    "escape": ("\\", "m.csv", 'file_name,n\na,"x\\"y"\n', {"n": [b'x"y']}),
    "decimal": (",", "m.csv", 'file_name,n\na,"1,5"\n', {"n": [1.5]}),
    "thousands": (",", "m.csv", 'file_name,n\na,"1,500"\n', {"n": [1500]}),
    "list_separator": ({"n": " "}, "m.csv", "file_name,n\na,1 2\n", {"n": [[1, 2]]}),
    "fill": ({"n": "0"}, "m.csv", "file_name,n\na,1\nb,\n", {"n": [1, 0]}),
    "types": ({"n": "bytes"}, "m.jsonl", '{"file_name": "a", "n": 1}\n', {"n": [b"1"]}),
    "drop": (("n",), "m.jsonl", '{"file_name": "a", "n": 1, "m": 2}\n', {"m": [2]}),
    "only": (("n",), "m.csv", "file_name,n,m\na,1,2\n", {"n": [1]}),
    "flatten": (True, "m.jsonl", '{"file_name": "a", "n": {"x": 1}}\n', {"n.x": [1]}),
    "json_columns": (("n",), "m.parquet", "", {"n": [b'{"x":1}']}),
    "label_separator": (";", "m.csv", "file_name,label\na,x;y\n", {"label": ['\0["x", "y"]']}),
}


def read(path: Path, is_lenient: bool = False, **options: Any) -> dict[str, list[Any]]:
    manifest = (("", str(path)),)
    config = ImagesConfig(manifest=manifest, output="out", name="n", file_column=options.pop("file", ""), **options)
    config = config.resolve()
    columns = infer_columns(config.manifests, (), config.manifest_names)
    reader = ManifestReader(config.manifests, columns, config.manifest_names, allow_outside=False, reserved=())
    found: dict[str, list[Any]] = {}
    for item in reader.read(ManifestFindings(config.manifest_names)):
        if isinstance(item, Reject):
            assert is_lenient, item
            continue
        for name, array in columns_of(item).items():
            found.setdefault(name, []).extend(array.to_pylist())
        if item["label"].null_count < len(item):
            found.setdefault("label", []).extend(item["label"].to_pylist())
    return found


def test_every_option_has_a_case() -> None:
    # Rows that name one file are counted after they are read: tests/end_to_end/tables/test_repeated_keys.py
    assert {option.field for option in options_of(TableReadOptions)} - {"on_duplicate_key"} == set(CASES)


@pytest.mark.parametrize("option", CASES)
def test_an_option_of_tables_changes_what_is_read_of_a_manifest(tmp_path: Path, option: str) -> None:
    value, name, text, expected = CASES[option]
    path = tmp_path / name
    if name.endswith(".parquet"):
        pq.write_table(pa.table({"file_name": ["a"], "n": [{"x": 1}]}), path)
    else:
        path.write_bytes(text.encode("cp1252" if option == "encoding" else "utf-8"))
    file = "column_1" if option == "header" else ""

    assert read(path, file=file, **{option: value}) == expected
    with contextlib.suppress(UserError):
        assert read(path, is_lenient=True) != expected


@pytest.mark.parametrize(
    ("name", "options", "flag"),
    [
        ("m.jsonl", {"quote": "'"}, "--quote"),
        ("m.parquet", {"encoding": "cp1252"}, "--encoding"),
        ("m.csv", {"flatten": True}, "--flatten"),
    ],
)
def test_options_of_another_format_are_refused(name: str, options: dict[str, Any], flag: str) -> None:
    with pytest.raises(UserError, match=f"^--manifest {name} is of a format without {flag}; leave it out$"):
        ImagesConfig(manifest=(("", name),), output="out", name="n", **options).resolve().check()

"""A label column's name is a file's name, or the job ends before anything is written: on every route that takes one."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

import shardmill
from shardmill.data.example import encode_example
from shardmill.data.tfrecord import frame_record
from shardmill.errors import UserError
from shardmill.metadata.labels import check_label_name
from tests.support.command import Run, write_files
from tests.support.jobs import Jobs
from tests.support.reading import make

UP = "../../../../victim"  # from out/n/1.0.0 to the file beside `work`
NAMES = (UP, "/etc/x", "a//b", "a/../b", ".", "..", "a\\b", "a\x1b[2Jb", "a\nb", "ä" * 124)
Route = Callable[[Path, str], list[Any]]


def _csv(folder: Path, name: str) -> list[Any]:
    (folder / "in.csv").write_text(f'n,"{name}"\n1,ant\n2,bee\n')
    return ["csv", "--input", folder / "in.csv"]


def _jsonl(folder: Path, name: str) -> list[Any]:
    (folder / "in.jsonl").write_text("".join(f"{json.dumps({'n': 1, name: value})}\n" for value in ("ant", "bee")))
    return ["jsonl", "--input", folder / "in.jsonl"]


def _parquet(folder: Path, name: str) -> list[Any]:
    parquet.write_table(pa.table({"n": [1, 2], name: ["ant", "bee"]}), folder / "in.parquet")
    return ["parquet", "--input", folder / "in.parquet"]


def _reshard(folder: Path, name: str) -> list[Any]:
    records = (frame_record(encode_example({"n": [1], name: [label]})) for label in (0, 1))
    (folder / "in.tfrecord").write_bytes(b"".join(records))
    (folder / "labels.txt").write_text("ant\nbee\n")
    return ["reshard", "--input", folder / "in.tfrecord", "--labels_file", folder / "labels.txt"]


def _schema(folder: Path, name: str) -> list[Any]:
    """With yesterday's schema, whose label has the name."""
    command = _csv(folder, "kind")
    schema = make("csv", folder / "in.csv", folder / "yesterday", "--label", "kind") / "schema.pbtxt"
    quoted = "".join(f"\\{byte:03o}" for byte in name.encode())
    schema.write_text(schema.read_text().replace('"kind"', f'"{quoted}"'))
    (folder / "labels.txt").write_text("ant\nbee\n")
    _csv(folder, name)
    return [*command, "--schema", schema, "--labels_file", folder / "labels.txt"]


ROUTES = pytest.mark.parametrize("route", [_csv, _jsonl, _parquet, _reshard, _schema])


@ROUTES
def test_a_label_whose_name_is_a_path(jobs: Jobs, tmp_path: Path, route: Route) -> None:
    write_files(tmp_path, {"victim.labels.txt": b"mine"})
    command = route(tmp_path, UP)
    sentence = "--label…named after it, and this is no valid file name; rename the column"
    jobs.refuse(command[0], sentence, *command[1:], "--label", UP)


@ROUTES
def test_a_label_may_be_called_as_tensorflow_calls_it(run: Run, jobs: Jobs, tmp_path: Path, route: Route) -> None:
    name = "image/class/label"
    command = route(tmp_path, name)
    made = jobs.build(command[0], *command[1:], "--label", name)
    assert (made.directory / "image.class.label.labels.txt").read_text() == "ant\nbee\n"
    assert shardmill.info(made.directory).features[name].class_names == ("ant", "bee")
    assert sorted(int(example[name]) for example in made.examples()) == [0, 1]
    assert run("verify", made.directory).status == 0


def test_two_labels_of_one_file_are_refused(jobs: Jobs) -> None:
    sentence = "'a/b' and 'a.b' would have the names of their classes in one file, a.b.labels.txt; --rename"
    jobs.refuse("csv --label a/b,a.b", sentence, files={"in.csv": "a/b,a.b\nant,x\nbee,y\n"})
    jobs.build("csv --label a/b,a.b --rename a/b=c")


@pytest.mark.parametrize("name", NAMES, ids=range(len(NAMES)))
def test_names_that_are_no_file_s(name: str) -> None:
    with pytest.raises(UserError, match="named after it, and this is no valid file name; rename the column") as raised:
        check_label_name(name)
    assert str(raised.value).isprintable()


def test_a_label_whose_name_is_odd_but_a_file_s(jobs: Jobs) -> None:
    name = "..größe [x] 日本"
    made = jobs.build("csv", "--label", name, files={"in.csv": f"n,{name}\n1,ant\n2,bee\n"})
    assert (made.directory / f"{name}.labels.txt").read_text() == "ant\nbee\n"


def test_a_label_of_numbers_has_no_file(jobs: Jobs) -> None:
    jobs.build("csv --label a/b", files={"in.csv": "n,a/b\n1,3\n2,4\n"})

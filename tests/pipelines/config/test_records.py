"""A job over records inside files: its options, and several --input of `shardmill text`, each with a name."""

from contextlib import nullcontext
from operator import attrgetter
from pathlib import Path
from typing import Any

import pytest

from shardmill.errors import UserError
from shardmill.flag_values import OptionValueError
from shardmill.pipelines.config.record_options import read_schema
from shardmill.pipelines.config.records import RecordsConfig, parse_inputs
from shardmill.pipelines.jobs.registry import KINDS
from shardmill.transforms.execution.running import TWICE_THE_CORES
from shardmill.transforms.findings import MISSING
from shardmill.transforms.formats.documents import DocumentsFormat
from shardmill.transforms.formats.lines import LinesFormat
from shardmill.transforms.records.encoding import LineEncoder, RecordPasser, TableEncoder
from tests.support.command import write_files

LOCAL, REMOTE = "/data/rows.csv", "gs://bucket/rows.csv"


def make(kind: str, **values: Any) -> RecordsConfig:
    config = KINDS[kind].make_config({"name": "n", "input": "x", "output": "/out", **values})
    assert isinstance(config, RecordsConfig)
    return config


@pytest.mark.parametrize(
    ("kind", "encoder", "records"),
    [("csv", TableEncoder, ""), ("text", LineEncoder, ""), ("reshard", RecordPasser, "x")],
)
def test_rows_are_encoded_and_records_passed(kind: str, encoder: type, records: str) -> None:
    config = make(kind)

    assert type(config.encoder) is encoder
    assert config.table_options.records == records
    assert config.table_options.missing == (MISSING if kind == "csv" else ())


@pytest.mark.parametrize(
    ("kind", "values", "name", "derived"),
    [
        ("text", {}, "format.__class__", LinesFormat),
        ("text", {"separator": "--"}, "format.__class__", DocumentsFormat),
        ("text", {"record": "paragraph"}, "format.__class__", DocumentsFormat),
        ("csv", {}, "quote_char", '"'),
        ("csv", {"quote": ""}, "quote_char", ""),
        ("csv", {"quote": "'"}, "quote_char", "'"),
        ("csv", {"input": LOCAL, "output": "/out"}, "read_threads.number", 0),
        ("csv", {"input": REMOTE, "output": "/out"}, "read_threads.number", TWICE_THE_CORES),
        ("csv", {"input": LOCAL, "output": "s3://bucket/out"}, "read_threads.number", TWICE_THE_CORES),
        ("csv", {"input": REMOTE, "output": "s3://bucket/out", "threads": 3}, "read_threads.number", 3),
    ],
)
def test_what_is_derived(kind: str, values: dict[str, Any], name: str, derived: object) -> None:
    assert attrgetter(name)(make(kind, **values)) == derived


def test_an_option_that_is_required() -> None:
    with pytest.raises(UserError, match=r"^--output is required$"):
        KINDS["csv"].make_config({"name": "n"})


SEQUENCES = {"sequence_by": "user", "order_by": "time", "splits": "train=0.5,test=0.5"}
LISTED = {"input": None, "manifest": "a.csv"}


@pytest.mark.parametrize(
    ("kind", "values", "message"),
    [
        ("audio", {**LISTED, "file_column": "a,b"}, "^--file_column a,b: expected one column"),
        ("arrays", {**LISTED, "stacked": True}, "^--stacked and --manifest: names of arrays"),
        ("csv", {"input": None}, "^give --input, a folder, a file or a glob"),
        ("csv", {**SEQUENCES, "drop": "time"}, "^--drop time: sequences are made by that column; do not drop it"),
        ("csv", {**SEQUENCES, "stratify_by": "label"}, "^--stratify_by label: the rows of a sequence have one value"),
        ("csv", {**SEQUENCES, "stratify_by": "label", "label": "kind"}, None),
        ("text", {"record": "file", "block_size": 1 << 20}, None),
    ],
)
def test_contradictions(kind: str, values: dict[str, Any], message: str | None) -> None:
    with pytest.raises(UserError, match=message) if message else nullcontext():
        KINDS[kind].make_config({"name": "n", "input": "x", "output": "/out", **values})


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "has no features"),
        ("feature { type: INT } feature { name: 'a' type: INT }", "has a feature without a name"),
        ("feature { name: 'a' type: INT } feature { name: 'a' type: BYTES }", "has feature 'a' twice"),
    ],
)
def test_a_schema_without_names(tmp_path: Path, text: str, problem: str) -> None:
    (tmp_path / "schema.pbtxt").write_text(text)
    with pytest.raises(UserError, match=f"schema.pbtxt {problem}; expected features with names that differ$"):
        read_schema(str(tmp_path / "schema.pbtxt"))


@pytest.mark.parametrize(
    ("given", "inputs"),
    [
        ("a=b.txt", (("", "a=b.txt"),)),
        (["x.txt"], (("", "x.txt"),)),
        (["de=a.de", "en=gs://b/a.en"], (("de", "a.de"), ("en", "gs://b/a.en"))),
        ({"de": "a.de", "en": "a=.en"}, (("de", "a.de"), ("en", "a=.en"))),
        ((("de", "a.de"), ("en", "a.en")), (("de", "a.de"), ("en", "a.en"))),
    ],
)
def test_inputs(given: object, inputs: object) -> None:
    assert parse_inputs(given) == inputs


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["a.txt", "b.txt"], r"a.txt is one of several inputs and has no name; expected NAME=PATH of each"),
        (["de=a.de", "b.txt"], r"b.txt is one of several inputs and has no name"),
        (["de=a.de", "gs://b/x=y"], r"gs://b/x=y is one of several"),
        (["de=a.de", "de=b.de"], r"de= is there twice"),
        (["de=a.de", "label=b.de"], r"label= is what shardmill calls a feature of its own"),
        (["de=a.de", "en="], r"en= is one of several"),
        ({"de": "a.de"}, r"de=a.de alone has no file that its lines belong to; give the other parallel files, too"),
        ("de=gs://b/a.de", r"de=gs://b/a.de alone has no file"),
        (["xx=a.de", "en=a.en"], r"xx=a\.de is one of several inputs and has no name"),  # such a file is there
    ],
)
def test_mistakes_of_inputs(given: object, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(write_files(tmp_path, {"xx=a.de": b"x"}))
    with pytest.raises(OptionValueError, match=said):
        parse_inputs(given)


@pytest.mark.parametrize("given", ["de=a.de", "de=a*"])
def test_one_with_a_name_lacks_the_others(given: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert parse_inputs(given) == (("", given),)  # nothing is there by the one name or the other
    Path("a.de").write_text("x")
    with pytest.raises(OptionValueError, match=r"alone has no file that its lines belong to; .* or --input a"):
        parse_inputs([given])
    Path("de=a.de").write_text("x")
    assert parse_inputs(given) == (("", given),)

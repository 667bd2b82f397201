"""What a job over records inside files makes of what it is told."""

from pathlib import Path
from typing import Any

import pytest

from shardmill.errors import UserError
from shardmill.pipelines.config.record_options import read_schema
from shardmill.pipelines.config.records import RecordsConfig
from shardmill.pipelines.jobs.registry import KINDS
from shardmill.transforms.formats.conventions import MISSING
from shardmill.transforms.formats.documents import DocumentsFormat
from shardmill.transforms.formats.lines import LinesFormat
from shardmill.transforms.records.encoding import LineEncoder, RecordPasser, TableEncoder
from shardmill.transforms.workers.running import TWICE_THE_CORES

LOCAL, REMOTE = "/data/rows.csv", "gs://bucket/rows.csv"


@pytest.mark.parametrize(
    ("values", "threads"),
    [
        ({"input": LOCAL, "output": "/out"}, 0),
        ({"input": REMOTE, "output": "/out"}, TWICE_THE_CORES),
        ({"input": LOCAL, "output": "s3://bucket/out"}, TWICE_THE_CORES),
        ({"input": REMOTE, "output": "s3://bucket/out", "threads": 3}, 3),
    ],
)
def test_read_threads(values: dict[str, object], threads: int) -> None:
    assert make("csv", **values).read_threads == threads


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
    ("values", "form"),
    [({}, LinesFormat), ({"separator": "--"}, DocumentsFormat), ({"record": "paragraph"}, DocumentsFormat)],
)
def test_texts_of_lines_and_of_several_lines(values: dict[str, Any], form: type) -> None:
    assert type(make("text", **values).format) is form


def test_quotes() -> None:
    assert (make("csv").quote_char, make("csv", quote="").quote_char, make("csv", quote="'").quote_char) == (
        '"',
        "",
        "'",
    )


def test_an_option_that_is_required() -> None:
    with pytest.raises(UserError, match=r"^--output is required$"):
        KINDS["csv"].make_config({"name": "n"})


SEQUENCES = {"sequence_by": "user", "order_by": "time", "splits": "train=0.5,test=0.5"}


@pytest.mark.parametrize(
    ("kind", "values", "message"),
    [
        (
            "audio",
            {"input": None, "manifest": "a.csv", "file_column": "a,b"},
            "^--file_column a,b: expected one column",
        ),
        ("arrays", {"input": None, "manifest": "a.csv", "stacked": True}, "^--stacked and --manifest: names of arrays"),
        ("csv", {**SEQUENCES, "drop": "time"}, "^--drop time: sequences are made by that column; do not drop it"),
        ("csv", {**SEQUENCES, "stratify_by": "label"}, "^--stratify_by label: the rows of a sequence have one value"),
        ("csv", {**SEQUENCES, "stratify_by": "label", "label": "kind"}, None),
    ],
)
def test_contradictions(kind: str, values: dict[str, Any], message: str | None) -> None:
    if message is None:
        assert make(kind, **values)
        return
    with pytest.raises(UserError, match=message):
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

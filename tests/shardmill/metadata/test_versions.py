"""The record of a build: written and read back, and refused where it is not one."""

import json
from dataclasses import replace
from typing import Any

import pytest

from shardmill.errors import CorruptDataError
from shardmill.metadata.versions import FORMAT, BuildRecord, failed_record_path, page_path, record_path

RECORD = BuildRecord(
    name="flowers",
    version="1.0.20261120",
    status="checks_failed",
    started="2026-11-20T03:00:00Z",
    reason="class 'röse' has no examples any more",
    code_version="c" * 32,
    data_version="d" * 32,
    baseline="1.0.20261119",
    before="1.0.20261118",
    seconds=12.3456,
    splits={"train": 8, "test": 2},
    rejected=1,
    checks=({"check": "class_vanished", "severity": "error"},),
    page_checks=({"check": "label_skew", "severity": "ok"},),
    notices=("split 'test' is small",),
    since="since 1.0.20261119: 11 -> 10 examples",
    shardmill="0.1.0",
)


def test_round_trip() -> None:
    text = RECORD.to_json()
    read = BuildRecord.from_json(text, "builds/1.0.20261120.json")

    assert read == replace(RECORD, seconds=12.346)
    assert read.to_json() == text
    assert "\n" not in text
    assert "röse" in text
    assert BuildRecord.from_json(replace(RECORD, seconds=0).to_json(), "a.json").seconds == 0


def test_most_may_be_missing_and_what_is_new_is_passed_over() -> None:
    content = {"format": FORMAT, "name": "a", "version": "1.0.0", "status": "failed", "started": "2026-11-20T03:00:00Z"}

    read = BuildRecord.from_json(json.dumps(content | {"later": [1]}), "a.json")

    assert read == BuildRecord("a", "1.0.0", "failed", "2026-11-20T03:00:00Z")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"status": "fine"}, "status is \"fine\"; expected one of 'published', 'unchanged'"),
        ({"started": "yesterday"}, 'started is "yesterday"; expected a time in UTC'),
        ({"seconds": -1}, "seconds is -1; expected a number of seconds"),
        ({"seconds": True}, "seconds is true; expected a finite number"),
        ({"splits": {"train": -1}}, "splits.train is -1; expected an integer"),
        ({"checks": ["odd"]}, 'checks[0] is "odd"; expected an object'),
        ({"format": FORMAT + 1}, "of a newer format"),
        ({"name": None}, "name is null; expected a string"),
    ],
)
def test_what_is_no_record_is_refused(change: dict[str, Any], words: str) -> None:
    with pytest.raises(CorruptDataError) as caught:
        BuildRecord.from_json(json.dumps(json.loads(RECORD.to_json()) | change), "builds/1.json")

    assert words in str(caught.value)
    assert str(caught.value).startswith("builds/1.json ")


def test_paths_of_records_and_pages() -> None:
    assert record_path("gs://b/flowers", "1.0.0") == "gs://b/flowers/builds/1.0.0.json"
    assert failed_record_path("gs://b/flowers", "1.0.0") == "gs://b/flowers/builds/1.0.0.failed.json"
    assert page_path(record_path("gs://b/flowers", "1.0.0")) == "gs://b/flowers/builds/1.0.0.html"
    assert page_path(failed_record_path("b", "1.0.0")) == "b/builds/1.0.0.failed.html"


def test_what_the_page_alone_shows_is_not_said() -> None:
    assert json.loads(RECORD.without_page_checks.to_json()) == {**json.loads(RECORD.to_json()), "page_checks": []}

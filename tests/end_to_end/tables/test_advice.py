"""Following the advice of a notice or an error works: the sentence is gone, and the values are right."""

import json
import re
from decimal import Decimal
from typing import Any, NamedTuple

import pyarrow as pa
import pytest

from shardmill.transforms.findings import MISSING
from tests.support.jobs import Jobs
from tests.support.reading import plain
from tests.support.table_results import parquet


class Case(NamedTuple):
    """An input, words about it, and by advised flags the values of the last column in order."""

    command: str
    text: Any
    sentence: str
    advice: dict[str, list[Any]]


def _csv(*values: str) -> str:
    return "n,x\n" + "".join(f'{n},"{value}"\n' for n, value in enumerate(values))


def _jsonl(*values: Any) -> str:
    return "".join(f"{json.dumps({'n': n, 'x': value})}\n" for n, value in enumerate(values))


DASHES = f"--missing '\"-\",?,{','.join(filter(None, MISSING))}'"
LARGE = [16_777_217.5, 16_777_218.5]
CASES = [
    Case("csv", _csv("1,000", "-2,500.5"), "numbers with commas", {"--thousands ,": [1000, -2500.5]}),
    Case("csv", _csv("1,000", "(1,500)"), "numbers with commas", {"--thousands ,": [1000, -1500]}),
    Case("csv", _csv("(7)", "12", "5-"), "2 of them negative, as '(7)'", {"--types x=int64": [-7, 12, -5]}),
    Case("csv", _csv("1,5", "22,25"), "numbers with a decimal comma", {"--decimal ,": [1.5, 22.25]}),
    Case("csv", _csv("1.000,5-", "7"), "a decimal comma and points", {"--decimal , --thousands .": [-1000.5, 7]}),
    Case("csv", _csv("1\u00a0000", "22\u202f500"), "numbers with spaces", {"--thousands ' '": [1000, 22500]}),
    Case(
        "csv",
        _csv("1 000", "22 500"),
        "lists of numbers",
        {"--thousands ' '": [1000, 22500], "--list_separator 'x= '": [["1", "000"], ["22", "500"]]},
    ),
    Case("csv", _csv("1 2", "3 4"), "lists of numbers", {"--list_separator 'x= '": [[1, 2], [3, 4]]}),
    Case("csv", _csv("[1,2]", "[3,4]"), "lists of numbers", {"--list_separator 'x=,'": [[1, 2], [3, 4]]}),
    Case("csv", _csv(*"12345-?-"), "5 of its 8 values", {key: [1, 2, 3, 4, 5] for key in (DASHES, "--types x=int64")}),
    Case("csv", _csv("1E10", "2E05"), "have exponents but no sign", {"--types x=float32": [1e10, 2e5]}),
    Case("csv", _csv("NA", "7"), "taken as missing values", {"--missing ''": ["NA", "7"]}),
    *(
        Case(
            command, data, "is stored as float32", {"--types x=bytes": ["16777217.5", "16777218.5"], "--drop x": [0, 1]}
        )
        for command, data in (
            ("csv", _csv(*map(str, LARGE))),
            ("jsonl", _jsonl(*LARGE)),
            ("parquet", parquet(pa.table({"n": [0, 1], "x": LARGE}))),
        )
    ),
    *(
        Case(command, data, "its 2 values are numbers", {"--types x=int64": [7, -12]})
        for command, data in (
            ("jsonl", _jsonl("7", "12-")),
            ("parquet", parquet(pa.table({"n": [0, 1], "x": ["7", "12-"]}))),
            ("parquet", parquet(pa.table({"n": [0, 1], "x": [Decimal(7), Decimal(-12)]}))),
        )
    ),
    Case("jsonl", _jsonl(["1"], ["2"]), "its 2 values are numbers", {"--types x=int64": [[1], [2]]}),
    Case("jsonl", _jsonl("a", 1), "numbers and booleans become texts", {"--json_columns x": ['"a"', "1"]}),
    Case(
        "jsonl",
        _jsonl({"a": 1}, {"a": 2}),
        "can hold the nested values",
        {"--flatten": [1, 2], "--json_columns x": ['{"a":1}', '{"a":2}'], "--drop x": [0, 1]},
    ),
    Case(
        "csv",
        "n::x\na::b\nc::d\n",
        "the header is one column",
        {"--delimiter '::'": ["b", "d"], "--delimiter ','": ["a::b", "c::d"]},
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.command}-{case.sentence}")
def test_following_the_advice_works(jobs: Jobs, case: Case) -> None:
    name = f"in/a.{case.command}"
    result = jobs.run(f"{case.command} --input {name}", files={name.removeprefix("in/"): case.text})
    said = next(line for line in (result.out + result.err).splitlines() if case.sentence in line)
    assert set(re.findall("--[a-z_]+", said)) - {"--input"} == set(re.findall("--[a-z_]+", " ".join(case.advice))), said
    for flags, values in case.advice.items():
        assert flags in said, said
        made = jobs.build(f"{case.command} --input {name} --no_shuffle --overwrite {flags}")
        column = made.manifest.features[-1].name
        assert case.sentence not in made.said, made.said
        assert [plain(row[column]) for row in made.examples() if column in row] == values

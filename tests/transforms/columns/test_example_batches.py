"""Examples as Arrow record batches: the values of `examples`, in types that features have."""

import datetime
import json
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from shardmill.data.features import Feature
from shardmill.data.spans import RecordBlock
from shardmill.transforms.columns.example_batches import BatchDecoder, RowError, batch_schema
from tests.support.encoded import encode_example
from tests.support.small_data_set import encode

FEATURES = (
    Feature("n", "int64"),
    Feature("x", "float32", required=False),
    Feature("word", "bytes", "text", required=False),
    Feature("flag", "int64", "bool", required=False),
    Feature("when", "int64", time="ms"),
    Feature("city", "int64", "class_label", class_names=("Oslo", "Rome")),
    Feature("classes", "int64", "class_label", (None,), class_names=("a", "b")),
    Feature("pair", "int64", shape=(2,), required=False),
    Feature("weights", "float32", shape=(None,)),
    Feature("tags", "bytes", shape=(None,), required=False),
    Feature("names", "bytes", shape=(2,)),
    Feature("boxes", "float32", "bbox", (None, 4)),
    Feature("grid", "int64", shape=(2, 3), required=False),
    Feature("scan", "bytes", "array", (2, 2), element="int16"),
    Feature("steps", "bytes", "array", (None, 2), element="float16"),
    Feature("bits", "bytes", "array", (3,), element="bool"),
    Feature("wave", "bytes", "array", (2,), required=False, element="complex64"),
)
TYPES = {
    "n": pa.int64(),
    "x": pa.float32(),
    "word": pa.large_binary(),
    "flag": pa.bool_(),
    "when": pa.timestamp("ms", "UTC"),
    "city": pa.int64(),
    "classes": pa.large_list(pa.int64()),
    "pair": pa.list_(pa.int64(), 2),
    "weights": pa.large_list(pa.float32()),
    "tags": pa.large_list(pa.large_binary()),
    "names": pa.list_(pa.large_binary(), 2),
    "boxes": pa.large_list(pa.list_(pa.float32(), 4)),
    "grid": pa.list_(pa.list_(pa.int64(), 3), 2),
    "scan": pa.list_(pa.list_(pa.int16(), 2), 2),
    "steps": pa.large_list(pa.list_(pa.float16(), 2)),
    "bits": pa.list_(pa.bool_(), 3),
    "wave": pa.large_binary(),
}
WAVE = np.array([1 + 2j, 3], "complex64")


def example(number: int) -> dict[str, Any]:
    """The values of an example; those of some features are missing in some."""
    values = {
        "n": number - 3,
        "x": number / 4,
        "word": f"wörd {number}".encode(),
        "flag": number % 2,
        "when": 1_700_000_000_000 + number,
        "city": number % 2,
        "classes": [0, 1][: number % 3],
        "pair": [number, -number],
        "weights": [0.5] * (number % 4),
        "tags": [b"t", b""][: number % 3],
        "names": [b"one", b"%d" % number],
        "boxes": [[0.0, 0.25, 0.5, 0.75]] * (number % 3),
        "grid": [[number, 1, 2], [3, 4, 5]],
        "scan": [[number, -1], [2, 3]],
        "steps": [[0.5, number]] * (number % 3),
        "bits": [True, False, number % 2 == 0],
        "wave": WAVE,
    }
    missing = [
        name
        for place, name in enumerate(("x", "word", "flag", "pair", "tags", "grid", "wave"))
        if not (number + place) % 5
    ]
    return {name: value for name, value in values.items() if name not in missing}


def expected_row(number: int) -> dict[str, Any]:
    row: dict[str, Any] = dict.fromkeys(TYPES) | example(number)
    row["when"] = datetime.datetime.fromtimestamp(row["when"] / 1000, datetime.UTC)
    row["flag"] = None if row["flag"] is None else bool(row["flag"])
    row["wave"] = None if row["wave"] is None else WAVE.tobytes()
    return row


def block(records: list[bytes]) -> RecordBlock:
    ends = np.cumsum(list(map(len, records)))
    return RecordBlock(b"".join(records), np.concatenate([[0], ends[:-1]]), ends)


RECORDS = [encode(FEATURES, example(number)) for number in range(40)]
# An entry that no feature describes: such records are decoded one by one
UNUSUAL = [encode_example({"other": [b"x"]}) + record for record in RECORDS]


def check(found: pa.RecordBatch, names: list[str] | None = None) -> None:
    found.validate(full=True)
    expected = [expected_row(number) for number in range(len(RECORDS))]
    wanted = names or list(TYPES)
    assert {field.name: field.type for field in found.schema} == {name: TYPES[name] for name in TYPES if name in wanted}
    assert found.to_pylist() == [{name: row[name] for name in TYPES if name in wanted} for row in expected]


@pytest.mark.usefixtures("is_compiled")
def test_each_feature_has_its_type_and_values() -> None:
    check(BatchDecoder(FEATURES)(block(RECORDS)))


def test_records_of_other_programs() -> None:
    mixed = [record if number % 3 else UNUSUAL[number] for number, record in enumerate(RECORDS)]
    check(BatchDecoder(FEATURES)(block(mixed)))
    check(BatchDecoder(FEATURES)(block(UNUSUAL)))


def test_some_features() -> None:
    check(BatchDecoder(FEATURES, ["grid", "n"])(block(RECORDS)), ["n", "grid"])


def test_a_block_without_records() -> None:
    found = BatchDecoder(FEATURES)(block(RECORDS).between(3, 3))
    assert found.num_rows == 0
    assert found.schema.types == list(TYPES.values())


def test_the_schema_tells_what_may_be_missing_and_names_classes() -> None:
    schema = batch_schema(FEATURES)
    assert [field.name for field in schema if field.nullable] == ["x", "word", "flag", "pair", "tags", "grid", "wave"]
    described = json.loads(schema.metadata[b"huggingface"])["info"]["features"]
    assert described["city"] == {"names": ["Oslo", "Rome"], "_type": "ClassLabel"}
    assert described["classes"] == {"feature": {"names": ["a", "b"], "_type": "ClassLabel"}, "_type": "LargeList"}
    assert batch_schema(FEATURES[:2]).metadata is None


@pytest.mark.parametrize("records", [RECORDS, UNUSUAL], ids=["usual", "unusual"])
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"n": []}, "feature 'n' "),
        ({"pair": [1, 2, 3]}, "feature 'pair' has 3 values; expected 2"),
        ({"scan": b"123"}, "feature 'scan' has 3 bytes; expected 8"),
    ],
    ids=["missing", "count", "array"],
)
def test_a_record_that_is_not_as_expected_is_named(records: list[bytes], change: dict[str, Any], message: str) -> None:
    other = encode(FEATURES, {**example(7), **change})
    with pytest.raises(RowError, match=message) as caught:
        BatchDecoder(FEATURES)(block([*records[:7], other, *records[8:]]))
    assert caught.value.row == 7


def test_a_boolean_is_0_or_1() -> None:
    feature = Feature("flag", "int64", "bool")
    with pytest.raises(ValueError, match="feature 'flag' has other values than 0 and 1; expected booleans"):
        BatchDecoder((feature,))(block([encode((feature,), {"flag": 2})]))

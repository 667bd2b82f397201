"""What is said of constants that stayed, where new examples would have made others."""

import pyarrow as pa

from shardmill.metadata.tfds_metadata import TransformedOutput, TransformFile
from shardmill.transforms.values.analyzers import COUNT_SCHEMA, Constants
from shardmill.transforms.values.preprocessing_sources import drift_notices, measure_drift


def entries(*values: bytes) -> pa.Table:
    return pa.table([pa.array(values, pa.large_binary()), pa.array([0] * len(values), pa.int64())], schema=COUNT_SCHEMA)


FORMER = {
    "age": Constants({"mean": 10.0, "std_dev": 2.0}),
    "fare": Constants({"minimum": 0, "maximum": 9}),
    "size": Constants({"minimum": 0, "maximum": 9}),
    "rooms": Constants({"boundaries": (2.0, 4.0)}),
    "city": Constants({"entries": 3}, entries(b"a", b"b", b"c")),
}
NEW = {
    "age": Constants({"mean": 9.0, "std_dev": 1.0}),
    "fare": Constants({"minimum": -1, "maximum": 8}),
    "size": Constants({"minimum": 1, "maximum": 8}),
    "rooms": Constants({"boundaries": (2.0, 5.0)}),
    "city": Constants({"entries": 2}, entries(b"d", b"b")),
}


def test_what_would_have_changed_is_said() -> None:
    outputs = tuple(
        TransformedOutput(name, name, (), FORMER[name].numbers, drift=measure_drift(FORMER[name], NEW[name]))
        for name in NEW
    )

    assert list(drift_notices(TransformFile({"train": 9}, outputs, "d 1.0.0"))) == [
        "the constants of transformed features are those of d 1.0.0",
        "age: the mean is 9, 0.5 standard deviations below that of d 1.0.0",
        "fare: values are from -1 to 8; in d 1.0.0 they were from 0 to 9",
        "rooms: the boundaries of buckets would be 2, 5",
        "city: 1 of 2 entries would be those of d 1.0.0",
    ]


def test_of_constants_of_these_examples_nothing_is_said() -> None:
    assert list(drift_notices(TransformFile({"train": 9}, ()))) == []


def test_it_is_read_back() -> None:
    output = TransformedOutput("age", "age", ({"z_score": {}},), {"mean": 1.0}, drift={"shift": 0.5})
    file = TransformFile({"train": 9}, (output,), "d 1.0.0")

    assert TransformFile.from_json(file.to_json(), "transform.json") == file

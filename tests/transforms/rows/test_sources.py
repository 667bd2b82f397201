"""Rows that a program holds: kinds of data become batches or dictionaries, and what is no good is one sentence."""

import datetime
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset as pads
import pytest

from shardmill.errors import JobError, UserError
from shardmill.transforms.rows.sources import Batches, is_read_once, open_rows
from tests.support.command import image
from tests.support.later import Later

datasets = Later("datasets")
pd = Later("pandas")
pl = Later("polars")


def table(data: Any, split: str = "") -> pa.Table:
    """All rows of a split, as one table."""
    rows = open_rows(data).splits[split]
    assert isinstance(rows, Batches)
    return pa.Table.from_batches(rows.batches, rows.schema)


def dictionaries(data: Any) -> list[Any]:
    rows = open_rows(data).splits[""]
    assert not isinstance(rows, Batches)
    return list(rows)


def count() -> Iterator[dict[str, int]]:
    yield from ({"n": n} for n in range(3))


ROWS = [{"n": n, "text": f"t{n}"} for n in range(3)]


@pytest.mark.parametrize(
    ("description", "make"),
    [
        ("the pandas DataFrame", lambda: pd.DataFrame(ROWS)),
        ("the polars DataFrame", lambda: pl.DataFrame(ROWS)),
        ("the Arrow Table", lambda: pa.Table.from_pylist(ROWS)),
        ("the Arrow Table", lambda: pa.RecordBatch.from_pylist(ROWS)),
        ("the RecordBatchReader", lambda: pa.Table.from_pylist(ROWS).to_reader()),
        ("the Arrow Dataset", lambda: pads.dataset(pa.Table.from_pylist(ROWS))),
        ("the Arrow Dataset", lambda: pads.dataset(pa.Table.from_pylist(ROWS)).scanner()),
        ("the Hugging Face Dataset", lambda: datasets.Dataset.from_list(ROWS)),
        ("the Hugging Face IterableDataset", lambda: datasets.Dataset.from_list(ROWS).to_iterable_dataset()),
        ("the dictionary of arrays", lambda: {"n": np.arange(3), "text": np.array(["t0", "t1", "t2"])}),
    ],
)
def test_tables_become_batches(description: str, make: Callable[[], Any]) -> None:
    data = make()

    assert open_rows(data).description == description
    assert table(make()).to_pylist() == ROWS


def test_iterables_are_dictionaries() -> None:
    assert dictionaries(ROWS) == dictionaries(tuple(ROWS)) == dictionaries(iter(ROWS)) == ROWS
    assert dictionaries(count()) == [{"n": 0}, {"n": 1}, {"n": 2}]
    assert dictionaries(datasets.IterableDataset.from_generator(count)) == list(count())
    assert [is_read_once(data) for data in (ROWS, count(), iter(ROWS), pa.table({}).to_reader())] == [0, 1, 1, 1]


def test_a_dictionary_of_tables_has_their_splits() -> None:
    parts = {"train": datasets.Dataset.from_list(ROWS[:2]), "dev_1": datasets.Dataset.from_list(ROWS[2:])}
    for data in (parts, datasets.DatasetDict(parts), {name: part.to_pandas() for name, part in parts.items()}):
        assert table(data, "train").to_pylist() == ROWS[:2]
        assert table(data, "dev_1").to_pylist() == ROWS[2:]
    assert open_rows(parts).description == "the splits of the Hugging Face Dataset"


def test_types_of_pandas() -> None:
    frame = pd.DataFrame(
        {
            "float": [1.5, np.nan],
            "nullable": pd.array([1, None], dtype="Int64"),
            "flag": pd.array([True, None], dtype="boolean"),
            "category": pd.Categorical(["x", None]),
            "zoned": pd.date_range("2020-01-01", periods=2, tz="Europe/Zurich"),
            "lists": [[1, 2], [3]],
            "bytes": [b"a", None],
        }
    )
    found = table(frame.iloc[::1])

    assert found.schema.names == list(frame)  # a range is no data, from whatever row
    assert table(frame[1:])["float"].to_pylist() == [None]
    assert found.drop_columns(["zoned"]).to_pylist()[1] == {
        **{"float": None, "nullable": None, "flag": None, "category": None, "lists": [3], "bytes": None}
    }
    assert found.schema.field("zoned").type.tz == "Europe/Zurich"


def test_arrays_keep_their_shape() -> None:
    data: dict[str, Any] = {
        "vector": np.arange(6, dtype=np.float32).reshape(3, 2),
        "image": np.arange(36, dtype=np.uint8).reshape(3, 2, 2, 3)[:, ::-1],
        "big_endian": np.arange(3, dtype=">i4"),
        "text": np.array(["a", None, "c"], dtype=object),
        "masked": np.ma.array([1, 2, 3], mask=[False, True, False]),
        "nan": np.array([1.0, np.nan, 2.0]),
        "when": np.array(["2020-01-01T05", "NaT", "2021-01-01"], dtype="datetime64[h]"),
    }
    found = table(data)

    for name in ("vector", "image", "big_endian"):
        assert found[name].to_pylist() == data[name].tolist()
    assert found["text"].to_pylist() == ["a", None, "c"]
    assert found["masked"].to_pylist() == [1, None, 3]
    assert found["nan"].null_count == 0
    assert found["when"].to_pylist() == data["when"].tolist()
    assert found.schema.field("image").type == pa.list_(pa.list_(pa.list_(pa.uint8(), 3), 2), 2)


def test_hugging_face_keeps_features_order_and_files(tmp_path: Path) -> None:
    (tmp_path / "a.jpg").write_bytes(image(1))
    features = datasets.Features(
        {
            "image": datasets.Image(),
            "label": datasets.ClassLabel(names=["cat", "dog"]),
            "matrix": datasets.Array2D((2, 2), "float32"),
        }
    )
    rows = [{"image": str(tmp_path / "a.jpg"), "label": n % 2, "matrix": np.full((2, 2), n)} for n in range(4)]
    whole = datasets.Dataset.from_list(rows, features=features)
    for data in (whole.select([3, 0]), whole.to_iterable_dataset().filter(lambda row: row["matrix"][0][0] in (0, 3))):
        found = table(data)
        assert found.schema.equals(features.arrow_schema, check_metadata=True)
        assert {row["label"] for row in found.to_pylist()} == {0, 1}
        assert [row["image"]["bytes"] for row in found.to_pylist()] == [image(1)] * 2
    assert table(whole.select([3, 0]))["label"].to_pylist() == [1, 0]


MORNING = datetime.datetime(2024, 1, 1, 5, 30)


def frame(**columns: Any) -> Any:
    return pd.DataFrame(columns)


BAD: dict[str, tuple[Callable[[], Any], str]] = {
    "path": (lambda: Path("rows.csv"), "data is the path 'rows.csv', and shardmill.write takes rows; shardmill"),
    "bytes": (lambda: b"a", "the first row of the data is int, not a dictionary; expected a pandas or polars"),
    "number": (lambda: 3, "data is int, which is not read; expected a pandas or polars DataFrame, a pyarrow Table"),
    "array": (lambda: np.zeros(3), 'columns have no names; give a dictionary: {"x": data}'),
    "scalars": (lambda: {"a": 1, "b": "x"}, "data is a single dictionary; give [data] for one row, or a dictionary of"),
    "lists": (
        lambda: {"a": np.zeros(2), "b": [1, 2]},
        "data is a dictionary whose value of 'b' is a list, not a NumPy array: it may be one row or hold columns; give"
        " [data] for one row, or pyarrow.table(data) for columns",
    ),
    "tuples": (
        lambda: [(1, 2)],
        "the first row of the data is tuple, not a dictionary; name the values of each row: dict(zip(names, row))",
    ),
    "series": (lambda: pd.Series([1]), "data is a pandas Series, not a DataFrame; give data.to_frame()"),
    "lazy": (lambda: pl.LazyFrame({"a": [1]}), "data is a polars LazyFrame, not a DataFrame; give data.collect()"),
    "unequal": (
        lambda: {"a": np.zeros(3), "b": np.zeros(4)},
        "the dictionary of arrays: 'a' has 3 rows, and 'b' has 4; expected arrays of equal length",
    ),
    "array-of-none": (lambda: {"a": np.zeros(())}, "the dictionary of arrays: 'a' is a single value"),
    "array-names": (lambda: {1: np.zeros(3)}, "the dictionary of arrays: the name 1 is not a string"),
    "complex": (
        lambda: {"a": np.zeros(2, complex)},
        "the dictionary of arrays: column 'a' of type complex128 cannot be stored: Unsupported numpy type",
    ),
    "masked": (
        lambda: {"a": np.ma.zeros((2, 2))},
        "column 'a' of type float64 cannot be stored: a masked array of several dimensions; data.filled(value)",
    ),
    "pandas-complex": (lambda: frame(n=[1], a=[1j]), "the pandas DataFrame: column 'a' of type complex128 cannot be"),
    "pandas-mixed": (
        lambda: frame(n=[1, 2], a=[1, "x"]),
        "the pandas DataFrame: column 'a' of type object cannot be stored: Could not convert 'x' with type str: tried"
        " to convert to int64; convert its values, or give the data without the column:"
        " data.drop(columns=['a'])",
    ),
    "pandas-cut": (
        lambda: frame(n=[1, 2], a=pd.cut(pd.Series([1, 2]), 2)),
        "the pandas DataFrame: column 'a' of type dictionary<values=extension<pandas.interval",
    ),
    "pandas-date-time": (
        lambda: frame(a=pd.Series([MORNING.date(), MORNING], dtype=object)),
        "cannot be stored: row 2 would become 2024-01-01, and is 2024-01-01 05:30:00; convert its values,",
    ),
    "pandas-naive": (lambda: frame(a=[MORNING, MORNING.astimezone()]), "cannot be stored: row 2 would become"),
    "pandas-zone": (lambda: frame(a=[MORNING.astimezone().timetz()]), "cannot be stored: row 1 would become"),
    "pandas-list": (lambda: frame(a=[{"b": [MORNING.date(), MORNING]}]), "cannot be stored: row 1 would become"),
    "array-times": (lambda: {"a": np.array([MORNING.date(), MORNING])}, "cannot be stored: row 2 would become"),
    "pandas-large": (lambda: frame(b=[1], a=[1 << 70]), "column 'a' of type object cannot be stored: Python int too"),
    "pandas-twice": (
        lambda: pd.DataFrame([[1, 2]], columns=["a", "a"]),
        "the pandas DataFrame: column 'a' is there twice; expected names that differ",
    ),
    "pandas-numbers": (
        lambda: pd.DataFrame([[1, 2]]),
        "the pandas DataFrame: the name of column 0 is not a string; data.columns = data.columns.map(str) makes",
    ),
    "pandas-levels": (
        lambda: pd.DataFrame({("a", "b"): [1]}),
        "the pandas DataFrame has columns of 2 levels; give each one name, such as data.columns =",
    ),
    "pandas-index": (
        lambda: frame(a=[1, 2, 3, 4])[lambda rows: rows["a"] != 3],
        "the pandas DataFrame has an index that is not a range, and it may be data; give data.reset_index() to store"
        " it, or data.reset_index(drop=True) to leave it out",
    ),
    "pandas-index-name": (
        lambda: frame(a=[1]).rename_axis("id"),
        "the pandas DataFrame has an index called 'id', and it may be data; give data.reset_index() to store",
    ),
    "pandas-index-only": (lambda: pd.DataFrame(index=range(3)), "the pandas DataFrame has no columns"),
    "polars-objects": (
        lambda: pl.DataFrame({"a": [object()]}, schema={"a": pl.Object}),
        "the polars DataFrame: column 'a' of type Object cannot be stored: it holds Python objects; convert its values,"
        " or give the data without the column: data.drop('a')",
    ),
    "polars-large": (
        lambda: pl.DataFrame({"n": [1], "a": [1 << 70]}, schema={"n": pl.Int8, "a": pl.Int128}),
        "the polars DataFrame: column 'a' of type Int128 cannot be stored",
    ),
    "hugging-face-transform": (
        lambda: datasets.Dataset.from_list(ROWS).with_transform(lambda rows: rows),
        "the Hugging Face Dataset has a function of with_transform or set_transform, which is applied when rows",
    ),
    "arrow-twice": (
        lambda: pa.Table.from_arrays([pa.array([1]), pa.array([2])], ["a", "a"]),
        "the Arrow Table: column 'a' is there twice; expected names that differ",
    ),
    "arrow-type": (
        lambda: pa.table({"n": [1], "a": pa.array([1], pa.run_end_encoded(pa.int32(), pa.int64()))}),
        "the Arrow Table: column 'a' of type run_end_encoded<run_ends: int32, values: int64> cannot be stored:",
    ),
    "split-twice": (
        lambda: {"dev": pa.table({"a": [1]}), "validation": pa.table({"a": [1]})},
        "splits 'dev' and 'validation' of the data have one meaning; rename one of them",
    ),
    "split-name": (
        lambda: {"a b": pa.table({"a": [1]})},
        "split 'a b' of the data: expected letters, digits and '_' only; rename the split",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_data_is_one_sentence(case: str) -> None:
    make, sentence = BAD[case]

    with pytest.raises(UserError, match=re.escape(sentence)) as caught:
        open_rows(make())
    assert "\n" not in str(caught.value)


def test_remedies_help() -> None:
    """Sentences advise what is read."""
    kept = frame(a=[1, 2, 3, 4])[lambda rows: rows["a"] != 3]
    assert table(kept.reset_index())["index"].to_pylist() == [0, 1, 3]
    assert table(kept.reset_index(drop=True)).schema.names == ["a"]
    numbered = pd.DataFrame([[1, 2]])
    numbered.columns = numbered.columns.map(str)
    assert table(numbered).schema.names == ["0", "1"]
    levels = pd.DataFrame({("a", "b"): [1]})
    levels.columns = ["_".join(map(str, names)) for names in levels.columns]
    assert table(levels).schema.names == ["a_b"]
    assert dictionaries([{"a": 1, "b": [1, 2]}]) == [{"a": 1, "b": [1, 2]}]
    assert table(pa.table({"a": [1, 2]})).to_pylist() == [{"a": 1}, {"a": 2}]
    assert table(pl.LazyFrame({"a": [1]}).collect()).to_pylist() == [{"a": 1}]
    assert table(pd.Series([1], name="a").to_frame()).to_pylist() == [{"a": 1}]
    mixed = pd.Series([MORNING.date(), MORNING, None, pd.NaT], dtype=object)
    midnight = MORNING.replace(hour=0, minute=0)
    assert table(frame(a=pd.to_datetime(mixed)))["a"].to_pylist() == [midnight, MORNING, None, None]
    same = [MORNING.date(), MORNING.time(), MORNING, MORNING.astimezone(), pd.Timestamp(1), [MORNING, None]]
    assert table(frame(**{f"c{n}": [value, None] for n, value in enumerate(same)})).num_rows == 2
    for rows in (frame(n=[1], a=[1j]).drop(columns=["a"]), pl.DataFrame({"n": [1], "a": [1]}).drop("a")):
        assert table(rows).to_pylist() == [{"n": 1}]
    transformed = datasets.Dataset.from_list(ROWS).with_transform(lambda rows: rows)
    assert table(transformed.with_format(None)).to_pylist() == ROWS


def test_an_iterator_that_fails_at_once() -> None:
    def rows() -> Iterator[Any]:
        yield {"n": int("no\nmore")}

    with pytest.raises(
        JobError, match=r"^the generator raised ValueError: invalid .*, after 0 rows; nothing was published$"
    ):
        open_rows(rows())

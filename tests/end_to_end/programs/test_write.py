"""`shardmill.write`: each kind of data becomes the bytes that `shardmill parquet` makes of a file of the same rows."""

import datetime
import decimal
import errno
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import shardmill
from shardmill.errors import JobError, UserError
from shardmill.transforms.rows import spool
from shardmill.transforms.stores import storage
from tests.support.command import SOURCE, image
from tests.support.golden_cases import digests_in, of_any_input
from tests.support.jobs import Built
from tests.support.later import Later

datasets = Later("datasets")
pd = Later("pandas")
pl = Later("polars")

SPLITS = {"train": 0.6, "test": 0.4}
NUMBERS = np.random.default_rng(3)
COLUMNS: dict[str, Any] = {
    "id": list(range(200)),
    "city": [("Bern", "Zürich", None)[n % 3] for n in range(200)],
    "size": [None if n % 7 == 0 else n / 4 for n in range(200)],
    "flag": [n % 2 == 0 for n in range(200)],
    "tags": [[n, n + 1][: n % 3] for n in range(200)],
    "raw": [bytes([n]) * 3 for n in range(200)],
}
TABLE = pa.table(COLUMNS)
OPTIONS: dict[str, Any] = {"splits": SPLITS, "label": "city", "fill": {"city": "none"}, "num_shards": 2}


class Written:
    """Data sets that calls write below a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def write(self, data: Any, **options: Any) -> Built:
        """Write data with `shardmill.write`."""
        output = self.folder / f"out{len(list(self.folder.glob('out*')))}"
        return Built(Path(shardmill.write(data, output=output, name="d", **options).directory))

    def convert(self, folder: Path, **options: Any) -> Built:
        """Convert Parquet files with `shardmill.convert`."""
        output = self.folder / f"out{len(list(self.folder.glob('out*')))}"
        return Built(Path(shardmill.convert("parquet", input=folder, output=output, name="d", **options).directory))

    def check(self, data: Any, write_file: Callable[[Path], object], **options: Any) -> Built:
        """Check that data and a file of it become the same files, and return the former."""
        file = self.folder / f"in{len(list(self.folder.glob('in*')))}" / "rows.parquet"
        file.parent.mkdir()
        write_file(file)
        made = self.write(data, **options)
        assert files(made) == files(self.convert(file.parent, **options))
        return made


def files(made: Built) -> dict[str, str]:
    """Return the digests of all files of a version that do not name its input."""
    found = {f"d/1.0.0/{name}": digest for name, digest in digests_in(made.directory).items()}
    return of_any_input(found)


@pytest.fixture
def written(tmp_path: Path) -> Written:
    return Written(tmp_path)


def test_tables_of_all_kinds_become_the_bytes_of_their_file(written: Written) -> None:
    """The digests of the first one count for all: rows are the same, whatever holds them (test_sources.py)."""

    def write_file(path: Path) -> None:
        pq.write_table(TABLE, path, row_group_size=30)

    first = files(written.check(TABLE, write_file, **OPTIONS))
    for data in (TABLE.to_reader(max_chunksize=7), TABLE.to_pandas(types_mapper=pd.ArrowDtype), pl.from_arrow(TABLE)):
        assert files(written.write(data, **OPTIONS)) == first


def test_types_of_pandas_are_those_of_its_file(written: Written) -> None:
    numbers = range(60)
    frame = pd.DataFrame(
        {
            "id": pd.array([n or None for n in numbers], dtype="Int64"),
            "kind": pd.Categorical([["a", "b", None][n % 3] for n in numbers]),
            "when": pd.date_range("2024-01-01", periods=60, freq="h", tz="Europe/Zurich"),
            "wait": pd.to_timedelta(list(numbers), unit="s"),
            "x": [np.nan if n % 5 == 0 else n / 8 for n in numbers],
            "unused": [decimal.Decimal(n) for n in numbers],
            "objects": [{"a": n, "b": str(n)} for n in numbers],
            "lists": [np.arange(n % 4) for n in numbers],
            "period": pd.period_range("2020-01", periods=60, freq="M"),
        },
        index=pd.RangeIndex(5, 65),
    )
    options = {"timestamp": {"when": "ms"}, "drop": "unused", "flatten": True, "label": "kind", "fill": {"kind": "c"}}
    made = written.check(frame, frame.to_parquet, seed=3, **options)

    assert [feature.name for feature in made.manifest.features] == [
        *("id", "kind", "when", "wait", "x", "objects.a", "objects.b", "lists", "period")
    ]
    assert any("durations" in notice for notice in made.notices)


def test_types_of_polars_are_those_of_its_file(written: Written) -> None:
    numbers = range(60)
    frame = pl.DataFrame({"id": numbers, "x": [n / 8 for n in numbers]}).with_columns(
        kind=pl.Series([["a", "b", None][n % 3] for n in numbers], dtype=pl.Categorical),
        enum=pl.Series([["a", "b"][n % 2] for n in numbers], dtype=pl.Enum(["b", "a"])),
        price=pl.Series([decimal.Decimal(n) / 4 for n in numbers]),
        lists=pl.Series([[n] * (n % 3) for n in numbers]),
        pair=pl.Series([[n, n] for n in numbers], dtype=pl.Array(pl.Int16, 2)),
        struct=pl.Series([{"a": n} for n in numbers]),
        when=pl.Series([datetime.datetime(2024, 1, 1) + datetime.timedelta(hours=n) for n in numbers]),
        time=pl.Series([datetime.time(n % 24) for n in numbers]),
        wait=pl.Series([datetime.timedelta(seconds=n) for n in numbers]),
    )
    written.check(frame, frame.write_parquet, json_columns="struct", key="id", group_by="enum", splits=SPLITS)


def test_arrays_become_the_bytes_of_a_table_of_them(written: Written) -> None:
    arrays = {
        "x": NUMBERS.random((50, 3), np.float32),
        "grid": NUMBERS.integers(0, 255, (50, 2, 2), np.uint8),
        "label": np.array(["a", "b"] * 25),
    }
    grids = pa.FixedShapeTensorArray.from_numpy_ndarray(arrays["grid"])
    table = pa.table({"x": arrays["x"].tolist(), "grid": grids, "label": arrays["label"]})
    made = written.check(arrays, lambda path: pq.write_table(table, path), label="label")

    assert [feature.shape for feature in made.manifest.features] == [(3,), (2, 2), ()]


def test_hugging_face_keeps_splits_class_names_and_images(written: Written, tmp_path: Path) -> None:
    features = datasets.Features(
        {
            "image": datasets.Image(),
            "label": datasets.ClassLabel(names=["cat", "dog"]),
            "caption": datasets.Value("string"),
        }
    )
    datasets.disable_progress_bars()
    (tmp_path / "images").mkdir()
    rows: dict[str, list[dict[str, Any]]] = {"train": [], "test": []}
    for n in range(20):
        (tmp_path / "images" / f"{n}.jpg").write_bytes(image(n))
        rows["test" if n % 4 == 0 else "train"].append({"label": n % 2, "caption": f"c{n}", "image": image(n)})
        rows["test" if n % 4 == 0 else "train"][-1]["image"] = {"bytes": image(n), "path": f"{n}.jpg"}
    parts = {split: datasets.Dataset.from_list(part, features=features) for split, part in rows.items()}
    for split, part in parts.items():
        (tmp_path / "in" / split).mkdir(parents=True)
        part.to_parquet(str(tmp_path / "in" / split / "a.parquet"))
    expected = written.convert(tmp_path / "in")

    made = written.write(datasets.DatasetDict(parts))
    assert files(made) == files(expected)
    assert {feature.name: feature.class_names for feature in made.manifest.features}["label"] == ("cat", "dog")
    # Files of images that only their paths name are read
    named = {
        split: [row | {"image": str(tmp_path / "images" / row["image"]["path"])} for row in part]
        for split, part in rows.items()
    }
    by_path = {split: datasets.Dataset.from_list(part, features=features).shuffle(1) for split, part in named.items()}
    assert files(written.write(datasets.DatasetDict(by_path))) == files(made)
    streamed = {split: part.to_iterable_dataset() for split, part in by_path.items()}
    assert files(written.write(datasets.IterableDatasetDict(streamed))) == files(made)
    # A split without rows, and names of splits that no folder has
    named_otherwise = written.write({"dev": parts["train"], "v2": parts["test"].select([])})
    assert named_otherwise.splits == {"validation": 15, "v2": 0}
    assert named_otherwise.notices[:1] == ["split 'dev' is called 'validation'"]
    assert written.write(datasets.DatasetDict(parts), splits=SPLITS).splits.keys() == SPLITS.keys()


def test_rows_are_numbered_and_ordered_over_files(written: Written, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spool, "FILE_BYTES", 1)
    monkeypatch.setattr(spool, "GROUP_BYTES", 1)
    large = pa.array([(1 << 64) - 1 if n in (4, 28) else n for n in range(30)], pa.uint64())
    table = pa.table({"id": range(30), "large": large})
    made = written.write(table.to_reader(max_chunksize=3), no_shuffle=True, max_reject_fraction=0.5)

    assert made.reasons.keys() == {"RecordBatchReader:5", "RecordBatchReader:29"}
    assert [row["id"] for row in made.examples()] == [n for n in range(30) if n not in (4, 28)]
    assert made.manifest.input["pattern"] == "RecordBatchReader"
    parts = {"train": table[:20], "test": table[20:]}
    assert written.write(parts, max_reject_fraction=0.5).reasons.keys() == {"train/Table:5", "test/Table:9"}


def test_a_plan_writes_nothing(written: Written) -> None:
    plan = shardmill.write(TABLE, output=written.folder / "out", name="d", splits=SPLITS, dry_run=True)

    assert str(plan).splitlines()[1:4] == [
        "Input: the Arrow Table: 200 rows",
        "Split train: 0.6 of the rows",
        "Split test: 0.4 of the rows",
    ]
    with pytest.raises(UserError, match=r"dry_run would use up the rows of an iterator; give a list"):
        shardmill.write(iter([{"a": 1}]), output=written.folder / "out", name="d", dry_run=True)
    assert list(written.folder.iterdir()) == []


def failing(error: BaseException) -> Iterator[dict[str, int]]:
    yield from ({"n": n} for n in range(1000))
    raise error


@pytest.mark.parametrize(
    ("make", "kind", "sentence"),
    [
        (lambda: failing(ValueError("no\nmore")), JobError, "the generator raised ValueError: no, after 1,000 rows"),
        (lambda: failing(KeyboardInterrupt()), KeyboardInterrupt, "nothing was published"),
        (
            lambda: pa.RecordBatchReader.from_batches(
                pa.schema({"n": pa.int64()}), (pa.RecordBatch.from_pylist([row]) for row in failing(OSError("gone")))
            ),
            JobError,
            "the RecordBatchReader raised OSError: gone, after 1,000 rows; nothing was published",
        ),
        (lambda: TABLE[:0], UserError, "the Arrow Table has no rows"),
        (list, UserError, "no rows in the list"),
    ],
    ids=["generator", "interrupt", "reader", "no-rows", "empty-list"],
)
def test_data_that_fails_leaves_nothing(
    written: Written, make: Callable[[], Any], kind: type[BaseException], sentence: str
) -> None:
    with pytest.raises(kind, match=re.escape(sentence)) as caught:
        written.write(make())

    assert "\n" not in str(caught.value)
    assert list(written.folder.rglob("*")) == []


def test_options_are_those_of_rows(written: Written) -> None:
    for option, sentence in (
        ({"input": "rows.csv"}, "--input: the rows are in no files; leave it out"),
        ({"exclude": "a"}, "--exclude: the rows are in no files; leave it out"),
        ({"labl": "city"}, "unknown option 'labl'; did you mean label?"),
        ({"label": "town"}, "--label town: no such column in the Arrow Table"),
    ):
        with pytest.raises(UserError, match=re.escape(sentence)):
            written.write(TABLE, **option)
    assert list(written.folder.rglob("*")) == []


def test_a_full_disk_is_one_sentence(written: Written, monkeypatch: pytest.MonkeyPatch) -> None:
    def write_parts(path: str, parts: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(storage, "write_parts", write_parts)
    with pytest.raises(JobError, match=r"No space left on device; nothing was published$"):
        written.write(TABLE)
    assert list(written.folder.rglob("*")) == []


class Point(NamedTuple):
    """A row with names."""

    x: int
    label: str


def test_a_generator_may_use_one_dictionary_and_one_array_for_all_rows(written: Written) -> None:
    def rows() -> Iterator[dict[str, Any]]:
        row: dict[str, Any] = {"pixels": np.zeros(3, np.float32)}
        for n in range(20):
            row["n"] = n
            row["pixels"][:] = n
            yield row

    made = written.write(rows())

    assert sorted((row["n"], *row["pixels"]) for row in made.examples()) == [(n, n, n, n) for n in range(20)]
    assert files(written.write([Point(n, "ab"[n % 2]) for n in range(9)], label="label")) == files(
        written.write([{"x": n, "label": "ab"[n % 2]} for n in range(9)], label="label")
    )


def test_dictionaries_become_the_bytes_of_a_table_of_them(written: Written) -> None:
    rows = TABLE.to_pylist()

    made = files(written.write(TABLE, **OPTIONS))
    assert files(written.write(rows, **OPTIONS)) == files(written.write(map(dict, rows), **OPTIONS)) == made


def test_dictionaries_may_lack_keys_and_values(written: Written) -> None:
    rows = [{"z": {"b": 1, "a": [n]}, "none": None} | ({"late": n} if n > 5 else {}) for n in range(9)]
    made = written.write(rows, flatten=True)

    assert [feature.name for feature in made.manifest.features] == ["z.a", "z.b", "late"]
    assert made.notices == ["column 'none' has no value in any row, and was left out"]


_PEAK = """
import random, sys
import shardmill

def rows(number):
    made = random.Random(1)
    for n in range(number):
        yield {"id": n, "data": made.randbytes(4000)}

shardmill.write(rows(int(sys.argv[1])), output=sys.argv[2], name="d")
print(int(open("/proc/self/status").read().split("VmHWM:")[1].split()[0]) >> 10)
"""


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the peak is in /proc")
def test_memory_stays_flat_for_a_generator(written: Written) -> None:
    """Peaks in MiB, of 80 and of 400 MB of rows; ru_maxrss would begin at the peak of the process that runs tests."""
    peaks = []
    for rows in (20_000, 100_000):
        words = [sys.executable, "-c", _PEAK, str(rows), str(written.folder / str(rows))]
        done = subprocess.run(words, cwd=SOURCE, capture_output=True, text=True, check=True)
        peaks.append(int(done.stdout))

    assert peaks[1] - peaks[0] < 130

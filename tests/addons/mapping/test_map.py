"""--map and --map_batches end to end: a user's function between the records of the input and the examples."""

import io
import wave
from dataclasses import replace
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

import shardmill
from shardmill.addons.mapping.changes import MappedConfig
from shardmill.addons.mapping.records import RecordMap, map_task, needs_types
from shardmill.addons.mapping.spool import MappedSpool
from shardmill.errors import UserError
from shardmill.pipelines.commands import convert
from shardmill.pipelines.config.records import RecordsConfig
from shardmill.pipelines.jobs import registry
from shardmill.transforms.columns.types import ColumnType, Inferred
from shardmill.transforms.formats.format import FileRef
from shardmill.transforms.options.declare import options_of
from shardmill.transforms.records.staging import infer_columns_of_task
from tests.support.archives import tar
from tests.support.avro_files import avro, record
from tests.support.command import REPOSITORY, Run, npy
from tests.support.jobs import Jobs
from tests.support.table_results import parquet

CLEAN = """
import json
from helper import double

def same(row):
    return row

def batch(batch):
    return batch

def clean(row):
    print("a line", row["n"])
    if row["n"] % 10 == 3:
        return None
    if row["n"] == 25:
        raise ValueError("twenty-five")
    if row["n"] % 10 == 7:
        return [{**row, "part": 0}, {**row, "part": 1}]
    return {"n": double(row["n"]), "word": row["word"].upper(), "x": row["x"], "part": 0}

def shown(row):
    return {"shown": repr(sorted(row.items()))}

def none(row):
    return None

def drawn(row, rng):
    return {"n": row["n"], "drawn": int(rng.integers(1 << 40))}

def counted(row, calls=[]):
    calls.append(1)
    return {"n": row["n"], "calls": len(calls)}

def odd(batch):
    import pyarrow.compute as pc
    if pc.any(pc.equal(batch["n"], 25)).as_py():
        raise ValueError("twenty-five")
    return batch.filter(pc.equal(pc.bit_wise_and(batch["n"], 1), 1))

def whole(batch):
    import pyarrow as pa
    return pa.RecordBatch.from_pylist([{"rows": len(batch)}])

def odd_value(row):
    return {"n": object if row["n"] == 25 else row["n"]}

def typed(row):
    return {"n": row["n"] if row["n"] % 2 else "even"}
"""
ROWS = [{"n": n, "x": n / 8, "word": f"w{n % 3}"} for n in range(100)]
CSV = "n,x,word,empty\n" + "".join(f"{row['n']},{row['x']},{row['word']},\n" for row in ROWS)
SPLITS = "--splits train=0.8,test=0.2"


@pytest.fixture
def jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run) -> Jobs:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "clean.py").write_text(CLEAN)
    (tmp_path / "helper.py").write_text("def double(n): return 2 * n\n")
    return Jobs(tmp_path, run)


def test_rows_change_are_left_out_added_and_rejected(jobs: Jobs) -> None:
    built = jobs.build(f"csv --map clean.py:clean {SPLITS} --label word --key n", files={"a.csv": CSV})

    rows = built.table.rows
    assert len(rows) == 100 - 10 - 1 + 10
    assert built.table.features == {"n": "int64", "part": "int64", "word": "int64", "x": "float32"}
    assert built.reasons == {"a.csv:27": "clean.py line 16: clean raises ValueError: twenty-five"}
    assert built.manifest.input["records"] == 100
    assert [notice for notice in built.notices if "--map" in notice] == [
        "--map clean.py:clean left out 10 of 99 records (first: a.csv, line 5)",
        "--map clean.py:clean made 20 rows of 10 records (first: a.csv, line 9)",
    ]
    (shared,) = (notice for notice in built.notices if "values of --key n" in notice)
    assert shared.endswith("; all are kept")  # --on_duplicate_key reject is refused
    assert "a line 1" in built.said
    digests = built.manifest.configuration["map"]
    assert (digests["function"], digests["name"], list(digests["modules"])) == ("clean", "clean.py", ["helper.py"])


@pytest.mark.parametrize(
    ("command", "options", "files", "shown"),
    [
        (
            "csv",
            {},
            {"a.csv": "n,x,t,b,e\n7,0.1,a,true,\n8,1.5e30,é,false,\n"},
            [
                "[('b', False), ('e', None), ('n', 8), ('t', 'é'), ('x', 1.5e+30)]",
                "[('b', True), ('e', None), ('n', 7), ('t', 'a'), ('x', 0.1)]",
            ],
        ),
        ("csv", {"types": ["n=bytes"]}, {"a.csv": "n\n007\n8\n"}, ["[('n', '007')]", "[('n', '8')]"]),
        ("csv", {"types": ["n=float32"]}, {"a.csv": "n,m\n7,1\n"}, ["[('m', 1), ('n', 7.0)]"]),
        ("csv", {"decimal": ",", "delimiter": ";"}, {"a.csv": "x\n0,1\n2,5\n"}, ["[('x', 0.1)]", "[('x', 2.5)]"]),
        (
            "jsonl",
            {},
            {"a.jsonl": '{"n": 1, "o": {"t": ["a", 1.5]}}\n{"x": null}\n'},
            ["[('n', 1), ('o', {'t': ['a', 1.5]})]", "[('x', None)]"],
        ),
        ("text", {}, {"a.txt": "one\n\ntwo é\n"}, ["[('text', 'one')]", "[('text', 'two é')]"]),
        (
            "text",
            {"line_numbers": True},
            {"a.txt": "\nx\n"},
            ["[('filename', 'a.txt'), ('line_number', 2), ('text', 'x')]"],
        ),
        ("text", {"record": "paragraph"}, {"a.txt": "a\nb\n\nc\n"}, ["[('text', 'a\\nb')]", "[('text', 'c')]"]),
        (
            "text",
            {"input": {"de": "in/a.txt", "en": "in/b.txt"}},
            {"a.txt": "eins\n", "b.txt": "one\n"},
            ["[('de', 'eins'), ('en', 'one')]"],
        ),
        (
            "csv",
            {"hive_partitioning": True},
            {"y=2024/a.csv": "n\n1\n", "y=2025/a.csv": "n\n2\n"},
            ["[('n', 1), ('y', 2024)]", "[('n', 2), ('y', 2025)]"],
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "-".join(value) if isinstance(value, dict) else "",
)
def test_a_function_gets_the_records_of_text(
    jobs: Jobs, command: str, options: dict[str, Any], files: dict[str, Any], shown: list[str]
) -> None:
    jobs.write(files)
    values = {"input": "in", "output": "out", "name": "n", "map": "clean.py:shown", **options}
    config: Any = convert.make_config(command, values)[1]
    reader = config.input_format
    task = tuple(block for file in config.files.list_files(config.kind) for block in reader.index(file))
    (types,) = infer_columns_of_task(reader, None, (), task) if needs_types(reader, as_batches=False) else (Inferred(),)
    mapping = RecordMap(config.stream.function, reader, config.seed, config.types)
    mapped, *_ = map_task(mapping, str(jobs.folder / "temporary"), task, types)
    made, shown_type = MappedConfig.of(config).format, {"shown": ColumnType("bytes", None, 1)}
    read = (rows for block in mapped for rows in made.read(block, shown_type))
    assert sorted(row.as_py().decode() for rows in read for row in rows.batch["shown"]) == sorted(shown)


def test_a_function_gets_the_records_of_binary_files(jobs: Jobs) -> None:
    rows = [{"n": 1, "o": {"t": ["a"]}, "b": b"\xff", "x": 0.5}]
    image = picture(1, "png")
    sample = {"filename": "k", "image": image, "n": [1], "text": "é"}
    found = {}
    for command, file, content in (
        ("parquet", "a.parquet", pa.Table.from_pylist(rows)),
        ("avro", "a.avro", avro(record(n="long", t="string", b="bytes"), [{"n": 1, "t": "a", "b": b"\xff"}])),
        ("webdataset", "a.tar", tar([("k.png", image), ("k.json", b'{"n": [1]}'), ("k.txt", "é".encode())])),
    ):
        path = jobs.folder / "in" / command / file
        path.parent.mkdir(parents=True)
        pq.write_table(content, path) if isinstance(content, pa.Table) else path.write_bytes(content)
        built = jobs.build(f"{command} --input in/{command} --name {command} --map clean.py:shown")
        found[command] = [row["shown"].decode() for row in built.table.rows]
    assert found == {
        "parquet": [repr(sorted(rows[0].items()))],
        "avro": [repr(sorted({"n": 1, "t": "a", "b": b"\xff"}.items()))],
        "webdataset": [repr(sorted(sample.items()))],
    }


def test_a_value_that_is_not_stored_is_a_reject_of_its_line(jobs: Jobs) -> None:
    built = jobs.build("csv --map clean.py:odd_value", files={"a.csv": CSV})
    ((name, reason),) = built.reasons.items()
    assert (name, reason.partition(";")[0]) == ("a.csv:27", "column 'n': a type is not stored")


def test_what_a_row_group_loses_is_a_reject(jobs: Jobs) -> None:
    data = parquet(pa.table({"n": range(500)}), row_group_size=250, compression="none", use_dictionary=False)
    line = "parquet --map clean.py:same --max_reject_fraction 0.9"
    built = jobs.build(line, files={"a.parquet": data[:4] + b"\xff" * 40 + data[44:]})
    assert sorted(row["n"] for row in built.table.rows) == [*range(250, 500)]
    assert "row group 0 cannot be read from row 1 on" in built.reasons["a.parquet:1"]


def test_batches_of_other_metadata_are_in_another_file(tmp_path: Path) -> None:
    spool, file, batch = MappedSpool(str(tmp_path)), FileRef("a", "a", 1), pa.RecordBatch.from_pylist([{"n": 1}])
    for metadata in (None, {"huggingface": "{}"}):
        spool.add_batch(file, np.array([1]), batch.replace_schema_metadata(metadata))
    blocks = spool.close()
    assert (len({block.file.path for block in blocks}), [block.offset for block in blocks]) == (2, [0, 0])


def test_batches_give_the_same_as_rows(jobs: Jobs) -> None:
    line = f"csv {SPLITS} --label word"
    plain = jobs.build(f"{line} --name plain", files={"a.csv": CSV})
    rows = jobs.build(f"{line} --name rows --map clean.py:same")
    batches = jobs.build(f"{line} --name batches --map_batches clean.py:batch")
    assert {split: sorted(map(str, found)) for split, found in rows.table.splits.items()} == {
        split: sorted(map(str, found)) for split, found in batches.table.splits.items()
    }
    assert sorted(str(sorted(row.items())) for row in plain.table.rows) == sorted(
        str(sorted(row.items())) for row in rows.table.rows
    )


def test_a_batch_that_fails_loses_only_the_rows_that_fail(jobs: Jobs) -> None:
    built = jobs.build("csv --map_batches clean.py:odd", files={"a.csv": CSV})
    assert sorted(row["n"] for row in built.table.rows) == [n for n in range(1, 100, 2) if n != 25]
    assert built.reasons == {"a.csv:27": "clean.py line 37: odd raises ValueError: twenty-five"}
    assert "--map_batches clean.py:odd left out 50 of 99 records (first: a.csv, line 2)" in built.notices


@pytest.mark.slow
@pytest.mark.parametrize("function", ["--map clean.py:drawn", "--map clean.py:clean", "--map_batches clean.py:batch"])
def test_bytes_are_the_same_whatever_the_blocks_and_workers(jobs: Jobs, function: str) -> None:
    line = f"csv {function} {SPLITS}"
    one = jobs.build(line, files={"a.csv": CSV, "b.csv": CSV.replace("w1", "v")})
    others = ("--block_size 1KiB", "--direct_running_mode multi_processing --direct_num_workers 2 --block_size 2KiB")
    for number, more in enumerate(others):
        other = jobs.build(f"{line} {more} --output out{number}")
        shards = [path.name for path in sorted(one.directory.glob("*.tfrecord*"))]
        assert len(shards) == 2
        for name in shards:
            assert (other.directory / name).read_bytes() == (one.directory / name).read_bytes()
        assert other.notices == one.notices


def test_what_differs_when_it_is_run_again_is_a_notice(jobs: Jobs) -> None:
    built = jobs.build("csv --map clean.py:counted", files={"a.csv": CSV})
    (notice,) = (notice for notice in built.notices if "--map" in notice)
    assert notice == (
        "--map clean.py:counted returned something else for 100 of 100 records that it was given twice (first: a.csv,"
        " line 2): builds of the same input will differ"
    )
    built = jobs.build("csv --map_batches clean.py:whole --name b")
    (notice,) = (notice for notice in built.notices if "something else" in notice)
    assert "for 64 of 64 records that it was given twice (first: a.csv, line 2)" in notice


def test_folders_are_splits_and_input_order_is_kept(jobs: Jobs) -> None:
    files = {"train/a.csv": CSV, "test/b.csv": "n,x,word,empty\n7,1,v,\n8,2,v,\n"}
    built = jobs.build("csv --no_shuffle --map clean.py:clean", files=files)
    assert [(row["n"], row["part"]) for row in built.examples("test")] == [(7, 0), (7, 1), (16, 0)]
    assert built.splits == {"train": 99, "test": 3}


def test_a_dry_run_calls_the_function(jobs: Jobs) -> None:
    jobs.write({"a.csv": CSV})
    result = jobs.run("csv --map clean.py:clean --dry_run")
    assert result.status == 0
    assert "word: bytes" in result.out
    assert "part: int64" in result.out
    assert not (jobs.folder / "out").exists()


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        (
            "csv --map clean.py:clean --max_reject_fraction 1 --key n --on_duplicate_key reject",
            "makes several rows of a",
        ),
        ("csv --map gone.py:clean", "--map gone.py: No such file"),
        ("csv --map clean.py:same --map_batches clean.py:batch", "--map and --map_batches: records are"),
        ("csv --map clean.py:none", "--map clean.py:none left out all 100 records of --input in"),
        (
            "csv --map clean.py:same --label city",
            "--label city: no such column in the rows of --map clean.py:same; the",
        ),
        ("jsonl --input in/b.jsonl --map_batches clean.py:batch", "column 'o' cannot be a column of Arrow"),
    ],
)
def test_a_mistake_is_one_sentence_before_anything_is_written(jobs: Jobs, line: str, sentence: str) -> None:
    jobs.write({"a.csv": CSV, "b.jsonl": '{"o": {"a": 1}}\n{"o": [1, "a"]}\n'})
    result = jobs.run(line)
    assert (result.status, result.out) == (2, ""), result
    assert sentence in result.err
    assert not list(jobs.folder.glob("out/**/*.*"))


def test_columns_of_two_types_are_as_in_json_lines(jobs: Jobs) -> None:
    built = jobs.build("csv --map clean.py:typed", files={"a.csv": CSV})
    assert {row["n"] for row in built.table.rows} == {b"even", *(str(n).encode() for n in range(1, 100, 2))}
    assert any("column 'n'" in notice for notice in built.notices)


def test_a_nightly_rebuild_sees_a_function_that_changed(jobs: Jobs) -> None:
    jobs.write({"a.csv": CSV})
    words = "csv --map clean.py:same --write_recipe r.yaml"
    assert jobs.run(words).status == 0
    assert jobs._run("rebuild", "r.yaml").status == 0
    first = jobs._run("rebuild", "r.yaml")
    assert not (jobs.folder / "out/n/1.0.1").exists(), first
    (jobs.folder / "helper.py").write_text("def double(n): return 3 * n\n")
    second = jobs._run("rebuild", "r.yaml")
    assert (jobs.folder / "out/n/1.0.1/_SUCCESS").exists(), second
    assert "--map" in second.out + second.err


def test_python_takes_a_lambda(jobs: Jobs) -> None:
    jobs.write({"a.csv": CSV})
    step = 5
    published = shardmill.convert(
        "csv", input="in", output="out", name="n", map=lambda row: {"n": row["n"] + step} if row["n"] < 10 else None
    )
    assert sorted(row["n"] for row in shardmill.examples(published.directory, "train")) == list(range(5, 15))
    with pytest.raises(UserError, match=r"3 is not FILE\.py:FUNCTION"):
        shardmill.convert("csv", input="in", output="out", name="m", map=3)  # type: ignore[call-overload]


def test_images_that_a_function_makes_are_image_features(jobs: Jobs) -> None:
    (jobs.folder / "draw.py").write_text(
        "from PIL import Image\n"
        "def draw(row):\n"
        "    return {'picture': Image.new('RGB', (4, 3), (row['n'], 0, 0)), 'n': row['n']}\n"
    )
    built = jobs.build("csv --map draw.py:draw", files={"a.csv": CSV})
    (feature,) = (feature for feature in built.manifest.features if feature.name == "picture")
    assert feature.kind == "image"
    rows = shardmill.source(built.directory, "train", decode=True)
    assert {tuple(row["picture"][0, 0].tolist()) for row in rows} == {(n, 0, 0) for n in range(100)}


def test_examples_keep_their_splits(jobs: Jobs) -> None:
    old = jobs.build(f"csv --name old {SPLITS}", files={"a.csv": CSV})
    (jobs.folder / "ten.py").write_text("def ten(row):\n    return {'n': row['n'][0] * 10, 'w': row['word']}\n")
    built = jobs.build("reshard --input out/old --map ten.py:ten")
    assert sorted(row["n"] for row in built.table.rows) == [10 * n for n in range(100)]
    assert built.table.rows[0].keys() == {"n", "w"}
    assert built.splits == old.splits
    jobs.refuse("reshard --input out/old --map_batches ten.py:ten", "ten: examples are not in batches; give…--map")


AUGMENT = """
import numpy as np
from PIL import ImageOps

def look(row):
    assert np.asarray(row["image"]).shape == (6, 7, 3)
    return row

def augment(row, rng):
    if row["filename"].endswith("3.png"):
        return
    if row["filename"].endswith("4.png"):
        raise ValueError("four")
    yield {**row, "first": True}
    yield {**row, "image": np.asarray(ImageOps.mirror(row["image"])), "first": False, "drawn": int(rng.integers(1000))}

def columns(row):
    return {"shown": repr({name: value for name, value in row.items() if name != "image"})}

def upper(row):
    return {**row, "text": row["text"].upper()}

def broken(row):
    return {**row, "image": b"no image"}
"""


@pytest.fixture
def pets(jobs: Jobs) -> Jobs:
    (jobs.folder / "aug.py").write_text(AUGMENT)
    jobs.write({f"{pet}/{n}.{kind}": picture(n, kind) for pet in ("cat", "dog") for n, kind in enumerate(KINDS)})
    return jobs


KINDS = ("jpg", "png", "jpg", "png", "png", "jpg", "jpg", "png", "png", "jpg")


def picture(number: int, kind: str) -> bytes:
    pixels = np.random.default_rng(number).integers(0, 255, (6, 7, 3), np.uint8)
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, "JPEG" if kind == "jpg" else "PNG")
    return out.getvalue()


def test_images_keep_their_bytes_labels_and_splits(pets: Jobs) -> None:
    plain = pets.build(f"images --name plain {SPLITS}")
    built = pets.build(f"images --map aug.py:look {SPLITS}")
    for split in ("train", "test"):
        rows, expected = (
            {row["filename"]: (bytes(row["image"]), row["label"]) for row in version.examples(split)}
            for version in (built, plain)
        )
        assert rows == expected
    assert (built.directory / "label.labels.txt").read_text() == "cat\ndog\n"
    (feature,) = (feature for feature in built.manifest.features if feature.name == "image")
    assert feature.kind == "image"


def test_images_are_augmented(pets: Jobs) -> None:
    line = f"images --map aug.py:augment {SPLITS} --max_reject_fraction 0.2"
    built = pets.build(line)
    rows = [row for split in built.splits for row in built.examples(split)]
    assert len(rows) == 2 * (20 - 2 - 2)
    assert built.reasons == {f"{p}/4.png": "aug.py line 13: augment raises ValueError: four" for p in ("cat", "dog")}
    assert [notice for notice in built.notices if "--map" in notice] == [
        "--map aug.py:augment left out 2 of 18 records (first: cat/3.png)",
        "--map aug.py:augment made 32 rows of 16 records (first: cat/0.jpg)",
    ]
    splits = {split: {row["filename"] for row in built.examples(split)} for split in built.splits}
    assert not splits["train"] & splits["test"]  # both images of a file are in one split
    for first in (row for row in rows if row["first"]):
        (mirrored,) = (row for row in rows if row["filename"] == first["filename"] and not row["first"])
        one, other = (np.asarray(Image.open(io.BytesIO(row["image"]))) for row in (first, mirrored))
        assert np.abs(one[:, ::-1].astype(int) - other).max() <= (0 if b"png" in first["filename"] else 60)


def test_a_manifest_gives_columns_and_splits(pets: Jobs) -> None:
    manifest = "file_name,label,split,score\ncat/0.jpg,a,train,0.1\ncat/1.png,b,test,2\n"
    pets.write({"meta.csv": manifest})
    built = pets.build("images --manifest in/meta.csv --map aug.py:columns")
    assert [row["shown"].decode() for row in built.examples("test")] == [
        "{'label': 'b', 'filename': 'cat/1.png', 'score': 2.0}"
    ]
    assert built.splits == {"train": 1, "test": 1}
    result = pets.run("images --exclude meta.csv --map aug.py:columns --dry_run --name d")
    assert (result.status, "shown: bytes" in result.out) == (0, True)


def test_an_image_that_is_none_is_a_reject_of_its_file(pets: Jobs) -> None:
    pets.fail("images --map aug.py:broken", "20 of 20 records were rejected…'cat/0.jpg'")


def test_texts_of_whole_files_and_flags_that_functions_exclude(pets: Jobs) -> None:
    pets.write({"texts/a/x.txt": "one\ntwo\n", "texts/b/y.txt": "é\n"})
    built = pets.build("text --record file --input in/texts --map aug.py:upper --name t")
    rows = {row["filename"]: (row["text"].decode(), row["label"]) for row in built.table.rows}
    assert rows == {b"a/x.txt": ("ONE\nTWO\n", 0), b"b/y.txt": ("É\n", 1)}
    pets.refuse("images --map_batches aug.py:look", "--map_batches aug.py:look: files are not in batches; give…--map")
    pets.refuse("images --map aug.py:look --reuse record", "--map aug.py:look and --reuse: the function makes the")


ARRAYS = """
def halve(row):
    assert (row["image"].shape, row["image"].dtype) == ((2, 3), "float32")
    row["image"] /= 2
    return row

def lines(row):
    for number, line in enumerate(row["image"]):
        yield {"line": line, "number": number, "label": row["label"]}

def shorten(row):
    assert row["audio"].shape == ((row["frames"],) if row["channels"] == 1 else (row["frames"], row["channels"]))
    return {**row, "audio": row["audio"][:2]}

def name(row):
    return {"begin": row["audio"][:4], "rate": row["sample_rate"], "label": row["label"]}
"""


def wave_file(frames: int, channels: int) -> bytes:
    out = io.BytesIO()
    with wave.open(out, "wb") as file:
        file.setnchannels(channels)
        file.setsampwidth(2)
        file.setframerate(8000)
        file.writeframes(np.full(frames * channels, 1 << 14, "<i2").tobytes())
    return out.getvalue()


def test_a_function_gets_arrays_and_audio(jobs: Jobs) -> None:
    (jobs.folder / "fn.py").write_text(ARRAYS)
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    jobs.write({f"files/{label}/{n}.npy": npy(array + n) for n, label in enumerate("abab")})
    jobs.write({"stacked/x_train.npy": npy(np.arange(24, dtype=np.uint8).reshape(4, 2, 3))})
    jobs.write({"stacked/y_train.npy": npy(np.array([0, 1, 0, 1]))})
    jobs.write({f"mono/{label}/{n}.wav": wave_file(5 + n, 1) for n, label in enumerate("ab")})
    jobs.write({f"stereo/{n}.wav": wave_file(5 + n, 2) for n in range(2)})

    for number, shape in enumerate(("", "--shape None,3 --dtype float32")):
        halved = jobs.build(f"arrays --input in/files {shape} --map fn.py:halve --name h{number}")
        rows = {row["filename"]: (row["image"].tolist(), row["label"]) for row in halved.examples("train")}
        assert rows == {
            f"{label}/{n}.npy".encode(): (((array + n) / 2).tolist(), n % 2) for n, label in enumerate("abab")
        }
    stacked = jobs.build("arrays --input in/stacked --stacked --map fn.py:lines --name s")
    assert {(*row["line"].tolist(), row["number"], row["label"]) for row in stacked.examples("train")} == {
        (*range(6 * n + 3 * line, 6 * n + 3 * line + 3), line, n % 2) for n in range(4) for line in range(2)
    }
    mono = jobs.build("audio --input in/mono --decode_audio --map fn.py:shorten --name m")
    assert [
        (row["audio"].tolist(), row["label"]) for row in sorted(mono.examples("train"), key=itemgetter("label"))
    ] == [([0.5, 0.5], 0), ([0.5, 0.5], 1)]
    stereo = jobs.build("audio --input in/stereo --decode_audio --map fn.py:shorten --name st")
    assert [row["audio"].tolist() for row in stereo.examples("train")] == [[[0.5, 0.5], [0.5, 0.5]]] * 2
    whole = jobs.build("audio --input in/mono --map fn.py:name --name w")
    assert {(row["begin"], row["rate"], row["label"]) for row in whole.examples("train")} == {
        (b"RIFF", 8000, label) for label in range(2)
    }


def test_the_functions_of_the_example(pets: Jobs) -> None:
    example = REPOSITORY / "examples" / "your_function.py"
    (pets.folder / "trips.csv").write_text("city,km,minutes\n Rome ,10,20\nOslo,,5\nBern,3,6\n")
    line = "csv --input trips.csv"
    for number, flag in enumerate((f"--map {example}:clean_row", f"--map_batches {example}:clean_batch")):
        rows = pets.build(f"{line} {flag} --name t{number}").table.rows
        assert sorted((row["city"], row["km"], row["speed"]) for row in rows) == [
            (b"bern", 3, 30.0),
            (b"rome", 10, 30.0),
        ]
    built = pets.build(f"images --map {example}:augment {SPLITS}")
    assert sum(built.splits.values()) == 40


def test_what_a_function_returns_is_read_without_the_options_about_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """The heading of an option in --help decides nothing."""
    about_files = {"delimiter": ";", "quote": "'", "encoding": "latin-1", "skip_lines": 1, "decimal": ","}
    kept = {"exclude": ("b.csv",), "types": (("id", "bytes"),), "label": ("class",), "block_size": 1 << 20}
    given = {"name": "n", "input": "x", "output": "/out"}
    config = registry.KINDS["csv"].make_config({**given, "map": dict, **about_files, **kept})
    plain = registry.KINDS["csv"].make_config(given)
    assert isinstance(config, RecordsConfig)
    mapped = MappedConfig.of(config)

    assert {name: getattr(mapped, name) for name in about_files} == {name: getattr(plain, name) for name in about_files}
    assert {name: getattr(mapped, name) for name in kept} == kept
    moved = tuple(replace(option, group="elsewhere") for option in options_of(RecordsConfig))
    monkeypatch.setattr("shardmill.addons.mapping.changes.options_of", lambda _: moved)
    assert MappedConfig.of(config) == mapped

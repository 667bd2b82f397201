"""Mistakes that users type in commands for tables, texts, records and arrays, and the one sentence that comes back;
nothing on disk changes."""

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from tests.support.avro_files import avro, record
from tests.support.command import image, npy, tree_bytes
from tests.support.framed_records import WHOLE
from tests.support.jobs import Files, Jobs, each_mistake
from tests.support.table_results import TOLERANT, check_consistent, parquet

GOOD = "id,label,age\n1,ant,3\n2,bee,4\n3,ant,\n"
SCHEMA = 'feature { name: "%s" type: INT shape {} presence { min_fraction: 1.0 } }'
JSON = '{"a": 1, "label": "x"}\n'
TAGGED = {"a.csv": "id,tags,n,none\n1,a;b,1;2,\n2,b,3,\n3,a,0,\n", "names": "a\nb\n", "few": "a\n"}
LISTS = {"a.jsonl": '{"tags": ["a"], "deep": [["a"]], "n": [1]}\n{"tags": ["b", "a"], "deep": [["b"]], "n": []}\n'}
PHOTOS = parquet(pa.table({"photo": [image(1)], "many": [[image(1)]], "n": [1]}))
ARRAY = npy(np.zeros((6, 5), np.float32))
# The files of folder `in`, and by a command line in the folder above it, the sentence; `…` is any text
MISTAKES: list[tuple[Files, dict[str, str]]] = [
    ({"a.csv": 'a,b\n1,2\n3,"x\n5,6\n'}, {"csv": "a.csv, line 3…never closed…--quote ''"}),
    ({"a.csv": "a,b\n"}, {"csv": "has no rows"}),
    ({"a.csv": GOOD, "b.csv": ""}, {"csv --label labl": "--label labl: no such column…mean label?…id, label, age"}),
    (
        {"a.csv": GOOD, "l": "bee\n", "n": "a\n"},
        {
            "csv --fill aeg=3": "--fill aeg: no such column…did you mean age?",
            "csv --drop id,label,age": "no column of --input…--drop",
            "csv --label label --labels_file in/l": "class 'ant' is in the input…append",
            "csv --encoding utf-16": "a.csv is not utf-16…give the encoding of the file with --encoding",
            "csv --delimiter ab": "--delimiter: 'ab': expected a character, several that are no letters or digits",
            "csv --delimiter ''": "--delimiter: '' is not one ASCII character",
            "csv --delimiter é": "--delimiter: 'é': expected a character, several that are no letters",
            r"csv --delimiter 'a|b\d'": "expected a character, several that are no letters",
            "csv --quote ab": "--quote: 'ab' is not one ASCII character",
            "csv --quote ,": "--quote ',' needs --delimiter",
            "csv --delimiter ; --quote ;": "--delimiter and --quote are both ';'",
            "csv --columns a,a": "--columns: 'a,a' names a column twice",
            "csv --columns a,": "--columns: '': expected a name, such as age",
            "csv --columns ''": "--columns: '': expected a name, such as age",
            "csv --columns a,b,c --header none": "--columns and --header",
            "csv --skip_lines -1": "--skip_lines -1: expected a number of lines",
            "csv --comment x": "--comment x: expected ASCII characters",
            "csv --thousands .": "it is the decimal mark, too; give --decimal ,",
            "csv --escape '\"'": "it is the quote or the delimiter, too",
            r"csv --escape '\' --quote ''": "there are no quotes to escape",
            "csv --delimiter , --decimal ,": "it is a mark in numbers, too",
            "csv --list_separator a=": "expected the text between two values",
            "csv --types agge=bytes": "--types agge: no such column",
            "csv --types age=bytes --types age=int64": "age=…is given twice",
            "csv --drop a,a": "--drop: 'a,a' names a column twice",
            "csv --only ''": "--only: '': expected a name, such as age",
            "csv --block_size 5": "--block_size 5: expected 1KiB to 1GiB",
            "csv --fill a": "--fill: 'a' is not column=value",
            "csv --fill =3": "--fill: '=3': expected a name, such as age",
            "csv --fill a=1 --fill a=2": "--fill: a=…is given twice",
            "csv --output in": "is inside --input",
            "csv --file_template {SPLIT}/{SHARD_X_OF_Y}": "--file_template {SPLIT}/{SHARD_X_OF_Y}: names a folder",
            f"csv --file_template {'x' * 240}{{SPLIT}}-{{SHARD_X_OF_Y}}": "name would have 260 bytes…251 at most",
        },
    ),
    (
        {"a.csv": GOOD, "../out/n/1.0.0/train-00000-of-00009.tfrecord": b""},
        {"csv --overwrite": "train-00000-of-00009.tfrecord…which shardmill did not write"},
    ),
    ({"a.csv": "id,label\n1, ant\n"}, {"csv --label label": "class name ' ant'…rename the class"}),
    (
        {"a.csv": GOOD, "s": SCHEMA % "id"},
        {
            "csv --schema in/s --fill id=x": "--fill id=x…'id' holds int64",
            "csv --schema in/s --types id=float32": "--types id=float32: --schema says that it holds int64",
        },
    ),
    ({"a.csv": b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(99)}, {"csv": "a.csv is not CSV…like an old Excel file"}),
    (
        {"a.csv": "Report 2024\na,b\n1,2\n"},
        {"csv --header first --label 'Report 2024'": "the header has 1 field, and the rows have 2…give --skip_lines 1"},
    ),
    (
        TAGGED,
        {
            "csv --label_separator ;": "--label_separator ';' splits a label; name its column with --label",
            "csv --label tags,id --label_separator ;": "which of tags, id? Give --label_separator 'id=;' if",
            "csv --label tags,id --label_separator n=;": "--label_separator n=;: --label names no n",
            "csv --label tags --label_separator ; --labels_file in/few": "class 'b' is in the input but not in",
            "csv --label tags,tags": "--label: 'tags,tags' names a column twice",
            "csv --label tags,id --labels_file in/few": "give --labels_file tags=tags.labels.txt,id=id.labels.txt",
            "csv --label tags,id --labels_file x=in/few,y=in/few": "--labels_file says nothing of the classes of",
        },
    ),
    (
        LISTS | {"names": "a\nb\n"},
        {
            "jsonl --label tags --label_separator ;": "--label tags holds lists already; leave the separator out",
            "jsonl --label deep": "--label deep holds lists of lists; expected one value in each row, or a list",
        },
    ),
    ({"a.jsonl": JSON}, {"csv": "no CSV files in --input", "avro": "Avro files"}),
    ({"a.jsonl": '{"": 1}\n'}, {"jsonl": "a column without a name"}),
    ({"a.jsonl": "{}\n{}\n"}, {"jsonl": "no column of --input"}),
    ({"a.txt": ""}, {"text": "has no rows"}),
    ({"a.csv": "a\n"}, {"text": "no text files in --input…1 .csv file, such as 'a.csv'"}),
    (
        {"a.txt": "a\n"},
        {
            "text --encoding utf-16": "a.txt is not utf-16…--encoding",
            "text --record word": "--record word: expected one of auto, line, paragraph, file",
            "text --separator x --record line": "--separator 'x' and --record line",
            "text --separator x --record file": "--separator divides a file",
            "text --label text": "--label…the folder of its file",
            "reshard": "no TFRecord files in --input…1 .txt file, such as 'a.txt'",
        },
    ),
    (
        {"a.txt": "a\nb\n<|endoftext|>\r\nc\n"},
        {"text": "a.txt, line 3 is <|endoftext|> alone…give --separator '<|endoftext|>' for…or --record line"},
    ),
    (
        {"x/a.txt": "a\n", "y/b.txt": "b\n", "l": "y\n"},
        {
            "text --stratify_by labels --splits a=1": "--stratify_by labels…did you mean label?",
            "text --labels_file in/l": "class 'x' is in the input but not in --labels_file",
        },
    ),
    ({"x/a.txt": "a\n", "l": "x\n"}, {"text --labels_file in/l": "--labels_file…not every file"}),
    ({"a.pq": parquet(pa.table([[1], [2]], names=["a", "a"]))}, {"parquet": "a.pq: column 'a' is there twice"}),
    (
        {"a.pq": PHOTOS},
        {
            "parquet --image n": "--image n: it holds int64; expected the bytes of one encoded image in each row",
            "parquet --image many": "--image many: it holds lists of bytes; expected the bytes of one encoded image",
            "parquet --image foto": "--image foto: no such column in --input in; did you mean photo?",
            "parquet --max_pixels 5": "--max_pixels 5 is about columns of images, and none is one; --image says which",
            "parquet --image photo --drop photo": "--image photo is also in --drop; drop the one or the other",
            "parquet --image photo --label photo": "--image photo is also in --label; drop the one or the other",
        },
    ),
    (
        {"a.avro": avro(record(a={"type": "map", "values": "int"}), [{"a": {"x": 1}}])},
        {"avro": "a.avro: column 'a' is a map…--drop a leaves the column out"},
    ),
    ({"a.tfrecord": b""}, {"reshard": "has no rows"}),
    (
        {"a.tfrecord": WHOLE},
        {
            f"reshard --splits a=0.5,b=0.5 {flag} idd": f"{flag} idd: no example has such a feature…id? they have id, t"
            for flag in ("--label", "--key")
        },
    ),
    (
        {"cat/a.npy": ARRAY, "cat/m.csv": "file_name,scan\na.npy,1\n"},
        {
            "arrays --shape 6,5": "--shape and --dtype go together; --dtype is missing",
            "arrays --dtype float32": "--shape and --dtype go together; --shape is missing",
            "arrays --shape 6x5 --dtype float32": "'6x5' is not a list of sizes from 1, such as 64,64",
            "arrays --shape 0,5 --dtype float32": "'0,5' is not a list of sizes",
            "arrays --shape 6,5 --dtype uint32": "--dtype uint32: expected one of float16, float32",
            "arrays --feature label": "--feature: label: that is another feature's name",
            "arrays --feature ''": "--feature: '': expected a name",
            "images": "no images in…1 .npy file…an array, which `shardmill arrays` reads",
        },
    ),
]


@each_mistake(MISTAKES)
def test_a_mistake_is_one_sentence_and_changes_nothing(jobs: Jobs, files: Files, line: str, sentence: str) -> None:
    jobs.refuse(line, sentence, files=files)


@pytest.mark.parametrize(
    ("command", "name", "content", "sentence"),
    [
        (
            *("jsonl", "a.json", '[\n  {\n    "a": 1\n  },\n  {\n    "a": 2\n  }\n]\n'),
            "8 of 8 records were rejected…jq -c '.[]' makes such lines of an array, jq -c . of objects",
        ),
        (
            *("reshard", "a.tfrecord", b"\x89PNG\r\n\x1a\n" + bytes(99)),
            "record 1 at byte 0 is no record: the file begins as PNG images do",
        ),
        ("arrays --shape 5,6 --dtype float32", "a.npy", ARRAY, "float32 of 6 x 5; expected float32 of 5 x 6, as"),
    ],
)
def test_records_none_of_which_can_be_read(
    jobs: Jobs, tmp_path: Path, command: str, name: str, content: bytes | str, sentence: str
) -> None:
    jobs.fail(command, sentence, files={name: content})
    assert list(tree_bytes(tmp_path / "out")) == ["n/1.0.0-rejects.jsonl"]


def test_spellings_of_a_missing_value(jobs: Jobs) -> None:
    made = jobs.build("csv --missing=-,? --no_shuffle", files={"a.csv": 'a,b\n1,NA\n-,x\n"?",y\n"",\n'})
    assert made.table.rows == [{"a": 1, "b": b"NA"}, {"b": b"x"}, {"b": b"y"}]  # and one row without a value


@pytest.mark.parametrize(
    ("how", "labels", "new"),
    [
        ("append", {0: 1, 1: 2, 2: 0, 5: 0}, {}),
        ("reject", {0: 1, 2: 0, 5: 0}, {"a.csv:3": "class 'bee' is not in --labels_file"}),
    ],
)
def test_classes_that_are_missing_or_new(jobs: Jobs, how: str, labels: dict[int, int], new: dict[str, str]) -> None:
    files = {"a.csv": "id,label\n0,ant\n1,bee\n2,cow\n3,\n4,NA\n5,cow\n", "l": "cow\nant\n"}
    made = jobs.build(f"csv --label label --labels_file in/l --on_new_label {how}", *TOLERANT, files=files)
    assert {row["id"]: row["label"] for row in made.table.rows} == labels
    assert made.reasons == new | dict.fromkeys(("a.csv:5", "a.csv:6"), "no label: column 'label' has no value")
    check_consistent(made.table)


def test_too_many_rejects(jobs: Jobs, tmp_path: Path) -> None:
    good = "".join(f"{number},x\n" for number in range(97))
    said = "3 of 100 records were rejected…--max_reject_fraction 0.02…the row has 1 field…out/n/1.0.0-rejects.jsonl"
    jobs.fail("csv --max_reject_fraction 0.02", said, files={"a.csv": f"a,b\n{good}1\n2\n3\n"})
    rejects = (tmp_path / "out/n/1.0.0-rejects.jsonl").read_text()
    assert [json.loads(line)["line"] for line in rejects.splitlines()] == [99, 100, 101]
    assert list(tree_bytes(tmp_path / "out")) == ["n/1.0.0-rejects.jsonl"]
    jobs.build("csv --max_reject_fraction 0.03")
    assert sorted(path.name for path in (tmp_path / "out/n").iterdir()) == ["1.0.0", "LATEST", "builds"]

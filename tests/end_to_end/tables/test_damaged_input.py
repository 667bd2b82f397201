"""Damaged records and files of every format, in one table: what is good comes out, and each reject says why.

The unit tests of the formats have every kind of damage; here are one or two of each, and that they are connected.
"""

import gzip
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest

from tests.support.archives import tar
from tests.support.command import image, npy
from tests.support.framed_records import SIZE, WHOLE, flipped, framed, records
from tests.support.jobs import Files, Jobs
from tests.support.table_results import TOLERANT, check_consistent, encode_rows, parquet, to_csv

GROUPS = parquet(
    pa.table({"id": range(1000), "name": [f"n{number}" for number in range(1000)]}),
    row_group_size=250,
    compression="none",
    use_dictionary=False,
)
SCAN = np.arange(30, dtype=np.float32).reshape(6, 5)
AVRO = encode_rows("avro", [{"id": number, "name": f"n{number}"} for number in range(50)])
PAIR = [("0.jpg", image(0)), ("0.cls", b"1")]
# By the number of its first record, those of a TFRecord file that are good
KEPT: dict[int, Sequence[int]] = {
    1000: range(20),
    2000: [*range(5), *range(6, 20)],
    3000: range(5),
    4000: range(19),
    6000: range(20),
}
# By command: its files, the numbers or texts that come out, and the beginning of the reason for each place
CASES: dict[str, tuple[Files, str, list[object], dict[str, str]]] = {
    "csv": (
        {
            "a.csv": b'\xef\xbb\xbfid,name\r\n1,a\n2\n\n3,"b,3\n4,caf\xe9\n5,"c"\n6,a\0b\n7,x,y',
            "b\n[1].csv": "name,id\né,8\n",
            "empty.csv": "",
            "no.csv.gz": "id,name\n9,f\n",
        },
        "id",
        [1, 5, 6, 8],
        {
            "a.csv:3": "the row has 1 field; expected 2",
            "a.csv:5": "a field opens with a quote that its line does not close",
            "a.csv:6": "column 'name': byte 0xe9 (é in cp1252) is not utf-8",
            "a.csv:9": "the row has 3 fields; expected 2",
            "empty.csv": "the file is empty: no header",
            "no.csv.gz": "the gzip data is damaged",
        },
    ),
    "jsonl": (
        {
            "a.jsonl": b'{"id": 1}\n[1, 2]\n{"id": 2\n\n{"id": NaN}\n{"id": 18446744073709551616}\n{"id": 3, "id": 4}\n'
            b'{"n": "caf\xe9"}\n' + b"[" * 100_000 + b'\n{"id": 5, "n": "\xc3\xa9"}',
            "empty.jsonl": "",
        },
        "id",
        [1, 4, 5],
        {
            "a.jsonl:2": "not a JSON object, but [1, 2]; expected one object on each line",
            "a.jsonl:3": "not JSON: unexpected end of data",
            "a.jsonl:5": "not JSON",
            "a.jsonl:6": "column 'id': 18446744073709551616 does not fit a 64-bit integer",
            "a.jsonl:8": "not JSON: byte 0xe9 (é in cp1252) is not utf-8",
            "a.jsonl:9": "not JSON: depth limit exceeded",
        },
    ),
    "text": (
        {"a.txt": b"\xef\xbb\xbfone\r\n \t\ncaf\xe9\ntwo\rstill two\nthree\0\n\xff"},
        "text",
        [b"one", b"three\0", b"two\rstill two"],
        {"a.txt:3": "not utf-8: byte 0xe9 (é in cp1252) at position 4 of the line", "a.txt:6": "not utf-8: byte 0xff"},
    ),
    "parquet": (
        {
            "broken.parquet": GROUPS[:3000] + b"\xff" * 40 + GROUPS[3040:],
            "cut.parquet": GROUPS[:-10],
            "no-rows.parquet": parquet(pa.table({"id": pa.array([], pa.int64()), "name": pa.array([], pa.string())})),
            "odd.parquet": parquet(pa.table({"id": pa.array([2000, 1 << 63], pa.uint64()), "name": ["a", "b"]})),
        },
        "id",
        [*range(250, 1000), 2000],
        {
            "broken.parquet:1": "row group 0 cannot be read from row 1 on, all of which is lost: ",
            "cut.parquet": "not a Parquet file: ",
            "odd.parquet:2": "column 'id': 9223372036854775808",
        },
    ),
    "avro": (
        {"a.avro": AVRO, "empty.avro": b"", "parquet.avro": b"PAR1", "head.avro": AVRO[:40]},
        "id",
        [*range(50)],
        {
            "empty.avro": "not an Avro file",
            "head.avro": "its header is cut short or damaged",
            "parquet.avro": "not an Avro file",
        },
    ),
    "reshard": (
        {
            "0.tfrecord": WHOLE,
            "1-payload.tfrecord": flipped(records(2000), 5 * SIZE + 20),
            "2-length.tfrecord": flipped(records(3000), 5 * SIZE + 2),
            "3-cut.tfrecord": records(4000)[:-5],
            "5-no-example.tfrecord": framed(b"hello") + records(6000),
            "8-text.tfrecord": b"id,name\n1,2\n" * 5,
        },
        "id",
        [first + number for first, good in KEPT.items() for number in good],
        {
            "1-payload.tfrecord:6": f"record 6 at byte {5 * SIZE} fails its checksum",
            "2-length.tfrecord:6": f"record 6 at byte {5 * SIZE} has a length that fails its checksum; the remaining",
            "3-cut.tfrecord:20": f"record 20 at byte {19 * SIZE} is cut short, {SIZE - 5} of {SIZE} bytes",
            "5-no-example.tfrecord:1": "record 1 is not a tf.train.Example",
            "8-text.tfrecord:1": "record 1 at byte 0 is no record: the file begins as texts do; the remaining 60 bytes",
        },
    ),
    "webdataset": (
        {
            "a.tar": tar([*PAIR, ("1.cls", b"1"), ("2.jpg", image(2)), ("3.jpg", image(3)[:-30]), ("3.cls", b"0")]),
            "b.tar": tar([]),
            "c.tar": b"no tar",
        },
        "label",
        [1],
        {
            "a.tar:2": "1: column 'image': no image",
            "a.tar:3": "2: no label: column 'label' has no value",
            "a.tar:4": "3: column 'image': truncated",
            "c.tar": "not a tar file: it begins with b'no tar'",
        },
    ),
    "arrays": (
        {
            "a.npy": npy(SCAN),
            "b.npy": npy(SCAN)[:-7],
            "c.npy": npy(SCAN.astype(np.int64)),
            "d.npy": npy(SCAN[:, :4]),
            "e.npy": b"",
            "f.npy": image(1),
        },
        "filename",
        [b"a.npy"],
        {
            "b.npy": "truncated: 7 of the 120 bytes of float32 of 6 x 5 are missing",
            "c.npy": "int64 of 6 x 5; expected float32 of 6 x 5, as in a.npy; save array",
            "d.npy": "float32 of 6 x 4; expected float32 of 6 x 5, as in a.npy",
            "e.npy": "the file is empty",
            "f.npy": "not .npy: it begins with '\\xff\\xd8",
        },
    ),
    "arrays --shape 6,5 --dtype float32": (
        {"!.npy": b"oops", "a.npy": npy(SCAN)},
        "filename",
        [b"a.npy"],
        {"!.npy": "not .npy: it begins with 'oops'"},
    ),
}


@pytest.mark.parametrize("line", CASES)
def test_good_records_come_out_and_others_are_rejects(jobs: Jobs, line: str) -> None:
    files, feature, expected, reasons = CASES[line]
    made = jobs.build(line, *TOLERANT, files=files)
    assert sorted(made.table.column(feature)) == expected
    assert sorted(made.reasons) == sorted(reasons)
    for place, reason in made.reasons.items():
        assert reasons[place] in reason
    check_consistent(made.table)


def test_records_before_the_end_of_a_truncated_file_survive(jobs: Jobs) -> None:
    """Files of other formats and compressions are in tests/transforms/formats/test_damage.py."""
    rows = [(number, f"{number * 2654435761:x}") for number in range(30_000)]
    data = gzip.compress(to_csv(("id", "name"), rows))[:100_000]
    made = jobs.build("csv --no_shuffle", *TOLERANT, files={"a.csv.gz": data})
    (reject,) = made.rejects
    assert "the gzip data ends too early, at byte 100,000 of the compressed file" in reject["reason"]
    good = reject["line"] - 2
    assert good > 1000
    assert made.table.rows == [{"id": number, "name": name.encode()} for number, name in rows[:good]]

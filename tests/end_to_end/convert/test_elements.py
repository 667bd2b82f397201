"""Nothing large travels between steps: Flink's buffers, Dataflow's shuffle and the memory of every runner ask for small
elements, however large the input is. Here an element may be a hundredth of what it may be in a job."""

import json
import random
from pathlib import Path

import pyarrow as pa
import pytest

from shardmill.transforms.columns import arrow
from shardmill.transforms.inputs import record_blocks
from shardmill.transforms.shards import cuts
from tests.support.archives import tar
from tests.support.command import Run, image, write_files
from tests.support.elements import Sizes, sizes_of_elements
from tests.support.framed_records import record as framed_record
from tests.support.masks import write_pairs
from tests.support.table_results import parquet
from tests.support.tokenizer_files import texts, tokenizer_json

MOST = 4 << 20  # of any element
SMALL = 20_000  # about, of those that grow with the input: references, tasks, keys
TRANSFORM = b"x: z_score\ny: {vocabulary: {top_k: 3}}\n"
SPLITS = ("--splits", "train=0.9,test=0.1")
TOKENS = ("--tokenizer", "tokenizer.json", "--block_size", 20_000)
GROWING = ("RecordBatch", "tuple", "BlockRef", "dict of tuple")


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Many files with long names, long columns of a manifest, many rows."""
    root = tmp_path_factory.mktemp("inputs")
    picture = image(1)
    names = [f"{('ant', 'bee')[n % 2]}/{'a' * 100}{n:04}.png" for n in range(300)]
    write_files(root / "images", dict.fromkeys(names, picture))
    lines = [
        json.dumps({"file_name": name, "label": "ant", "caption": random.Random(n).randbytes(200).hex()})
        for n, name in enumerate(names)
    ]
    (root / "images" / "meta.jsonl").write_text("\n".join(lines))
    write_files(root / "tables", {f"{'t' * 100}{n:03}.csv": f"x,y\n{n},a\n".encode() for n in range(200)})
    write_files(root / "rows", {"rows.csv": b"x,y\n" + b"".join(b"%d,%d\n" % (n, n % 7) for n in range(20_000))})
    rows = [{"x": n, "y": n % 7} for n in range(20_000)]
    write_files(
        root,
        {
            "transform.yaml": TRANSFORM,
            "parquet/rows.parquet": parquet(pa.Table.from_pylist(rows), row_group_size=1000),
            "tokenizer.json": tokenizer_json(),
            "texts/lines.txt": "\n".join(texts(20_000)).encode(),
            "tars/samples.tar": tar(
                member
                for n in range(600)
                for member in ((f"{'t' * 60}{n:04}.png", image(n)), (f"{'t' * 60}{n:04}.cls", b"%d" % (n % 3)))
            ),
            "records/rows.tfrecord": b"".join(framed_record(1000 + row["x"] % 9000) for row in rows),
        },
    )
    write_pairs(root / "pairs", 300)
    return root


def sizes(run: Run, monkeypatch: pytest.MonkeyPatch, *words: object) -> Sizes:
    for module in (arrow, record_blocks):
        monkeypatch.setattr(module, "ELEMENT_BYTES", SMALL)
    monkeypatch.setattr(cuts, "KEYS_AT_ONCE", 500)
    with sizes_of_elements() as found:
        result = run(*words, "--name", "n")
    assert result.status == 0, result.err
    return found


@pytest.mark.parametrize(
    "words",
    [
        ("images", "--manifest", "images/meta.jsonl", "--num_shards", 2),
        ("images", "--manifest", "images/meta.jsonl", "--num_shards", 2, "--no_shuffle", "--balance", "bytes"),
        ("csv", "--input", "tables", "--num_shards", 20),
        ("images", "--input", "images", "--ignore", "*.jsonl", "--near_duplicates", *SPLITS, "--stratify_by", "label"),
        ("csv", "--input", "rows", "--num_shards", 3, *SPLITS, "--stratify_by", "y", "--block_size", 20_000),
        ("csv", "--input", "rows", "--num_shards", 3, "--transform", "transform.yaml", "--block_size", 20_000),
        ("parquet", "--input", "parquet", "--num_shards", 3),
        ("reshard", "--input", "records", "--num_shards", 3, "--block_size", 20_000),
        ("webdataset", "--input", "tars", "--num_shards", 3, "--block_size", 20_000),
        ("csv", "--input", "rows", "--num_shards", 3, "--sequence_by", "y", "--order_by", "x", "--block_size", 20_000),
        ("text", "--input", "texts", *TOKENS, "--pack_to", 64, "--num_shards", 3),
        ("text", "--input", "texts", *TOKENS, "--balance", "tokens", "--num_shards", 3),
        ("images", "--input", "pairs/images", "--masks", "pairs/masks", "--num_shards", 2),
    ],
)
def test_elements_are_small(
    run: Run, inputs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[object, ...]
) -> None:
    monkeypatch.chdir(inputs)
    found = sizes(run, monkeypatch, *words, "--output", tmp_path)
    largest = {kind: max(some) for kind, some in found.items()}
    assert max(largest.values()) < MOST, largest
    growing = {kind: size for kind, size in largest.items() if kind in GROWING}
    assert max(growing.values()) < 1.5 * SMALL, growing

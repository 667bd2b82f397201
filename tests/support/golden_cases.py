"""Small inputs of every route, and a command for every option that shapes bytes: what the golden digests are of.

`python -m tests.support.golden_cases` writes `tests/support/golden.json` anew.
A change of it is a change of bytes: CHANGELOG.md says why.
"""

import contextlib
import hashlib
import io
import json
import os
import shlex
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import apache_beam as beam
import pyarrow.parquet as pq

import shardmill
from shardmill.beam import WriteDataset
from shardmill.pipelines import cli
from tests.support.golden_inputs import write_inputs

DIGESTS = Path(__file__).with_name("golden.json")
NAME_THE_INPUT = ("d/1.0.0/_SUCCESS", "d/1.0.0/dataset_info.json", "d/1.0.0/manifest.json")  # files, of what is there

# Each case is one command, run in the folder of the inputs.
_LINES = {
    "images": "images --input images",
    "images-splits": "images --input images --splits train=0.6,test=0.4 --num_shards 3",
    "images-seed": (
        "images --input images --splits train=0.6,test=0.4 --seed 7 --split_seed 9 --num_shards train=2,test=1"
    ),
    "images-stratified": "images --input images --splits train=0.6,test=0.4 --stratify_by label",
    "images-by-bytes": "images --input images --balance bytes --num_shards 3",
    "images-ordered": "images --input images --no_shuffle --num_shards 2",
    "images-shard-size": "images --input images --shard_size 1KiB",
    "images-gzip": "images --input images --compression gzip",
    "images-index": "images --input images --splits train=0.6,test=0.4 --num_shards 2 --index",
    "images-labels-file": "images --input images --labels_file labels.txt --on_new_label append",
    "images-new-rejected": (
        "images --input images --labels_file labels.txt --on_new_label reject --max_reject_fraction 0.5"
    ),
    "images-unverified": "images --input images --verify none",
    "images-decoded": "images --input images --verify decode --max_pixels 1000",
    "images-png": "images --input images --image_format png",
    "images-exact": "images --input images --resize 8x6",
    "images-cover": "images --input images --resize 8x6 --resize_mode cover --image_format png",
    "images-contain": "images --input images --resize 8x6 --resize_mode contain --image_format jpeg --jpeg_quality 80",
    "images-manifest": "images --manifest manifest.csv --group_by patient --splits train=0.6,test=0.4",
    "images-transform": (
        "images --manifest manifest.csv --splits train=0.6,test=0.4 --num_shards train=2,test=1 "
        "--transform columns.yaml"
    ),
    "images-manifests-of-splits": (
        "images --manifest train=manifests/a.parquet --manifest 'test=manifests/more/*.parquet'"
    ),
    "images-manifest-lists": "images --manifest manifest.jsonl --no_shuffle",
    "images-manifest-label-lists": "images --manifest tags.csv --label_separator ';' --splits train=0.6,test=0.4",
    "images-by-content": "images --input images --group_by content --splits train=0.6,test=0.4",
    "images-near-duplicates": "images --input images --near_duplicates --splits train=0.6,test=0.4",
    "images-file-template": "images --input images --file_template '{DATASET}.{SPLIT}.{SHARD_INDEX}'",
    "images-version": "images --input images --version 2.3.4",
    "images-renamed": "images --input images --rename image=image/encoded --rename label=image/class/label",
    "images-folders": "images --input images --folders any",
    "images-manifest-columns": (
        "images --manifest names.csv --file_column id --label_column breed --file_suffix .png --file_root images/cat/"
    ),
    "images-coordinates": "images --manifest manifest.jsonl --resize 8x6 --image_format png --coordinates v=none",
    "images-damaged": "images --input images --on_damaged_file reject",
    "images-map": "images --input images --map function.py:mirror --splits train=0.6,test=0.4 --num_shards 2",
    "images-coco": "images --coco train=objects/train.json --coco val=objects/val.json",
    "images-coco-one": "images --coco objects/train.json --splits train=0.6,test=0.4 --on_bad_box drop --num_shards 2",
    "images-coco-resized": (
        "images --coco objects/train.json --resize 9x9 --resize_mode cover --boxes_seen upright --image_format png"
    ),
    "images-voc": "images --voc objects/voc",
    "images-object-detection": (
        "images --coco objects/train.json --feature_names object_detection --image_format jpeg "
        "--splits train=0.6,test=0.4 --num_shards 2"
    ),
    "images-voc-object-detection": "images --voc objects/voc --feature_names object_detection",
    "images-yolo": "images --yolo objects/yolo/data.yaml",
    "images-masks": "images --input pairs/images --masks pairs/masks --splits train=0.6,test=0.4",
    "images-masks-resized": (
        "images --input pairs/images --masks pairs/masks --resize 9x8 --resize_mode contain --image_format png "
        "--masks_seen upright"
    ),
    "images-pairs": (
        "images --manifest pairs/pairs.csv --file_column file_name,right_file_name --mask_column mask --num_shards 2"
    ),
    "arrays": "arrays --input arrays --splits train=0.6,test=0.4",
    "arrays-typed": "arrays --input arrays --shape 2,3 --dtype float32 --feature scan --max_reject_fraction 0.9",
    "arrays-ragged": "arrays --input clouds --shape None,3 --dtype float32 --splits train=0.6,test=0.4",
    "audio": "audio --input audio --splits train=0.6,test=0.4",
    "audio-decoded": "audio --input audio --decode_audio --num_shards 2",
    "csv": "csv --input tables/rows.csv",
    "csv-renamed": "csv --input tables/rows.csv --rename id=number --key id",
    "csv-label": "csv --input tables/rows.csv --label city --stratify_by city --splits train=0.6,test=0.4",
    "csv-group": "csv --input tables/rows.csv --group_by user --key id --splits train=0.6,test=0.4 --num_shards 2",
    "csv-columns": "csv --input tables/rows.csv --drop note --fill age=-1 --missing 'NA,?'",
    "csv-file-template": (
        "csv --input tables/rows.csv --splits train=0.6,test=0.4 --num_shards 2 "
        "--file_template '{SPLIT}-{SHARD_X_OF_Y}.{FILEFORMAT}'"
    ),
    "csv-only": "csv --input tables/rows.csv --only id,city --no_shuffle",
    "csv-by-bytes": "csv --input tables/rows.csv --balance bytes --num_shards 3 --seed 3",
    "csv-gzip": "csv --input tables/rows.csv --compression gzip --shard_size 1KB",
    "csv-array-record": (
        "csv --input tables/rows.csv --splits train=0.6,test=0.4 --num_shards 2 --file_format array_record"
    ),
    "csv-blocks": "csv --input tables/rows.csv --block_size 1KiB",
    "csv-transform": "csv --input tables/rows.csv --splits train=0.6,test=0.4 --transform transform.yaml",
    "csv-materialize": (
        "csv --input tables/rows.csv --splits train=0.6,test=0.4 --num_shards train=2,test=1 "
        "--transform transform.yaml --materialize"
    ),
    "csv-map": "csv --input tables/rows.csv --map function.py:change --splits train=0.6,test=0.4 --seed 3",
    "csv-map-batches": "csv --input tables/rows.csv --map_batches function.py:keep --label city",
    "csv-latin": "csv --input tables/latin.txt --encoding latin-1 --delimiter ';' --quote ''\"'\"'' --columns a,b,c",
    "csv-schema": "csv --input tables/rows.csv --schema schema.pbtxt --max_reject_fraction 0.9",
    "csv-labels-file": "csv --input tables/rows.csv --label city --labels_file cities.txt --on_new_label append",
    "csv-label-lists": "csv --input tables/tags.csv --label tags --label_separator ';' --splits train=0.6,test=0.4",
    "csv-labels": "csv --input tables/tags.csv --label kind,score --drop tags --splits train=0.6,test=0.4",
    "jsonl-label-lists": "jsonl --input tables/tags.jsonl --label tags --num_shards 2",
    "csv-sequences": (
        "csv --input tables/rows.csv --sequence_by user --order_by id --label user --only user,id,city "
        "--num_shards train=2,test=1 --splits train=0.6,test=0.4"
    ),
    "jsonl": "jsonl --input tables/rows.jsonl --label kind --splits train=0.6,test=0.4",
    "jsonl-fill": "jsonl --input tables/rows.jsonl --fill size=0 --drop boxes --key id",
    "parquet": "parquet --input tables/rows.parquet --key id --splits train=0.6,test=0.4",
    "parquet-label": "parquet --input tables/rows.parquet --label name --drop when --fill value=0.5",
    "parquet-timestamps": "parquet --input tables/rows.parquet --timestamp when=s --splits train=0.6,test=0.4",
    "sql": (
        "sql --url sqlite:///tables/rows.db --query 'SELECT * FROM rows' --partition_by id --splits train=0.6,test=0.4"
    ),
    "sql-map": (
        "sql --url sqlite:///tables/rows.db --query 'SELECT * FROM rows' --partition_by id --map function.py:change "
        "--splits train=0.6,test=0.4 --seed 3"
    ),
    "parquet-images": "parquet --input tables/pictures.parquet --image thumb --splits train=0.6,test=0.4",
    "avro": "avro --input tables/rows.avro --label name --fill value=0.5 --drop more --splits train=0.6,test=0.4",
    "webdataset": "webdataset --input tars --splits train=0.6,test=0.4",
    "webdataset-labels": "webdataset --input tars --label label --labels_file groups.txt --drop note --num_shards 2",
    "text": "text --input texts/train --splits train=0.6,test=0.4",
    "text-numbers": "text --input texts --line_numbers --no_shuffle",
    "text-parallel": (
        "text --input 'de=parallel/*.de' --input 'en=parallel/*.en' --splits train=0.6,test=0.4 --num_shards 2 "
        "--line_numbers --block_size 1KiB"
    ),
    "text-tokens": "text --input texts --tokenizer tokenizer.json --keep_text --max_length 3",
    "text-tokens-of-bytes": "text --input sentences.txt --tokenizer bytes.json --pack_to 64",
    "text-tokens-balanced": "text --input texts --tokenizer tokenizer.json --balance tokens --num_shards 3",
    "text-packed": "text --input texts --tokenizer tokenizer.json --pack_to 2 --num_shards train=2,test=1",
    "csv-packed": (
        "csv --input tables/rows.csv --tokenizer tokenizer.json --tokenize note --pack_to 3 --end_of_text w7 --key id"
    ),
    "text-latin": "text --input tables/latin.txt --encoding latin-1",
    "text-files": "text --input texts --record file --num_shards 2",
    "reshard": "reshard --input records --num_shards 3 --splits train=0.6,test=0.4",
    "reshard-mixed": "reshard --input records --on_mixed reject --num_shards 2",
    "reshard-key": "reshard --input records --key id --group_by group --splits train=0.6,test=0.4 --seed 5",
    "reshard-label": "reshard --input records --label group --labels_file groups.txt --no_shuffle",
}


def write_rows(output: str) -> None:
    """Write the rows of `parquet` from memory."""
    rows = pq.read_table("tables/rows.parquet")
    shardmill.write(rows, output=output, name="d", key="id", splits="train=0.6,test=0.4", max_reject_fraction=0.9)


def write_from_pipeline(output: str) -> None:
    """Write dictionaries from a pipeline: rows of one key, in splits by exact ranks, and rows that are rejected."""
    rows = [
        {"id": number % 30, "x": number / 8, "word": f"w{number % 5}", "flag": number % 3 == 0} for number in range(90)
    ]
    options: Any = {"splits": "train=0.6,test=0.4", "stratify_by": "word", "num_shards": 2, "max_reject_fraction": 0.9}
    with beam.Pipeline() as pipeline:
        elements = pipeline | beam.Create([*rows, {"x": float("nan")}, {3: 4}])
        _ = elements | WriteDataset(output, "d", key="id", **options)


# Functions of the package, which are called with a folder for their output in the folder of the inputs
CALLS: dict[str, Callable[[str], None]] = {"write": write_rows, "pipeline": write_from_pipeline}
CASES: dict[str, tuple[str, ...]] = {case: tuple(shlex.split(line)) for case, line in _LINES.items()}


def digests(case: str, *more: str, output: str = "out") -> dict[str, str]:
    """The sha256 of every file that a case publishes in `output`, below the current folder, given `more` flags; by its
    name relative to that, and without that of the build's record, which holds times."""
    folder = f"{output}/{case}"
    if case in CALLS:
        CALLS[case](folder)
        return digests_in(Path(folder))
    status = cli.main([*command(case), "--output", folder, *more])
    assert status == 0, case
    return digests_in(Path(folder))


def command(case: str) -> tuple[str, ...]:
    """The command of a case, without its output."""
    # Some inputs are bad
    tolerance = () if "--max_reject_fraction" in CASES[case] else ("--max_reject_fraction", "0.9")
    return (*CASES[case], *tolerance, "--name", "d")


def command_from(folder: Path, case: str) -> tuple[str, ...]:
    """The command of a case whose only path is its input, which lies below `folder`."""
    words = command(case)
    place = words.index("--input") + 1
    return (*words[:place], str(folder / words[place]), *words[place + 1 :])


def of_any_input(found: Mapping[str, str]) -> dict[str, str]:
    """Digests of the files that do not name the input, which must be the same wherever it lies."""
    assert found.keys() >= set(NAME_THE_INPUT)
    return {name: digest for name, digest in found.items() if name not in NAME_THE_INPUT}


def digests_in(folder: Path) -> dict[str, str]:
    """The sha256 of every file below `folder`, but for those of records of builds."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.parent.name != "builds")
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def main() -> None:
    """Write the digests of all cases."""
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        write_inputs(Path())
        found = {}
        for case in (*CASES, *CALLS):
            with contextlib.redirect_stdout(io.StringIO()):
                found[case] = digests(case)
            print(case, len(found[case]), file=sys.stderr)
    DIGESTS.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")
    os._exit(0)


if __name__ == "__main__":
    main()

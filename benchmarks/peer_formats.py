"""Write the examples of a data set in the format of another library, for bench_readers.py; in its environment."""

import argparse
import json
import pickle
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

FEATURES = {"images": ["image", "label"], "rows": None}  # to read; None for all
SHARDS = 16


def examples(directory: str, kind: str) -> Iterator[dict[str, Any]]:
    """Yield examples of bytes, int and float by feature name."""
    import shardmill  # here, for `datasets` pickles what a generator refers to

    for example in shardmill.examples(directory, features=FEATURES[kind]):
        yield {name: value if isinstance(value, bytes) else value.item() for name, value in example.items()}


def _types(directory: str, kind: str) -> dict[str, str]:
    """Return the dtype of each feature by its name."""
    import shardmill

    wanted = FEATURES[kind]
    features = shardmill.info(directory).features
    return {name: feature.dtype for name, feature in features.items() if wanted is None or name in wanted}


def examples_of_a_shard(directory: str) -> int:
    """Return the number of examples of each shard but the last."""
    import shardmill

    return -(-shardmill.info(directory).splits["train"].examples // SHARDS)


def write_mds(directory: str, kind: str, output: Path) -> None:
    """Shards of mosaicml-streaming, of its default size."""
    from streaming import MDSWriter

    with MDSWriter(out=str(output), columns=_types(directory, kind)) as writer:
        for example in examples(directory, kind):
            writer.write(example)


def _litdata_examples(given: tuple[str, str]) -> Iterator[dict[str, Any]]:
    yield from examples(*given)


def write_litdata(directory: str, kind: str, output: Path) -> None:
    """Chunks of litdata, of the size in its guide."""
    import litdata

    litdata.optimize(
        _litdata_examples, [(directory, kind)], str(output), chunk_bytes="64MB", num_workers=1, start_method="fork"
    )


def write_webdataset(directory: str, kind: str, output: Path) -> None:
    """Tar files: an image and its class, or a JSON document for a row."""
    import webdataset

    output.mkdir()
    each = examples_of_a_shard(directory)
    with webdataset.ShardWriter(str(output / "%05d.tar"), maxcount=each, maxsize=1 << 40, verbose=0) as writer:
        for number, example in enumerate(examples(directory, kind)):
            if kind == "images":
                fields = {"jpg": example["image"], "cls": str(example["label"])}
            else:
                texts = {name: v.decode() if isinstance(v, bytes) else v for name, v in example.items()}
                fields = {"json": json.dumps(texts).encode()}
            writer.write({"__key__": f"{number:09d}", **fields})


def write_array_record(directory: str, kind: str, output: Path) -> None:
    """ArrayRecord files of pickled examples; `group_size:1` is what its documentation wants for random access."""
    from array_record.python.array_record_module import ArrayRecordWriter

    output.mkdir()
    writers = [ArrayRecordWriter(str(output / f"{n:05d}.arrayrecord"), "group_size:1") for n in range(SHARDS)]
    each = examples_of_a_shard(directory)
    for number, example in enumerate(examples(directory, kind)):
        writers[number // each].write(pickle.dumps(example))
    for writer in writers:
        writer.close()


def write_arrow(directory: str, kind: str, output: Path) -> None:
    """Arrow files of Hugging Face `datasets`."""
    import datasets

    of_hugging_face = {"bytes": "binary"}
    types = _types(directory, kind)
    features = {name: datasets.Value(of_hugging_face.get(dtype, dtype)) for name, dtype in types.items()}
    cache = output.with_suffix(".cache")
    made = datasets.Dataset.from_generator(
        examples, datasets.Features(features), str(cache), gen_kwargs={"directory": directory, "kind": kind}
    )
    made.save_to_disk(str(output), num_shards=SHARDS)
    shutil.rmtree(cache)


WRITERS = {
    "mds": write_mds,
    "litdata": write_litdata,
    "webdataset": write_webdataset,
    "array_record": write_array_record,
    "arrow": write_arrow,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("format", choices=WRITERS)
    parser.add_argument("kind", choices=FEATURES)
    parser.add_argument("directory", help="of a version that shardmill wrote")
    parser.add_argument("output", type=Path)
    args = parser.parse_args()
    temporary = args.output.with_suffix(".tmp")
    shutil.rmtree(temporary, ignore_errors=True)
    WRITERS[args.format](args.directory, args.kind, temporary)
    temporary.rename(args.output)


if __name__ == "__main__":
    main()

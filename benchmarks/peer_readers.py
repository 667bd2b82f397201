"""Read a data set with one library for bench_readers.py, in a process of its own; print what it measured as JSON.

All yield batches of 256 examples: undecoded JPEGs with their classes, or rows of ten columns.
"""

import argparse
import glob
import json
import os
import pickle
import random
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

from measure import processes_of, seconds_of_cores

BATCH = 256
SINGLE = 300_000  # records that are read one by one, at most
_BUFFER = 10_000  # of libraries that shuffle in a buffer
_FEATURES = {"images": ["image", "label"], "rows": None}

Batches = Iterable[Any]


def _batches(examples: Iterable[Any]) -> Iterator[list[Any]]:
    iterator = iter(examples)
    while len(batch := list(islice(iterator, BATCH))) == BATCH:
        yield batch


def _numbers(count: int) -> list[int]:
    return [random.randrange(count) for _ in range(SINGLE)]


def _collate(examples: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Stack numbers as tensors, several times as fast as PyTorch's default, and keep bytes in lists."""
    import numpy as np
    import torch

    columns = {name: [example[name] for example in examples] for name in examples[0]}
    return {
        name: values if isinstance(values[0], (bytes, str)) else torch.from_numpy(np.array(values))
        for name, values in columns.items()
    }


def shardmill_examples(folder: str, kind: str, access: str, workers: int) -> Batches:
    import shardmill

    return _batches(shardmill.examples(folder, features=_FEATURES[kind]))


def shardmill_source(folder: str, kind: str, access: str, workers: int) -> Batches:
    import shardmill

    source = shardmill.source(folder, features=_FEATURES[kind])
    if access == "single":
        return _batches(source[number] for number in _numbers(len(source)))
    order: Any = range(len(source)) if access == "in order" else shardmill.Order(len(source), seed=0)
    return (source.__getitems__(order[start : start + BATCH]) for start in range(0, len(source), BATCH))


def shardmill_torch(folder: str, kind: str, access: str, workers: int) -> Batches:
    from torch.utils.data import DataLoader

    import shardmill
    import shardmill.torch

    source = shardmill.source(folder, features=_FEATURES[kind])
    dataset = shardmill.torch.Dataset(source, batch_size=BATCH, remainder="drop", shuffle=access == "shuffled")
    return DataLoader(dataset, batch_size=None, num_workers=workers)


def shardmill_load(folder: str, kind: str, access: str, workers: int) -> Batches:
    import shardmill

    return shardmill.load(folder, batch_size=BATCH, shuffle=access == "shuffled")


def pread(folder: str, kind: str, access: str, workers: int) -> Batches:
    """Read the bytes of records, and check nothing."""
    import shardmill

    source = shardmill.source(folder)
    places = [source._locate(number) for number in _numbers(len(source))]
    files = {shard.file: os.open(source._dataset.path(shard), os.O_RDONLY) for shard in {one.shard for one in places}}
    ranges = [(files[place.shard.file], place.stop - place.start, place.start) for place in places]
    return _batches(os.pread(*one) for one in ranges)


def mds(folder: str, kind: str, access: str, workers: int) -> Batches:
    from streaming import StreamingDataset
    from torch.utils.data import DataLoader

    dataset = StreamingDataset(local=folder, shuffle=access == "shuffled", batch_size=BATCH)
    if access == "single":
        return _batches(dataset[number] for number in _numbers(len(dataset)))
    return DataLoader(dataset, batch_size=BATCH, num_workers=workers, collate_fn=_collate)


def litdata(folder: str, kind: str, access: str, workers: int) -> Batches:
    from litdata import StreamingDataLoader, StreamingDataset

    dataset = StreamingDataset(folder, shuffle=access == "shuffled")
    if access == "single":
        return _batches(dataset[number] for number in _numbers(len(dataset)))
    return StreamingDataLoader(dataset, batch_size=BATCH, num_workers=workers, collate_fn=_collate)


def _parse_tar_image(sample: dict[str, Any]) -> dict[str, Any]:
    return {"image": sample["jpg"], "label": int(sample["cls"])}


def _parse_tar_row(sample: dict[str, Any]) -> dict[str, Any]:
    return json.loads(sample["json"])


def webdataset(folder: str, kind: str, access: str, workers: int) -> Batches:
    from webdataset import WebDataset, WebLoader

    paths = sorted(glob.glob(f"{folder}/*.tar"))
    shuffled = access == "shuffled"
    dataset = WebDataset(paths, shardshuffle=len(paths) if shuffled else False, empty_check=False)
    dataset = dataset.shuffle(1000) if shuffled else dataset  # before values are parsed, as its guide has it
    dataset = dataset.map(_parse_tar_image if kind == "images" else _parse_tar_row)
    return WebLoader(dataset.batched(BATCH, collation_fn=_collate), batch_size=None, num_workers=workers)


def array_record(folder: str, kind: str, access: str, workers: int) -> Batches:
    import grain

    source = grain.sources.ArrayRecordDataSource(sorted(glob.glob(f"{folder}/*.arrayrecord")))
    if access == "single":
        return _batches(pickle.loads(source[number]) for number in _numbers(len(source)))

    dataset = grain.MapDataset.source(source)
    dataset = dataset.seed(0).shuffle() if access == "shuffled" else dataset
    batches = dataset.map(pickle.loads).batch(BATCH, batch_fn=_stack)
    # The default of 16 threads, which hide a store's latency, makes this eight times as slow
    batches = batches.to_iter_dataset(grain.ReadOptions(num_threads=1, prefetch_buffer_size=2))
    return batches.mp_prefetch(grain.MultiprocessingOptions(num_workers=workers)) if workers else batches


def _stack(examples: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Stack numbers as arrays, and keep bytes in lists: Grain would pad them to one length."""
    import numpy as np

    columns = {name: [example[name] for example in examples] for name in examples[0]}
    return {name: values if isinstance(values[0], bytes) else np.array(values) for name, values in columns.items()}


def arrow(folder: str, kind: str, access: str, workers: int) -> Batches:
    import datasets

    dataset = datasets.load_from_disk(folder)
    if kind == "rows":
        dataset = dataset.with_format("numpy")
    if access == "single":
        return _batches(dataset[number] for number in _numbers(len(dataset)))
    if access == "in order":
        return dataset.iter(BATCH)
    from torch.utils.data import BatchSampler, DataLoader, RandomSampler

    sampler = BatchSampler(RandomSampler(dataset), BATCH, drop_last=False)  # its guide to PyTorch: a call a batch
    return DataLoader(dataset, sampler=sampler, batch_size=None, num_workers=workers)


def tf_data(folder: str, kind: str, access: str, workers: int) -> Batches:
    import tensorflow as tf

    import shardmill

    auto = tf.data.AUTOTUNE
    spec = shardmill.feature_spec(folder, features=_FEATURES[kind])
    files = sorted(glob.glob(f"{folder}/*.tfrecord-*"))
    shuffled = access == "shuffled"
    records = tf.data.Dataset.from_tensor_slices(files)
    records = records.shuffle(len(files)) if shuffled else records
    records = records.interleave(
        tf.data.TFRecordDataset,
        cycle_length=16 if shuffled else 1,
        num_parallel_calls=auto if shuffled else None,
        deterministic=not shuffled,
    )
    records = records.shuffle(_BUFFER) if shuffled else records
    return records.batch(BATCH).map(lambda batch: tf.io.parse_example(batch, spec), auto).prefetch(auto)


READERS: dict[str, Callable[[str, str, str, int], Batches]] = {
    "shardmill.examples": shardmill_examples,
    "shardmill.source": shardmill_source,
    "shardmill.torch.Dataset": shardmill_torch,
    "shardmill.load": shardmill_load,
    "pread": pread,
    "mds": mds,
    "litdata": litdata,
    "webdataset": webdataset,
    "array_record": array_record,
    "arrow": arrow,
    "tf_data": tf_data,
}


def _count(batch: Any) -> int:
    return len(next(iter(batch.values()))) if isinstance(batch, dict) else len(batch)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("reader", choices=READERS)
    parser.add_argument("folder")
    parser.add_argument("kind", choices=_FEATURES)
    parser.add_argument("access", choices=("single", "shuffled", "in order"))
    parser.add_argument("--workers", type=int, default=0, help="processes of the library")
    parser.add_argument("--seconds", type=float, default=3, help="to read after the first batch, at most")
    args = parser.parse_args()
    iterator = iter(READERS[args.reader](args.folder, args.kind, args.access, args.workers))
    batch = next(iterator)
    first, cores = time.monotonic(), seconds_of_cores(processes_of(os.getpid()))
    if _count(batch) != BATCH:
        raise ValueError(f"{args.reader} gave a batch of {_count(batch)}")
    examples, now = 0, first
    while now < first + args.seconds and (batch := next(iterator, None)) is not None:
        examples += _count(batch)
        now = time.monotonic()
    cores = seconds_of_cores(processes_of(os.getpid())) - cores
    print(json.dumps({"first": first, "examples": examples, "seconds": now - first, "core_seconds": cores}), flush=True)


if __name__ == "__main__":
    main()

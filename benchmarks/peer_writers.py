"""Convert images or a CSV file with one library for bench_peers.py, in a process of its own; or count what it wrote.

Each library is used as its documentation advises, with all cores where it can use them.
"""

import argparse
import csv
import os
import random
import struct
import tarfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

SHARDS = 10
CORES = os.cpu_count() or 1
_CHUNK = "64MB"  # of litdata's guide
_TYPES = {"int": int, "float": float, "word": str}


def images(source: Path) -> list[Path]:
    """Return the images, which are in a folder for each class, in order."""
    return sorted(source.glob("*/*.jpg"))


def classes(source: Path) -> dict[str, int]:
    """Return the number of each class."""
    return {name: number for number, name in enumerate(sorted(os.listdir(source)))}


def column_types(source: Path) -> dict[str, type]:
    """Return the type of each column, by the name of it."""
    with open(source, newline="") as file:
        return {name: _TYPES[name.partition("_")[0]] for name in next(csv.reader(file))}


def byte_ranges(source: Path, parts: int) -> list[tuple[int, int]]:
    """Return where `parts` parts of a CSV file begin and end, each of whole lines, without the header."""
    size = source.stat().st_size
    with open(source, "rb") as file:
        bounds = [len(file.readline())]
        for part in range(1, parts):
            file.seek(max(bounds[-1], size * part // parts))
            file.readline()
            bounds.append(file.tell())
    return list(zip(bounds, [*bounds[1:], size], strict=True))


def rows_of(source: Path, start: int, stop: int) -> Iterator[dict[str, Any]]:
    """Yield the rows of a part of a CSV file."""
    types = column_types(source)
    with open(source, "rb") as file:
        file.seek(start)
        lines = file.read(stop - start).decode().splitlines()
    for row in csv.reader(lines):
        yield {name: make(value) for (name, make), value in zip(types.items(), row, strict=True)}


def write_tfds(kind: str, source: Path, output: Path) -> None:
    """A builder with a generator, as `tfds new` makes."""
    import numpy as np
    import tensorflow_datasets as tfds

    dtypes = {int: np.int64, float: np.float32, str: np.str_}

    class Peer(tfds.core.GeneratorBasedBuilder):
        VERSION = tfds.core.Version("1.0.0")

        def _info(self) -> Any:
            if kind == "images":
                names = list(classes(source))
                features = {"image": tfds.features.Image(), "label": tfds.features.ClassLabel(names=names)}
            else:
                features = {name: dtypes[of] for name, of in column_types(source).items()}
            return tfds.core.DatasetInfo(builder=self, features=tfds.features.FeaturesDict(features))

        def _split_generators(self, dl_manager: Any) -> Any:
            return {"train": self._generate_examples()}

        def _generate_examples(self) -> Iterator[tuple[Any, dict[str, Any]]]:
            if kind == "images":
                for path in images(source):
                    yield f"{path.parent.name}/{path.name}", {"image": path, "label": path.parent.name}
            else:
                types = column_types(source)
                with open(source, newline="") as file:
                    for number, row in enumerate(csv.DictReader(file)):
                        yield number, {name: make(row[name]) for name, make in types.items()}

    builder = Peer(data_dir=str(output))
    builder.download_and_prepare(download_config=tfds.download.DownloadConfig(try_download_gcs=False))


def _write_mds_part(kind: str, source: Path, output: Path, part: tuple[int, Any]) -> None:
    from streaming import MDSWriter

    number, chosen = part
    encodings = {int: "int64", float: "float32", str: "str"}
    columns = {"image": "bytes", "label": "int"}
    if kind == "rows":
        import numpy as np

        columns = {name: encodings[of] for name, of in column_types(source).items()}
        numbers = {name: {int: np.int64, float: np.float32, str: str}[of] for name, of in column_types(source).items()}
    with MDSWriter(out=str(output / f"{number:02d}"), columns=columns) as writer:
        if kind == "images":
            numbered = classes(source)
            for path in chosen:
                writer.write({"image": path.read_bytes(), "label": numbered[path.parent.name]})
        else:
            for row in rows_of(source, *chosen):
                writer.write({name: make(row[name]) for name, make in numbers.items()})


def write_mds(kind: str, source: Path, output: Path) -> None:
    """A folder of shards for each process, whose indexes are merged."""
    from multiprocessing import Pool

    from streaming.base.util import merge_index

    if kind == "images":
        paths = images(source)
        random.Random(0).shuffle(paths)
        parts: list[Any] = [paths[number::CORES] for number in range(CORES)]
    else:
        parts = byte_ranges(source, CORES)
    with Pool(CORES) as pool:
        pool.map(partial(_write_mds_part, kind, source, output), enumerate(parts), 1)
    merge_index(str(output), keep_local=True)


def write_webdataset(kind: str, source: Path, output: Path) -> None:
    """Tar files of images and their classes."""
    import webdataset

    paths, numbered = images(source), classes(source)
    random.Random(0).shuffle(paths)
    each = -(-len(paths) // SHARDS)
    with webdataset.ShardWriter(str(output / "%05d.tar"), maxcount=each, verbose=0) as writer:
        for number, path in enumerate(paths):
            writer.write(
                {"__key__": f"{number:09d}", "jpg": path.read_bytes(), "cls": numbered[path.parent.name]},
            )


def _litdata_image(numbered: dict[str, int], path: str) -> dict[str, Any]:
    with open(path, "rb") as file:
        return {"image": file.read(), "label": numbered[path.split("/")[-2]]}


def _litdata_rows(source: Path, part: tuple[int, int]) -> Iterator[dict[str, Any]]:
    yield from rows_of(source, *part)


def write_litdata(kind: str, source: Path, output: Path) -> None:
    """Chunks of the size that its guide has."""
    import litdata

    make: Any = partial(_litdata_rows, source)
    inputs: list[Any] = byte_ranges(source, SHARDS) if kind == "rows" else [str(path) for path in images(source)]
    if kind == "images":
        random.Random(0).shuffle(inputs)
        make = partial(_litdata_image, classes(source))
    litdata.optimize(make, inputs, str(output), chunk_bytes=_CHUNK, num_workers=CORES, verbose=False)


def write_datasets(kind: str, source: Path, output: Path) -> None:
    """Arrow files."""
    import datasets

    cache = str(output.with_suffix(".cache"))
    if kind == "images":
        data = datasets.load_dataset(
            "imagefolder", data_dir=str(source), split="train", cache_dir=cache, num_proc=CORES
        )
    else:
        data = datasets.load_dataset("csv", data_files=str(source), split="train", cache_dir=cache)
    data.save_to_disk(str(output), num_shards=SHARDS, num_proc=CORES)


def write_ray(kind: str, source: Path, output: Path) -> None:
    """TFRecords, by a cluster on this machine."""
    import ray

    ray.init(num_cpus=CORES, include_dashboard=False, logging_level="ERROR")
    if kind == "images":
        numbered = classes(source)
        data = ray.data.read_binary_files(str(source), include_paths=True).map(
            lambda row: {"image": row["bytes"], "label": numbered[row["path"].split("/")[-2]]}
        )
    else:
        data = ray.data.read_csv(str(source)).repartition(SHARDS)
    data.write_tfrecords(str(output))
    ray.shutdown()


def write_polars(kind: str, source: Path, output: Path) -> None:
    """Parquet files of shuffled rows."""
    import polars

    data = polars.read_csv(source).sample(fraction=1, shuffle=True, seed=0)
    each = -(-len(data) // SHARDS)
    for number, start in enumerate(range(0, len(data), each)):
        data.slice(start, each).write_parquet(output / f"{number:05d}.parquet")


def count_tfrecords(output: Path, pattern: str = "*.tfrecord*") -> int:
    """Return the number of records of all TFRecord files."""
    found = 0
    for path in output.rglob(pattern):
        with path.open("rb") as file:
            while header := file.read(12):
                file.seek(struct.unpack("<Q", header[:8])[0] + 4, os.SEEK_CUR)
                found += 1
            if file.tell() != path.stat().st_size:
                raise ValueError(f"{path} ends within a record")
    return found


def count_tars(output: Path) -> int:
    """Return the number of images in tar files."""
    return sum(member.name.endswith(".jpg") for path in output.glob("*.tar") for member in tarfile.open(path))


def count_mds(output: Path) -> int:
    """Return the number of samples; the first and the last are read."""
    from streaming import StreamingDataset

    dataset = StreamingDataset(local=str(output), shuffle=False, batch_size=1)
    return len([dataset[0], dataset[len(dataset) - 1]]) and len(dataset)


def count_litdata(output: Path) -> int:
    """Return the number of samples; the first and the last are read."""
    import litdata

    dataset = litdata.StreamingDataset(str(output))
    return len([dataset[0], dataset[len(dataset) - 1]]) and len(dataset)


def count_datasets(output: Path) -> int:
    """Return the number of rows; the first and the last are read."""
    import datasets

    dataset = datasets.load_from_disk(str(output))
    return len([dataset[0], dataset[-1]]) and len(dataset)


def count_parquet(output: Path) -> int:
    """Return the number of rows, all of which are read."""
    import polars

    return sum(len(polars.read_parquet(path)) for path in output.glob("*.parquet"))


WRITERS = {
    "tfds": write_tfds,
    "mds": write_mds,
    "webdataset": write_webdataset,
    "litdata": write_litdata,
    "datasets": write_datasets,
    "ray": write_ray,
    "polars": write_polars,
}
COUNTS: dict[str, Callable[[Path], int]] = {
    "tfrecords": count_tfrecords,
    "ray": partial(count_tfrecords, pattern="*.tar"),  # the ending that Ray gives them
    "tars": count_tars,
    "mds": count_mds,
    "litdata": count_litdata,
    "datasets": count_datasets,
    "parquet": count_parquet,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    write = commands.add_parser("write")
    write.add_argument("library", choices=WRITERS)
    write.add_argument("kind", choices=("images", "rows"))
    write.add_argument("source", type=Path)
    write.add_argument("output", type=Path)
    count = commands.add_parser("count")
    count.add_argument("format", choices=COUNTS)
    count.add_argument("output", type=Path)
    args = parser.parse_args()
    os.environ |= {"HF_HUB_OFFLINE": "1", "RAY_USAGE_STATS_ENABLED": "0"}
    if args.command == "write":
        WRITERS[args.library](args.kind, args.source, args.output)
    else:
        print(f"examples: {COUNTS[args.format](args.output)}")


if __name__ == "__main__":
    main()

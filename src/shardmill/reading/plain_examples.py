"""A split as dictionaries of NumPy values: for PyTorch, JAX and scripts, with neither TensorFlow nor Beam."""

import os
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from shardmill.errors import CorruptDataError, UserError
from shardmill.features.feature import Feature, Features, of_kind
from shardmill.filesystems.gfile import files_for
from shardmill.filesystems.local import Files
from shardmill.kinds.registry import kind_of
from shardmill.reading.dataset import Dataset, open_dataset
from shardmill.reading.example_decoder import ExampleDecoder
from shardmill.reading.missing_values import check_defaults
from shardmill.reading.selection import Part, find_features, find_split, part_of
from shardmill.reading.shard_blocks import read_shard
from shardmill.reading.shard_checks import check_sizes

Example = dict[str, Any]


def examples(
    directory: str | os.PathLike[str],
    split: str = "train",
    *,
    features: Sequence[str] | None = None,
    defaults: Mapping[str, Any] | None = None,
    decode_images: bool = False,
    decode_audio: bool = False,
    shuffle_buffer_size: int = 0,
    seed: int | None = None,
    num_workers: int = 1,
    worker_index: int = 0,
    version: str | None = None,
    files: Files | None = None,
) -> Iterator[Example]:
    """Read a split as dictionaries by feature name; the checksum of every record and every file is verified.

    A scalar is np.int64, np.float32 or bytes (text, as UTF-8); a list is an array of int64 or float32, or a list of
    bytes; what has more dimensions is an array of its shape: boxes are (n, 4), (0, 4) where there are none; an array
    has its own type; an image is its file's bytes, and so is audio unless its samples were stored. Arrays are
    read-only. A missing value is absent.

    In PyTorch, each worker process of the loader reads its own part:

    ```python
    class Flowers(torch.utils.data.IterableDataset):
        def __iter__(self):
            worker = torch.utils.data.get_worker_info()
            count, index = (1, 0) if worker is None else (worker.num_workers, worker.id)
            for example in shardmill.examples("datasets/flowers", decode_images=True, num_workers=count,
            worker_index=index):
                yield torch.from_numpy(example["image"]).permute(2, 0, 1), int(example["label"])

    loader = torch.utils.data.DataLoader(Flowers(), batch_size=1, num_workers=4)
    ```

    In JAX, a batch is a stack of arrays, and each host reads its own part:

    ```python
    own = dict(num_workers=jax.process_count(), worker_index=jax.process_index())
    for epoch in range(5):
        stream = shardmill.examples("datasets/wine", shuffle_buffer_size=1000, seed=epoch, **own)
        while batch := list(itertools.islice(stream, 32)):
            arrays = {name: jnp.asarray(np.stack([example[name] for example in batch])) for name in batch[0]}
            state = train_step(state, arrays)
    ```

    Args:
      directory: of the data set's version, or the one above it, whose LATEST names one. gs:// and the like are read
        through TensorFlow's file system, which is then imported.
      split: its name.
      version: one of those in the directory above, or a tag; None for the one that LATEST names.
      features: names of those to read; None for all.
      defaults: what stands for a missing value, by name.
      decode_images: whether an image becomes an array of uint8 (height, width, 3), as `shardmill images` itself makes
        RGB: 16 bits are scaled, transparency is laid on white. EXIF's orientation is not heeded: pixels lie as they are
        stored, as `height` and `width` say, and as TensorFlow decodes them; `--image_format` turns them upright. A mask
        becomes an array of its values, uint8 or uint16 (height, width, 1). Pillow is then imported.
      decode_audio: whether a WAV file becomes an array of float32, (frames,), or (frames, channels) unless all have one
        channel: floats as they are, integers scaled to [-1, 1). Samples that were stored as such are arrays in any
          case.
      shuffle_buffer_size: of so many examples a random one comes next, and the shards come in a random order. 0 for the
        order of shards and records.
      seed: of that, an epoch's number for instance; None for another order each time.
      num_workers: how many share the split; each example is on exactly one of them.
      worker_index: which one this is, from 0.
      files: what to read through; None for what `directory` says.

    Raises:
      UserError: no such data set, split, feature or worker, or a default that its feature cannot hold.
      CorruptDataError: the manifest cannot be read; a shard is missing or has another size; later, while reading, a
        shard or record is not what was written. The message names file and record.
    """
    dataset = open_dataset(directory, files or files_for(directory), version)
    manifest = dataset.manifest
    part = part_of(find_split(manifest, split), num_workers, worker_index)
    chosen = manifest.features if features is None else find_features(manifest, features)
    fills = check_defaults(chosen, defaults or {}, manifest.features)
    if shuffle_buffer_size < 0:
        raise UserError(f"shuffle_buffer_size is {shuffle_buffer_size}; expected 0 or more")
    if seed is not None and not shuffle_buffer_size:
        raise UserError(f"seed is {seed}, but nothing is shuffled; give shuffle_buffer_size")
    # The reader's options, which name kinds, say whether a kind that could open files does
    decoded = (("image", decode_images), ("mask", decode_images), ("audio", decode_audio))
    wanted = {kind for kind, decode in decoded if decode}
    openers = {
        feature.name: opener
        for feature in chosen
        if feature.kind in wanted and (opener := kind_of(feature).opened(feature, manifest.configuration))
    }
    if decode_audio and not of_kind(chosen, "audio"):
        raise UserError(f"decode_audio is for audio; those of {manifest.name} that are read are {_names(chosen)}")
    if decode_images and not of_kind(chosen, "image") and not of_kind(chosen, "mask"):
        raise UserError(f"decode_images is for images; those of {manifest.name} that are read are {_names(chosen)}")
    check_sizes(dataset, part.shards)
    if not shuffle_buffer_size:
        return _read(dataset, part, chosen, fills, openers)
    generator = random.Random(seed)
    shuffled = Part(tuple(generator.sample(part.shards, len(part.shards))), part.first, part.step)
    if part.step > 1:  # whose examples are counted in the order of the shards
        shuffled = part
    return _shuffle(_read(dataset, shuffled, chosen, fills, openers), shuffle_buffer_size, generator)


def _read(
    dataset: Dataset,
    part: Part,
    chosen: Features,
    fills: Mapping[str, Any],
    openers: Mapping[str, Callable[[bytes], Any]],
) -> Iterator[Example]:
    decode = ExampleDecoder(dataset.manifest.features, [feature.name for feature in chosen])
    number = 0
    for shard in part.shards:
        index = 0
        for records in read_shard(dataset, shard):
            skipped = (part.first - number) % part.step
            for record in records[skipped :: part.step] if part.step > 1 else records:
                try:
                    example = decode(record)
                    for name, opener in openers.items():
                        if name in example:
                            example[name] = opener(example[name])
                except ValueError as error:
                    raise CorruptDataError(f"{shard.file}: record {_index(records, record, index)}: {error}") from error
                for name, value in fills.items():
                    example.setdefault(name, value)
                yield example
            number += len(records)
            index += len(records)


def _index(records: Sequence[bytes], record: bytes, before: int) -> int:
    return before + next(position for position, item in enumerate(records) if item is record)


def _shuffle(stream: Iterator[Example], size: int, generator: random.Random) -> Iterator[Example]:
    """Each time one of the next `size` examples."""
    held: list[Example] = []
    for example in stream:
        if len(held) < size:
            held.append(example)
            continue
        place = generator.randrange(size)
        yield held[place]
        held[place] = example
    generator.shuffle(held)
    yield from held


def _names(features: Sequence[Feature]) -> str:
    return ", ".join(feature.name for feature in features)

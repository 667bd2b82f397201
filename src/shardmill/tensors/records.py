"""The serialized examples of a part of a split, as a tf.data.Dataset: in order or shuffled, over as many epochs as
wanted."""

from dataclasses import dataclass
from typing import Any

from shardmill.filesystems.local import LocalFiles
from shardmill.installation.lazy_tensorflow import tf
from shardmill.reading.dataset import Dataset
from shardmill.reading.selection import Part
from shardmill.tensors.shard_guard import guard

_SHARDS_AT_ONCE = 16  # read from in turns when shuffling
_BLOCK_RECORDS = 16  # taken from a shard in its turn: a turn costs as much as some records
_READ_BYTES = 8 << 20  # a request; the guides' choice for object stores, and of no harm on a disk
_BUFFER_EXAMPLES = 10_000  # to shuffle among, of small ones
_BUFFER_BYTES = 256 << 20  # and of large ones, about


@dataclass(frozen=True, slots=True)
class Epochs:
    """What happens between the epochs: `cache`, `shuffle` and `repeat` of shardmill.load."""

    shuffle: bool
    buffer_size: int | None
    seed: int | None
    repeat: bool | int
    cache: bool | str

    def apply(self, examples: Any, count: int, example_bytes: float) -> Any:
        """Cache, shuffle and repeat `count` examples of `example_bytes` each, as far as wanted.

        In this order: shuffling anew what is cached, and never mixing two epochs.
        """
        if self.cache:
            examples = examples.cache("" if self.cache is True else self.cache)
        if self.shuffle:
            size = self.buffer_size or min(_BUFFER_EXAMPLES, int(_BUFFER_BYTES / max(example_bytes, 1)))
            examples = examples.shuffle(max(min(size, count), 1), self.seed)
        if self.repeat:
            examples = examples.repeat(None if self.repeat is True else self.repeat)
        return examples

    def total(self, count: int) -> int:
        """The examples of all epochs, each of `count`, as tf.data counts them."""
        return tf.data.INFINITE_CARDINALITY if self.repeat is True else count * (self.repeat or 1)


def read_part(dataset: Dataset, part: Part, shuffle: bool, seed: int | None, guarded: bool) -> Any:
    """The serialized examples of one epoch, as scalar strings; another number than the manifest's is an error at the
    end.

    Args:
      shuffle: whether shards are read in another order each time, several in turns.
      seed: None for whatever comes first when shuffling.
      guarded: whether each shard is checked against the manifest when it is first opened.
    """
    codec = dataset.manifest.codec
    paths = tf.data.Dataset.from_tensor_slices(
        tf.constant([dataset.path(shard) for shard in part.shards], tf.string, (len(part.shards),))
    )
    exactly = tf.data.experimental.assert_cardinality
    if part.step > 1 or not shuffle or len(part.shards) < 2:
        whole = sum(shard.examples for shard in part.shards)
        paths = guard(dataset, part.shards, paths) if guarded else paths
        records = codec.tensors(paths, _READ_BYTES).apply(exactly(whole))
        return records.shard(part.step, part.first) if part.step > 1 else records
    paths = paths.shuffle(len(part.shards), seed)
    cycle = min(len(part.shards), _SHARDS_AT_ONCE)
    records = (guard(dataset, part.shards, paths) if guarded else paths).interleave(
        lambda path: codec.tensors(path, _READ_BYTES),
        cycle_length=cycle,
        block_length=_BLOCK_RECORDS,
        num_parallel_calls=tf.data.AUTOTUNE
        if isinstance(dataset.files, LocalFiles)
        else cycle,  # object stores make one wait
        deterministic=seed is not None,
    )
    return records.apply(exactly(part.examples))


def mean_bytes(part: Part) -> float:
    """Bytes of an example on disk, on average."""
    return sum(shard.size_bytes for shard in part.shards) / max(sum(shard.examples for shard in part.shards), 1)

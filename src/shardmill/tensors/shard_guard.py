"""Shards checked against their manifest when tf.data opens them: its own error for a damaged record names no file."""

from collections.abc import Sequence
from typing import Any

from shardmill.errors import CorruptDataError
from shardmill.installation.lazy_tensorflow import tf
from shardmill.metadata.manifest import ShardEntry
from shardmill.reading.dataset import Dataset
from shardmill.reading.shard_checks import check_content

_BLOCK_BYTES = 256 << 10  # of a local file: few enough for the cache and for memory that is used again


def guard(dataset: Dataset, shards: Sequence[ShardEntry], paths: Any) -> Any:
    """The dataset `paths`, paths of `shards`, that ends with an error at one whose bytes are not those that the
    manifest says.

    Each shard is read once more for that, the first time its path is asked for, when it is about to be read anyway.

    Raises:
      tf.errors.InvalidArgumentError: when it runs; the message names the file, and the record if a record is damaged.
    """
    unchecked = {dataset.path(shard): shard for shard in shards}

    def fault(path: bytes) -> bytes:
        shard = unchecked.get(path.decode())
        if shard is None:
            return b""
        try:
            check_content(dataset, shard, _BLOCK_BYTES)
        except (CorruptDataError, OSError) as error:
            return str(error).encode()
        unchecked.pop(path.decode(), None)
        return b""

    def sound(path: Any) -> Any:
        found = tf.numpy_function(fault, [path], tf.string, stateful=False)
        with tf.control_dependencies([tf.debugging.Assert(tf.equal(found, ""), [found])]):
            return tf.identity(path)

    return paths.map(sound)

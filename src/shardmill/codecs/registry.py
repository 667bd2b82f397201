"""Every format of shard files."""

from collections.abc import Mapping

from shardmill.codecs.base import Codec
from shardmill.codecs.gzipped import GzippedTFRecords
from shardmill.codecs.tfrecords import TFRecords

PLAIN = TFRecords()  # what is written unless something else is asked for
_EVERY: tuple[Codec, ...] = (PLAIN, GzippedTFRecords())

CODECS: Mapping[str, Codec] = {codec.name: codec for codec in _EVERY}  # by the name in manifest.json
BY_OPTION: Mapping[str, Codec] = {codec.option: codec for codec in _EVERY}

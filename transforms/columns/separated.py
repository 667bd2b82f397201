"""Texts that hold several values with a separator between, such as `red;green`."""

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from shardmill.features.feature import DType


@dataclass(frozen=True, slots=True)
class Separated:
    """How texts are lists.

    Attributes:
      separator: what stands between the values.
      dtype: what they are: `bytes` are names of classes.
    """

    separator: str
    dtype: DType


_LISTS = pa.large_list(pa.large_binary())


def parts_of(text: str, separator: str) -> list[str]:
    """The values in a text, without the spaces around them; an empty one is none."""
    return [part for part in map(str.strip, text.split(separator)) if part]


def split_texts(texts: pa.LargeBinaryArray, separator: str) -> pa.LargeListArray:
    """The values in each text as a list of them, in their order; an empty list where a text is missing."""
    encoded = texts.dictionary_encode()
    found = [
        [part.encode(errors="surrogateescape") for part in parts_of(text.decode(errors="surrogateescape"), separator)]
        for text in encoded.dictionary.to_pylist()
    ]
    lists = pa.array([*found, []], _LISTS)
    return lists.take(pc.fill_null(encoded.indices, pa.scalar(len(found), encoded.indices.type)))

"""Features of TFDS data sets, from their features.json."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from shardmill.data.feature_kind import ELEMENT_TYPES
from shardmill.data.features import DType, Feature, Features
from shardmill.errors import describe_damage
from shardmill.metadata import file_names

_FILES = ("jpeg", "png")  # encodings of images
ReadNames = Callable[[str], tuple[str, ...]]  # returns the class names in a file of the data set, () without it


def parse_features(text: str | bytes, read_names: ReadNames) -> Features:
    """Return the features that a features.json describes and a `tf.train.Example` has as they are.

    Features of other kinds, such as ragged lists, are left out. Raise ValueError if the text is no features.json.
    """
    try:
        return tuple(_walk(json.loads(text), (), (), False, read_names))
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"no features.json of TFDS: {describe_damage(error)}") from None


def _walk(
    entry: Mapping[str, Any], path: Sequence[str], lead: tuple[int | None, ...], is_object: bool, read_names: ReadNames
) -> Iterator[Feature]:
    """Yield the features of an entry; `lead` are the lengths of the lists that it is in."""
    name = "/".join(path)
    sequence = "/".join(path[:-1]) if is_object else ""
    if "featuresDict" in entry:
        for key, member in entry["featuresDict"]["features"].items():
            yield from _walk(member, (*path, key), lead, bool(lead), read_names)
    elif "sequence" in entry and not lead:
        length = int(entry["sequence"].get("length") or -1)
        yield from _walk(entry["sequence"]["feature"], path, (None if length < 0 else length,), False, read_names)
    elif "translation" in entry:
        yield from (
            Feature(f"{name}/{each}".lstrip("/"), "bytes", "text") for each in entry["translation"]["languages"]
        )
    elif "text" in entry:
        yield Feature(name, "bytes", "tensor" if lead else "text", lead, sequence=sequence)
    elif "classLabel" in entry:
        stem = "-".join(part.replace("/", ".") for part in path)
        names = read_names(file_names.labels_file(stem))
        yield Feature(name, "int64", "class_label" if names else "tensor", lead, class_names=names, sequence=sequence)
    elif "boundingBox" in entry:
        is_relative = entry["boundingBox"].get("bboxFormat", "REL_YXYX") in ("", "REL_YXYX")
        yield Feature(name, "float32", "bbox" if is_relative else "tensor", (*lead, 4), sequence=sequence)
    elif "image" in entry and not lead:
        encoding = entry["image"].get("encodingFormat", "")
        is_image = entry["image"].get("dtype", "uint8") in ("uint8", "uint16") and encoding in ("", *_FILES)
        yield Feature(name, "bytes", "image" if is_image else "tensor", encoding=encoding if is_image else "")
    elif "audio" in entry and not lead and not entry["audio"].get("lazyDecode"):
        rate = int(entry["audio"].get("sampleRate") or 0)
        yield from (replace(samples, sample_rate=rate) for samples in _tensor(entry["audio"], name, lead, sequence))
    elif "tensor" in entry:
        yield from _tensor(entry["tensor"], name, lead, sequence)


def _tensor(tensor: Mapping[str, Any], name: str, lead: tuple[int | None, ...], sequence: str) -> Iterator[Feature]:
    sizes = tuple(int(size) for size in tensor.get("shape", {}).get("dimensions", ()))
    shape = (*lead, *(None if size < 0 else size for size in sizes))
    element, encoding = tensor["dtype"], tensor.get("encoding", "none").lower()
    if None in shape[1:]:
        return
    if encoding == "bytes" and not lead and element in ELEMENT_TYPES:
        yield Feature(name, "bytes", "array", shape, element=element)
    elif encoding == "none":
        dtype: DType = "bytes" if element == "string" else "float32" if "float" in element else "int64"
        yield Feature(
            name, dtype, "bool" if element == "bool" and not shape[1:] else "tensor", shape, sequence=sequence
        )

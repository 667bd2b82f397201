"""Which features of records are images, by the first bytes of their values: what no type in a file says. Pure."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from shardmill.features.feature import Feature, Features
from shardmill.kinds.registry import kind_of
from shardmill.transforms.formats.image_heads import DEEP_BYTES, HEAD_BYTES, NO_IMAGE, PNG, image_format, is_deep_png

_OTHER = NO_IMAGE

Formats = Mapping[str, Counter[str]]  # of each feature's values


def formats_of(features: pa.RecordBatch) -> Formats:
    """The image formats of each feature with one string a row; where the first value is no image, nothing more is
    looked at."""
    found: dict[str, Counter[str]] = {}
    for name, column in zip(features.schema.names, features.columns, strict=True):
        values = _strings(column)
        if values is not None and len(values):
            first = image_format(values[0].as_py()[:HEAD_BYTES])
            heads = pc.binary_slice(values, 0, HEAD_BYTES).to_pylist() if first != _OTHER else []
            found[name] = Counter(map(image_format, heads)) if heads else Counter({_OTHER: 1})
    return found


def deep_pngs_of(features: pa.RecordBatch) -> Counter[str]:
    """How many values of each feature are PNGs of 16 bits a channel."""
    found: Counter[str] = Counter()
    for name, column in zip(features.schema.names, features.columns, strict=True):
        values = column.flatten() if pa.types.is_large_list(column.type) else column
        if pa.types.is_large_binary(values.type):
            pngs = values.filter(pc.starts_with(values, PNG))
            heads = pc.binary_slice(pngs, 0, DEEP_BYTES).to_pylist() if len(pngs) else []
            found[name] += sum(map(is_deep_png, heads))
    return +found


def merge_formats(one: Formats, other: Formats) -> Formats:
    """What both say; associative and commutative."""
    return {name: one.get(name, Counter()) + other.get(name, Counter()) for name in sorted(one.keys() | other.keys())}


def _strings(column: pa.Array) -> pa.Array | None:
    """The values of a column of strings, or of lists of one string each; else None."""
    column = column.drop_null()
    if pa.types.is_large_list(column.type):
        if not len(column) or not pc.all(pc.equal(pc.list_value_length(column), 1)).as_py():
            return None
        column = column.flatten()
    return column if pa.types.is_large_binary(column.type) else None


def with_encodings(features: Features, formats: Formats) -> Features:
    """The features, those that are known to be images with the format of all of them, if they have one."""
    return tuple(
        replace(feature, encoding=next(iter(formats[feature.name])))
        if feature.kind == "image" and len(formats.get(feature.name, ())) == 1 and _OTHER not in formats[feature.name]
        else feature
        for feature in features
    )


def mark_images(features: Features, formats: Formats, flag: str = "") -> tuple[Features, list[str]]:
    """The features, those that hold an image in every example as images; and what must be said of them.

    Args:
      features: as they are known.
      formats: of their values.
      flag: that has images checked; "" where none does.
    """
    marked, notices = [], []
    for feature in features:
        found = formats.get(feature.name, Counter())
        if found and _OTHER not in found and _may_be_image(feature):
            feature = replace(feature, kind="image", encoding=next(iter(found)) if len(found) == 1 else "")
            unchecked = f"; they were not checked, which {flag} {feature.name} does" if flag else ""
            how = f"by the first bytes of all its values: {_shown(found)}{unchecked}"
            notices.append(f"feature {feature.name!r} is an image, {how}")
        elif flag and feature.dtype == "bytes" and sum(found.values()) > found[_OTHER] and feature.kind != "image":
            notices.append(
                f"feature {feature.name!r} is stored as plain bytes, though some of its values are images:"
                f" {_shown(found)}; {flag} {feature.name} stores and checks it as images, and rejects all else"
            )
        marked.append(feature)
    return tuple(marked), notices


def _may_be_image(feature: Feature) -> bool:
    return feature.required and feature.dtype == "bytes" and feature.shape == () and kind_of(feature).bytes_are_strings


def _shown(found: Counter[str]) -> str:
    counts = ", ".join(f"{number:,} {name or 'of no image'}" for name, number in sorted(found.items()))
    animations = [name for name in ("gif", "webp") if found[name]]
    hint = (
        f"; TFDS cannot decode {' and '.join(animations)}, tf.io.decode_image(…, expand_animations=False) can"
        if animations
        else ""
    )
    return counts + hint

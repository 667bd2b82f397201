"""One example in words, as `shardmill inspect` shows it."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from shardmill.features.feature import Feature
from shardmill.kinds.registry import kind_of
from shardmill.pipelines.reports.figures import human_size
from shardmill.printable import printable
from shardmill.records.example import FeatureValue
from shardmill.transforms.files.images.errors import ImageError
from shardmill.transforms.files.images.header import read_header

_VALUES_SHOWN = 8  # of a list
_TEXT_SHOWN = 60  # letters


def example_lines(example: Mapping[str, FeatureValue], features: Sequence[Feature]) -> Iterator[str]:
    """A line for each feature, those too that the manifest does not know."""
    known = {feature.name: feature for feature in features}
    width = max((len(printable(name)) for name in [*known, *example]), default=0)
    # What the manifest does not know is shown too: that is why one looks
    for name in dict.fromkeys([*known, *example]):
        yield f"  {printable(name):{width}}  {show(example.get(name), known.get(name))}"


def show(values: FeatureValue | None, feature: Feature | None) -> str:
    """A feature's values as a person wants to see them; `feature` is None where the manifest does not know it."""
    if values is None:
        return "(missing)"
    shown = ", ".join(_value(value, feature) for value in values[:_VALUES_SHOWN])
    if feature is not None and (amount := kind_of(feature).amount(feature, len(values))):
        shown = f"{amount}: {shown}"
    if feature is not None and not feature.list_shape and len(values) == 1:
        return shown
    return f"[{shown}{', …' if len(values) > _VALUES_SHOWN else ''}] ({len(values)})"


def _value(value: Any, feature: Feature | None) -> str:
    words = None if feature is None else _image(feature, value) or kind_of(feature).shown(feature, value)
    if words is not None:
        return f"{words}, {human_size(len(value))}" if isinstance(value, bytes) else clipped(words)
    return _bytes(value) if isinstance(value, bytes) else str(value)


def _image(feature: Feature, value: Any) -> str | None:
    """Format and size of an image, which its kind cannot say: what reads headers is the writers'."""
    if feature.kind not in ("image", "mask") or not isinstance(value, bytes):
        return None
    try:
        header = read_header(value)
    except ImageError as error:
        return str(error)
    return f"{header.format} {header.width} x {header.height}"


def _bytes(data: bytes) -> str:
    try:
        return json.dumps(clipped(data.decode()), ensure_ascii=False)
    except UnicodeDecodeError:
        return f"{human_size(len(data))}, not text"


def clipped(text: str) -> str:
    """As much of a text as a line has room for."""
    return text if len(text) <= _TEXT_SHOWN else f"{text[: _TEXT_SHOWN - 1]}…"

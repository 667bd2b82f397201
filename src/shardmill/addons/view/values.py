"""Values of records that nobody described: decode any record, and say what its values look like."""

import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from shardmill.data.example import (
    EXAMPLE,
    EXAMPLE_LIST,
    SEQUENCE_EXAMPLE,
    FeatureValue,
    decode_example,
    fields_of,
    message_kind,
)
from shardmill.data.features import DType, Feature, Kind
from shardmill.data.media import open_image
from shardmill.reading.dataset import RAW_RECORD
from shardmill.text import to_printable

STEPS = " (each step)"  # behind the name of a feature list of a SequenceExample
_TENSORS: Mapping[int, tuple[str, int]] = {  # by number in TensorFlow's types.proto, with bytes of a value
    **{1: ("float32", 4), 2: ("float64", 8), 3: ("int32", 4), 4: ("uint8", 1), 5: ("int16", 2), 6: ("int8", 1)},
    **{7: ("string", 0), 8: ("complex64", 8), 9: ("int64", 8), 10: ("bool", 1), 14: ("bfloat16", 2)},
    **{17: ("uint16", 2), 18: ("complex128", 16), 19: ("float16", 2), 22: ("uint32", 4), 23: ("uint64", 8)},
}
_MAGIC = (
    *((b"\xff\xd8\xff", "JPEG"), (b"\x89PNG\r\n\x1a\n", "PNG"), (b"GIF8", "GIF"), (b"BM", "BMP")),
    *((b"II*\0", "TIFF"), (b"MM\0*", "TIFF"), (b"fLaC", "FLAC audio"), (b"OggS", "Ogg audio"), (b"ID3", "MP3 audio")),
    *((b"\x93NUMPY", "NumPy array"), (b"\x1f\x8b", "gzip data"), (b"\x80\x04\x95", "Python pickle")),
    *((b"PK\x03\x04", "zip archive"), (b"%PDF", "PDF"), (b"\x1aE\xdf\xa3", "WebM video"), (b"\x78\x9c", "zlib data")),
)
IMAGES = ("JPEG", "PNG", "GIF", "BMP", "WebP", "TIFF")
TEXT, WAV, JSON, TENSOR, INNER = "UTF-8 text", "WAV audio", "JSON", "serialized tensor", "nested Example"
_LABEL = re.compile(r"(?:^|[/_.])(?:labels?|class(?:es)?|class_id|category|category_id|target|fine_label)\Z", re.I)
_TOKENS = re.compile(r"(?:^|[/_.])(?:input_ids|ids|tokens?|token_ids|inputs|targets|.*_ids|.*_tokens)\Z", re.I)
_EDGE = re.compile(r"(?:^|[/_.])[xy](?:min|max)\Z", re.I)
_LOOKED_AT = 200  # values of a feature
_MOST_DISTINCT = 1_000  # values of a feature that are counted
_FEW, _SHORT = 16, 60  # values of a list, and bytes of a value, that are counted one by one
_SMALL_EXAMPLE = 8 << 20  # bytes of a value in which a nested message is looked for


def decode_any(record: bytes) -> tuple[str, dict[str, Any]]:
    """Return the kind of a record, and its values by name: those of a feature list are a list for each step."""
    kind = message_kind(record)
    with suppress(ValueError):
        if kind == EXAMPLE:
            return kind, dict(decode_example(record))
        if kind == SEQUENCE_EXAMPLE:
            return kind, _decode_sequence(record)
        if kind == EXAMPLE_LIST:
            parts = {
                number: [bytes(part) for at, _, part in fields_of(memoryview(record)) if at == number]
                for number in (1, 2)
            }
            context = dict(decode_example(parts[2][0])) if parts[2] else {}
            inner = [decode_example(part) for part in parts[1]]
            names = dict.fromkeys(name for example in inner for name in example)
            return kind, {
                **context,
                **{f"{name}{STEPS}": [example.get(name, []) for example in inner] for name in names},
            }
    return "", {RAW_RECORD: [record]}


def _decode_sequence(record: bytes) -> dict[str, Any]:
    """Return the context and the feature lists of a SequenceExample."""
    view = memoryview(record)
    context = b"".join(b"\x0a" + _length(part) + bytes(part) for number, _, part in fields_of(view) if number == 1)
    values: dict[str, Any] = dict(decode_example(context))
    for number, _, lists in fields_of(view):
        for _, _, entry in fields_of(lists) if number == 2 else ():
            parts = {at: part for at, _, part in fields_of(entry)}
            steps = [step for at, _, step in fields_of(parts.get(2, memoryview(b""))) if at == 1]
            name = str(parts.get(1, memoryview(b"")), "utf-8")
            values[f"{name}{STEPS}"] = [_decode_feature(bytes(step)) for step in steps]
    return values


def _length(part: memoryview | bytes) -> bytes:
    from shardmill.data.example import encode_varint

    return encode_varint(len(part))


def _decode_feature(feature: bytes) -> FeatureValue:
    entry = b"\x0a\x01f\x12" + _length(feature) + feature
    inner = b"\x0a" + _length(entry) + entry
    return decode_example(b"\x0a" + _length(inner) + inner).get("f", [])


def parse_tensor(data: bytes) -> tuple[str, tuple[int, ...]] | None:
    """Return dtype and shape of a tensor that `tf.io.serialize_tensor` wrote; None for other bytes."""
    if not data.startswith(b"\x08"):
        return None
    sizes: list[int] = []
    found: dict[int, memoryview] = {}
    try:
        for number, _, part in fields_of(memoryview(data)):
            found.setdefault(number, part)
        kind = found[1][0]
        for number, _, dimension in fields_of(found[2]):
            size = next((_varint(part) for at, _, part in fields_of(dimension) if at == 1), 0) if number == 2 else 0
            sizes += [size] if number == 2 else []
    except (ValueError, KeyError, IndexError):
        return None
    if kind not in _TENSORS or not found.keys() <= set(range(1, 18)):
        return None
    name, width = _TENSORS[kind]
    if 4 in found and len(found[4]) != width * math.prod(sizes):
        return None
    return name, tuple(sizes)


def _varint(part: memoryview) -> int:
    return sum((byte & 0x7F) << 7 * place for place, byte in enumerate(part))


def look(value: bytes) -> str:
    """Return what one bytes value looks like, such as JPEG or UTF-8 text."""
    if not value:
        return "empty"
    if value[:4] == b"RIFF":
        return {b"WEBP": "WebP", b"WAVE": WAV}.get(value[8:12], "RIFF file")
    if value[4:8] == b"ftyp":
        return "MP4 video"
    known = next((name for start, name in _MAGIC if value.startswith(start)), "")
    if known and (known not in ("BMP", "zlib data", "MP3 audio") or len(value) > _SHORT):
        return known
    if (tensor := parse_tensor(value)) is not None:
        return f"{TENSOR} {tensor[0]}{list(tensor[1])}"
    if len(value) <= _SMALL_EXAMPLE and value[0] == 0x0A and message_kind(value) == EXAMPLE:
        with suppress(ValueError):
            if decode_example(value):
                return INNER
    try:
        text = value.decode()
    except UnicodeDecodeError:
        return "bytes"
    if any(ord(letter) < 32 and letter not in "\t\r\n\f\x1b" for letter in text[:_LOOKED_AT]):
        return "bytes"
    if text.lstrip()[:1] in ("{", "["):
        with suppress(ValueError, RecursionError):
            json.loads(text)
            return JSON
    return TEXT


def describe_fields(record: bytes) -> str:
    """Return the fields of a protobuf message of an unknown type, such as `1: message, 3: 2 numbers`; "" for others."""
    counts: Counter[tuple[int, str]] = Counter()
    try:
        for number, wire, part in fields_of(memoryview(record)):
            words = look(bytes(part[:_LOOKED_AT])) if wire == 2 else "number"
            counts[number, "message or bytes" if words == "bytes" else words] += 1
            if not 0 < number < 1 << 20:
                return ""
    except ValueError:
        return ""
    fields = [
        f"{number}: {f'{count:,} x ' if count > 1 else ''}{words}" for (number, words), count in sorted(counts.items())
    ]
    return ", ".join(fields[:_FEW]) + (", …" if len(fields) > _FEW else "")


@dataclass
class Column:
    """A feature, and what is known of it after some records."""

    name: str
    dtypes: Counter[str] = field(default_factory=Counter)
    present: int = 0  # records that have it
    fewest: int = 1 << 62  # values of a record
    most: int = 0
    steps: tuple[int, int] | None = None  # fewest and most steps of a feature list
    looks: Counter[str] = field(default_factory=Counter)
    low: float = math.inf
    high: float = -math.inf
    odd: int = 0  # NaN and infinities
    sizes: tuple[int, int] = (1 << 62, 0)  # of bytes values
    pixels: tuple[tuple[int, int], tuple[int, int]] | None = None  # smallest and largest image
    values: Counter[Any] | None = field(default_factory=Counter)  # None if there are too many
    example: Any = None
    feature: Feature | None = None  # as metadata describes it

    def add(self, values: Any) -> None:
        """Add the values of one record."""
        self.present += 1
        if self.example is None and len(values):
            self.example = values
        if self.name.endswith(STEPS):
            few, many = self.steps or (len(values), len(values))
            self.steps = min(few, len(values)), max(many, len(values))
            for step in values:
                self._add_list(step)
        else:
            self._add_list(values)

    def _add_list(self, values: FeatureValue) -> None:
        self.dtypes[values.dtype.name if isinstance(values, np.ndarray) else "bytes"] += 1
        self.fewest, self.most = min(self.fewest, len(values)), max(self.most, len(values))
        if isinstance(values, np.ndarray):
            finite = values[np.isfinite(values)] if values.dtype.kind == "f" else values
            self.odd += len(values) - len(finite)
            if len(finite):
                self.low, self.high = min(self.low, finite.min().item()), max(self.high, finite.max().item())
        else:
            for value in values:
                self.sizes = min(self.sizes[0], len(value)), max(self.sizes[1], len(value))
                if self.looks.total() < _LOOKED_AT:
                    self._look(value)
        if self.values is not None:
            shown = list(values[:_FEW])
            if len(values) > _FEW or any(isinstance(value, bytes) and len(value) > _SHORT for value in shown):
                self.values = None
            else:
                self.values.update(value if isinstance(value, bytes) else value.item() for value in shown)
                self.values = self.values if len(self.values) <= _MOST_DISTINCT else None

    def _look(self, value: bytes) -> None:
        words = look(value)
        if words in IMAGES:
            try:
                size = open_image(value).size
                small, large = self.pixels or (size, size)
                self.pixels = min(small, size, key=math.prod), max(large, size, key=math.prod)
            except Exception:  # whatever Pillow raises of a damaged image
                words = f"damaged {words}"
        self.looks[words] += 1

    @property
    def dtype(self) -> DType:
        """Return the most frequent type."""
        return self.dtypes.most_common(1)[0][0]  # type: ignore[return-value]

    @property
    def main_look(self) -> str:
        """Return what all values look like, except empty ones; "" if they differ."""
        looks = [name for name in self.looks if name != "empty"]
        return looks[0] if len(looks) == 1 else ""

    def describe_count(self) -> str:
        """Return how many values a record has: `1`, `4`, `0 to 7`; of a feature list, also its steps."""
        count = f"{self.fewest:,}" if self.fewest == self.most else f"{self.fewest:,} to {self.most:,}"
        if self.steps is None:
            return count
        few, many = self.steps
        return f"{count if self.most else 0} in each of {few:,}{f' to {many:,}' if many != few else ''} steps"

    def describe_look(self) -> str:
        """Return what the values look like, as text."""
        if self.feature is not None and (words := _KINDS.get(self.feature.kind)):
            return words + (f" of {len(self.feature.class_names):,}" if self.feature.class_names else "")
        if self.dtype == "bytes":
            looks = [name for name, _ in self.looks.most_common() if name != "empty"]
            words = " or ".join(looks[:3]) + (" …" if len(looks) > 3 else "") or "empty"
            if self.pixels is not None:
                small, large = (f"{width} x {height}" for width, height in self.pixels)
                words += f" {small}" if small == large else f" {small} to {large}"
            return words
        is_int, is_known = self.dtype == "int64", self.low <= self.high
        if self.name.rpartition("/")[2].startswith("ragged_row_lengths"):
            return "lengths of lists in lists"
        if is_int and is_known and _LABEL.search(self.name) and self.low >= 0:
            return "class id"
        if is_int and is_known and (self.low, self.high) in ((0, 1), (0, 0), (1, 1)):
            return "0 or 1"
        if is_int and _TOKENS.search(self.name) and self.low >= 0 and self.most > 1:
            return "token ids"
        if not is_int and _EDGE.search(self.name):
            return "edges of boxes"
        if not is_int and "box" in self.name.lower() and self.most % 4 == self.fewest % 4 == 0 and self.most:
            return "boxes" if self.most > 4 or self.fewest == 0 else "box"
        return "samples of audio" if "audio" in self.name.lower() and self.most > 1_000 else ""

    def describe_range(self) -> str:
        """Return the range of numbers, or the most frequent values."""
        if self.dtype != "bytes" and self.low <= self.high:
            odd = f", {self.odd:,} NaN or infinite" if self.odd else ""
            if self.low == self.high:
                return f"{_number(self.low)}{odd}"
            top = f"; {self._top()}" if self._top() else ""
            return f"{_number(self.low)} to {_number(self.high)}{odd}{top}"
        if self.dtype != "bytes":
            return f"{self.odd:,} NaN or infinite" if self.odd else ""
        if self.main_look in (TEXT, JSON) and (top := self._top()):
            return top
        few, many = self.sizes
        return f"{few:,} bytes" if few == many else f"{few:,} to {many:,} bytes" if many else ""

    def _top(self) -> str:
        if not self.values or len(self.values) > self.values.total() // 2:
            return ""
        names = self.feature.class_names if self.feature is not None else ()
        shown = []
        for value, count in sorted(self.values.items(), key=lambda item: (-item[1], str(item[0])))[:4]:
            is_class = isinstance(value, int) and 0 <= value < len(names)
            shown.append(f"{show(names[value] if is_class else value, 24)} {count / self.values.total():.0%}")
        return ", ".join(shown) + (", …" if len(self.values) > 4 else "")

    def infer_feature(self, records: int) -> Feature:
        """Return the feature as readers take it: metadata's, or what all `records` records have in common."""
        if self.feature is not None:
            return self.feature
        is_one = self.fewest == self.most == 1
        shape: tuple[int | None, ...] = () if is_one else (self.most,) if self.fewest == self.most > 1 else (None,)
        kind: Kind = "text" if self.dtype == "bytes" and self.main_look in (TEXT, JSON) and is_one else "tensor"
        if is_one and self.main_look in IMAGES:
            kind = "image"
        return Feature(self.name, self.dtype, kind, shape, self.present == records)


_KINDS = {"class_label": "class id", "bbox": "boxes (top, left, bottom, right)", "bool": "0 or 1"}


def _number(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:.6g}"


def show(value: Any, most: int = 60) -> str:
    """Return one value on one line, cut to `most` letters."""
    if isinstance(value, str):
        text = value
    elif isinstance(value, bytes):
        words = look(value[: _SMALL_EXAMPLE + 1])
        text = repr(value.decode()) if words in (TEXT, JSON) else f"<{words}, {len(value):,} bytes>" if value else "b''"
        text = text if words not in (TEXT, JSON) else f'"{value.decode()}"'
    else:
        text = f"{value:.6g}" if isinstance(value, float | np.floating) else str(value)
    text = to_printable(text)
    return text if len(text) <= most else f"{text[: most - 1]}…"


def show_list(values: Any, most: int = 8) -> str:
    """Return the first values of a list on one line, with their number."""
    if len(values) and not isinstance(values, np.ndarray) and not isinstance(values[0], bytes):
        inner = ", ".join(
            f"[{', '.join(show(one) for one in step[:3])}{', …' if len(step) > 3 else ''}]" for step in values[:2]
        )
        return f"[{inner}{', …' if len(values) > 2 else ''}] ({len(values):,} steps)"
    shown = ", ".join(show(value) for value in values[:most])
    return shown if len(values) == 1 else f"[{shown}{', …' if len(values) > most else ''}] ({len(values):,})"


def example_lines(values: Mapping[str, Any], names: Iterable[str]) -> Iterator[str]:
    """Yield a line for each feature of an example, in the order of `names`."""
    width = min(max(map(len, map(to_printable, values)), default=0), 40)
    for name in names:
        yield f"  {to_printable(name):{width}}  {show_list(values[name]) if name in values else '(missing)'}"

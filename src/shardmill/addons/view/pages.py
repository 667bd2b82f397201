"""The answers to the page of `view`: examples with their pictures, searches, statistics and differences, as JSON."""

import io
import math
import re
import struct
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from shardmill.addons.view.files import Damage, RecordFile, RecordFiles
from shardmill.addons.view.inspection import Sample
from shardmill.addons.view.values import IMAGES, JSON, STEPS, TEXT, WAV, decode_any, look, show, show_list
from shardmill.data.features import OBJECT_DETECTION_KEYS, Feature, features_of_kind
from shardmill.data.kinds import draw_array
from shardmill.data.media import mask_array, open_image
from shardmill.errors import UserError
from shardmill.text import to_printable

PAGE = 60  # examples
_SEARCH_SECONDS = 3.0  # after which a search returns what it found, and where it stopped
_MOST_SORTED = 100_000  # examples
_SHOWN_FEATURES, _SHOWN_IMAGES, _SHOWN_BOXES = 40, 4, 200  # of an example in the grid
_LONG_TEXT = 100_000  # letters of one value
_BROWSER_IMAGES = ("JPEG", "PNG", "GIF", "WebP")  # which are sent as they are
_MAX_PIXELS = 40_000_000
_MASK = re.compile("mask|segment", re.IGNORECASE)
_COLOURS = np.array(
    [(0, 0, 0), (230, 159, 0), (86, 180, 233), (0, 158, 115), (240, 228, 66), (0, 114, 178), (213, 94, 0)]
)


@dataclass(eq=False)
class Opened:
    """One data set or some record files, as the page shows them."""

    title: str
    found: RecordFiles
    features: Mapping[str, Feature]
    sample: Sample
    facts: Mapping[str, Any] = field(default_factory=dict)  # statistics, notices and rejects of a data set of ours
    sorted: dict[tuple[str, str, bool], list[int]] = field(default_factory=dict)
    tokenizer: Callable[[Any], str] | None = None

    def describe(self) -> dict[str, Any]:
        """Return what does not depend on an example."""
        columns = self.sample.columns.values()
        return {
            "title": to_printable(self.title),
            "splits": [
                {"name": split, "records": _sum(shard.records for shard in shards), "files": len(shards)}
                for split, shards in self.found.splits.items()
            ],
            "size_bytes": self.found.size_bytes,
            "features": [
                {"name": column.name, "type": " or ".join(column.dtypes), "values": column.describe_count()}
                | {"looks": column.describe_look(), "range": column.describe_range()}
                | {"missing": sum(self.sample.kinds.values()) - column.present}
                | {"counts": _top_values(column.values, self.features.get(column.name))}
                for column in columns
            ],
            "looked_at": self.sample.decoded,
            "damaged": [f"{damage.file}: {damage}" for shard in self.found.shards for damage in shard.damages][:1000],
            **self.facts,
        }

    def read(self, split: str, first: int, count: int) -> list[dict[str, Any]]:
        """Return examples of a split for the grid."""
        return [self._card(*item) for item in self.found.select(split or None).read(first, count)]

    def search(self, split: str, name: str, how: str, wanted: str, first: int) -> dict[str, Any]:
        """Return at most a page of the examples from `first` on in which a feature is as wanted.

        It stops after some seconds; `next` is where to go on, None at the end.
        """
        matches, cards = _matcher(how, wanted, self.features.get(name)), list[dict[str, Any]]()
        at, end = first, time.monotonic() + _SEARCH_SECONDS
        while len(cards) < PAGE:
            batch = list(self.found.select(split or None).read(at, PAGE * 4))
            for item in batch:
                at = item[0] + 1
                if isinstance(item[3], bytes) and matches(_values_of(item[3], name)):
                    cards.append(self._card(*item))
                    if len(cards) == PAGE:
                        break
            if not batch:
                return {"examples": cards, "next": None}
            if time.monotonic() > end:
                break
        return {"examples": cards, "next": at}

    def sort(self, split: str, name: str, descending: bool, first: int) -> dict[str, Any]:
        """Return a page of the examples in the order of a number, or of the size of a feature's values."""
        key = split, name, descending
        if key not in self.sorted:
            numbers = list[tuple[float, int]]()
            found = self.found.select(split or None)
            for number, _, _, record in found.read(0, _MOST_SORTED):
                numbers.append((_sort_key(record, name), number))
            numbers.sort(key=lambda item: (math.isnan(item[0]), -item[0] if descending else item[0], item[1]))
            self.sorted[key] = [number for _, number in numbers]
        order = self.sorted[key]
        cards = [card for number in order[first : first + PAGE] for card in self.read(split, number, 1)]
        more = first + PAGE if first + PAGE < len(order) else None
        return {"examples": cards, "next": more, "sorted": len(order), "of_most": _MOST_SORTED}

    def one(self, split: str, number: int) -> dict[str, Any]:
        """Return everything of one example, with the code that reads it; raise a UserError beyond the last."""
        items = list(self.found.select(split or None).read(number, 1))
        if not items or items[0][0] != number:
            raise UserError(f"there is no example {number:,}")
        _, shard, at, record = items[0]
        card = self._card(*items[0], most=1 << 30)
        if isinstance(record, Damage):
            return card
        _, values = decode_any(record)
        return card | {
            "values": [
                {
                    "name": name,
                    "text": _full_text(value, self.features.get(name)),
                    "tokens": self._decode_tokens(name, value),
                }
                for name, value in values.items()
            ],
            "python": python_code(shard, at, values),
        }

    def _decode_tokens(self, name: str, value: Any) -> str:
        column = self.sample.columns.get(name)
        if self.tokenizer is None or column is None or column.describe_look() != "token ids":
            return ""
        return self.tokenizer(value)[:_LONG_TEXT]

    def media(self, split: str, number: int, name: str, at: int) -> tuple[bytes, str]:
        """Return one picture or sound of an example, and its type; raise a UserError for another value."""
        for _, _, _, record in self.found.select(split or None).read(number, 1):
            if isinstance(record, bytes):
                value = decode_any(record)[1].get(name, [])
                return to_media(value, at, self.features.get(name))
        raise UserError(f"there is no example {number:,}")

    def _card(
        self, number: int, shard: RecordFile, at: int, record: bytes | Damage, most: int = _SHOWN_FEATURES
    ) -> dict[str, Any]:
        """Return the summary of an example."""
        card: dict[str, Any] = {"number": number, "split": shard.split, "file": shard.path, "in_file": at}
        if isinstance(record, Damage):
            return card | {"damage": str(record)}
        kind, values = decode_any(record)
        images, sounds, rows = list[dict[str, Any]](), list[dict[str, Any]](), list[list[str]]()
        for name, value in values.items():
            feature = self.features.get(name)
            for place, words in _media_of(name, value, feature, self.sample):
                (sounds if words == WAV else images).append({"name": name, "at": place, "mask": words == "mask"})
            if len(rows) < most and not (images and images[-1]["name"] == name):
                rows.append([name, _card_text(value, feature)])
        is_masked = [image for image in images if not image["mask"]]
        return card | {
            "kind": kind,
            "size_bytes": len(record),
            "images": (is_masked or images)[: most if most > _SHOWN_FEATURES else _SHOWN_IMAGES],
            "masks": [image for image in images if image["mask"]][:_SHOWN_IMAGES] if is_masked else [],
            "sounds": sounds[:_SHOWN_IMAGES],
            "boxes": list(_boxes(values, self.features))[:_SHOWN_BOXES],
            "rows": rows,
        }


def _sum(counts: Any) -> int | None:
    numbers = list(counts)
    return None if None in numbers else sum(numbers)


def _top_values(values: Mapping[Any, int] | None, feature: Feature | None) -> list[list[Any]]:
    """Return the most frequent values with their counts, or a histogram of many numbers."""
    if not values:
        return []
    names = feature.class_names if feature is not None else ()
    is_number = all(isinstance(value, int | float) for value in values)
    if not is_number and len(values) > 1 and max(values.values()) == 1:  # names of files
        return []
    if is_number and not names and len(values) > 24:
        finite = {value: count for value, count in values.items() if math.isfinite(value)}
        counts, edges = np.histogram(list(finite), 24, weights=list(finite.values()))
        pairs = zip(edges, edges[1:], counts, strict=False)
        return [[f"{low:.4g} to {high:.4g}", int(count), ""] for low, high, count in pairs]
    ordered = sorted(values.items(), key=lambda item: item[0]) if is_number and not names else None
    ordered = ordered or sorted(values.items(), key=lambda item: -item[1])[:50]
    return [[show(_class_name(value, names), 40), count, show_raw(value)] for value, count in ordered]


def _class_name(value: Any, names: tuple[str, ...]) -> Any:
    is_class = isinstance(value, int | np.integer) and 0 <= value < len(names)
    return names[value] if is_class else value


def show_raw(value: Any) -> str:
    """Return a value as the filter of the page takes it."""
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)


def _values_of(record: bytes, name: str) -> list[Any]:
    """Return the values of a feature in a record; of all features if there is no name."""
    values = decode_any(record)[1]
    chosen = values.values() if not name else [values.get(name, [])]
    return [one for value in chosen for one in value]


def _matcher(how: str, wanted: str, feature: Feature | None) -> Callable[[list[Any]], bool]:
    """Return a test of a feature's values; raise a UserError if `wanted` is no number, and has to be one."""
    if how in ("<", ">"):
        try:
            limit = float(wanted)
        except ValueError:
            raise UserError(f"{wanted!r} is no number") from None
        sign = 1 if how == ">" else -1
        return lambda values: any(not isinstance(one, bytes | list) and sign * (one - limit) > 0 for one in values)
    names = feature.class_names if feature is not None else ()
    ids = {str(index) for index, name in enumerate(names) if name == wanted} | {wanted}
    if how == "=":
        return lambda values: any(_equals(one, ids) for one in values)
    text = wanted.lower()
    return lambda values: any(text in _searched(one, names) for one in values)


def _searched(one: Any, names: tuple[str, ...]) -> str:
    """Return a value as a search for text sees it: in lower case, of a class its name."""
    if isinstance(one, bytes):
        return one.decode(errors="replace").lower()
    return str(_class_name(one, names)).lower()


def _equals(one: Any, wanted: set[str]) -> bool:
    if isinstance(one, bytes):
        return one.decode(errors="replace") in wanted
    return str(one) in wanted or (isinstance(one, np.floating) and f"{one:.6g}" in wanted)


def _sort_key(record: bytes | Damage, name: str) -> float:
    if isinstance(record, Damage):
        return math.nan
    if not name:
        return len(record)
    values = decode_any(record)[1].get(name, [])
    if not len(values):
        return math.nan
    return float(values[0]) if isinstance(values, np.ndarray) else float(sum(map(len, values)))


def _media_of(name: str, value: Any, feature: Feature | None, sample: Sample) -> Iterator[tuple[int, str]]:
    """Yield the places of pictures and sounds among the values, each with what it is."""
    if feature is not None and feature.kind == "array" and len(feature.shape) in (2, 3):
        yield 0, "PNG"
        return
    column = sample.columns.get(name)
    if isinstance(value, np.ndarray):
        if column is not None and column.describe_look() == "samples of audio" and len(value):
            yield 0, WAV
        return
    for place, one in enumerate(value):
        if isinstance(one, bytes):
            words = look(one[:64]) if one[:4] != b"RIFF" else look(one)
            if words in (*IMAGES, WAV):
                is_mask = _MASK.search(name) or (feature is not None and feature.kind == "mask")
                yield place, "mask" if is_mask and words == "PNG" else words
        elif one and isinstance(one[0], bytes) and look(one[0][:64]) in IMAGES:
            yield place, "PNG"


def _boxes(values: Mapping[str, Any], features: Mapping[str, Feature]) -> Iterator[list[Any]]:
    """Yield [top, left, bottom, right, name, class id] of each box that metadata or names of features describe."""
    described = features_of_kind(features.values(), "bbox")
    for feature in described:
        edges = [float(edge) for edge in values.get(feature.name, ())]
        label = next(
            (one for one in features.values() if one.kind == "class_label" and one.sequence == feature.sequence), None
        )
        yield from _named(np.reshape(edges[: len(edges) // 4 * 4], (-1, 4)).tolist(), values, label)
    keys = OBJECT_DETECTION_KEYS
    if not described and all(name in values for name in keys.edges):
        label = features.get(keys.label)
        boxes = [list(map(float, box)) for box in zip(*(values[name] for name in keys.edges), strict=False)]
        texts = [text.decode(errors="replace") for text in values.get(keys.text, ())]
        for place, box in enumerate(_named(boxes, values, label)):
            yield [*box[:4], texts[place] if place < len(texts) else box[4], box[5]]


def _named(boxes: list[list[float]], values: Mapping[str, Any], label: Feature | None) -> Iterator[list[Any]]:
    ids = [int(value) for value in values.get(label.name, ())] if label is not None else []
    for place, box in enumerate(boxes):
        index = ids[place] if len(ids) == len(boxes) else -1
        yield [
            *box,
            to_printable(str(_class_name(index, label.class_names if label else ()))) if index >= 0 else "",
            index,
        ]


def _card_text(value: Any, feature: Feature | None) -> str:
    names = feature.class_names if feature is not None else ()
    if names and len(value):
        return ", ".join(show(_class_name(int(one), names), 40) for one in value[:8]) + (
            ", …" if len(value) > 8 else ""
        )
    if len(value) == 1 and isinstance(value[0], bytes):
        return show(value[0], 300)
    return show_list(value)


def _full_text(value: Any, feature: Feature | None) -> str:
    """Return all values of a feature as text, at most 100,000 letters."""
    if isinstance(value, np.ndarray):
        names = feature.class_names if feature is not None else ()
        numbers = np.array2string(value, threshold=2_000, max_line_width=120, separator=", ")
        classes = ", ".join(str(_class_name(one, names)) for one in value.tolist()[:200])
        return to_printable(f"{classes}  {numbers}") if names else numbers
    parts = list[str]()
    for one in value[:200]:
        is_text = isinstance(one, bytes) and look(one) in (TEXT, JSON)
        if is_text:
            parts.append(one.decode(errors="replace"))
        else:
            parts.append(f"<{look(one)}, {len(one):,} bytes>" if isinstance(one, bytes) else show_list(one))
    return "\n".join(map(_printable_lines, parts))[:_LONG_TEXT]


def _printable_lines(text: str) -> str:
    return "\n".join(map(to_printable, text.split("\n")))


def python_code(shard: RecordFile, at: int, values: Mapping[str, Any]) -> str:
    """Return Python that reads an example, and its values as Python, if they are short."""
    lines = ["import shardmill", "", f"example = next(iter(shardmill.examples({shard.path!r}, {shard.split!r})))"]
    if shard.compression in ("", "array_record"):
        lines[-1] = f"example = shardmill.source({shard.path!r}, {shard.split!r})[{at}]"
    elif at:
        lines[1:1] = ["from itertools import islice"]
        lines[-1] = f"example = next(islice(shardmill.examples({shard.path!r}, {shard.split!r}), {at}, None))"
    shown = {
        name: value.tolist() if isinstance(value, np.ndarray) else value
        for name, value in values.items()
        if len(value) <= 64
    }
    shown = {name: value for name, value in shown.items() if len(repr(value)) <= 400 and not name.endswith(STEPS)}
    body = "".join(f"    {name!r}: {value!r},\n" for name, value in shown.items())
    return "\n".join(lines) + f"\nvalues = {{\n{body}}}\n"


def to_media(value: Any, at: int, feature: Feature | None) -> tuple[bytes, str]:
    """Return one of the values as a picture or a sound that browsers show, and its type."""
    if isinstance(value, np.ndarray):
        return _to_wav(value, (feature and feature.sample_rate) or 16_000), "audio/wav"
    one = value[at] if at < len(value) else b""
    data = one if isinstance(one, bytes) else one[0]
    if feature is not None and feature.kind == "array":
        return draw_array(feature, data), "image/png"
    words = look(data[:64]) if data[:4] != b"RIFF" else look(data)
    if words == WAV:
        return data, "audio/wav"
    if words in _BROWSER_IMAGES:
        return data, f"image/{words.lower()}"
    if words not in IMAGES:
        raise UserError("the value is neither a picture nor a sound")
    return _to_png(open_image(data).convert("RGB")), "image/png"


def mask_overlay(data: bytes) -> bytes:
    """Return a mask as a PNG of half transparent colours, one for each value but 0."""
    from PIL import Image

    values = mask_array(data, _MAX_PIXELS)[..., 0].astype(np.int64)
    place = np.where(values > 0, (values - 1) % (len(_COLOURS) - 1) + 1, 0)
    pixels = np.dstack([_COLOURS[place], np.where(values > 0, 128, 0)]).astype(np.uint8)
    return _to_png(Image.fromarray(pixels, "RGBA"))


def _to_png(image: Any) -> bytes:
    out = io.BytesIO()
    image.save(out, "PNG")
    return out.getvalue()


def _to_wav(samples: np.ndarray, rate: int) -> bytes:
    """Return a WAV file of 16 bits with samples of one channel, floats from -1 to 1 or integers."""
    scaled = samples * 32767.0 if samples.dtype.kind == "f" else samples.astype(np.float64)
    peak = float(np.abs(scaled).max(initial=1.0))
    data = (scaled * (32767.0 / peak if peak > 32767 else 1.0)).astype("<i2").tobytes()
    head = struct.pack(
        "<4sI4s4sIHHIIHH4sI",
        b"RIFF",
        36 + len(data),
        b"WAVE",
        b"fmt ",
        16,
        1,
        1,
        rate,
        2 * rate,
        2,
        16,
        b"data",
        len(data),
    )
    return head + data

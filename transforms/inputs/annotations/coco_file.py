"""What is kept of a COCO file, which is read as a stream: annotations are columns of numbers, images a tuple each.

See cocodataset.org, "Data format": a `bbox` is [x, y, width, height] in pixels from the upper left corner. One
takes 73 bytes of memory, whatever its polygons take in the file.
"""

import io
import math
from array import array
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeGuard

import numpy as np

from shardmill.errors import UserError
from shardmill.transforms.columns.nested import shown
from shardmill.transforms.inputs.annotations.json_items import read_arrays
from shardmill.transforms.stores import storage
from shardmill.transforms.stores.error_text import error_text
from shardmill.transforms.stores.failures import raise_if_store_failed

try:
    from shardmill._native import plain_annotations
except ImportError:  # not compiled

    def plain_annotations(text: str) -> tuple[bytes, bytes, bytes, bytes, bytes, bytes, dict[str, int]] | None:
        """As if something were odd everywhere."""
        return None


_KEPT = frozenset(("id", "image_id", "category_id", "bbox", "area", "iscrowd"))  # of an annotation
_IDS = ("id", "image_id", "category_id")
_WITHOUT = "an annotation without an id"
_LISTS = ("images", "annotations", "categories")


class CocoImage(NamedTuple):
    """An image as the file lists it; `problem` says why it is no good."""

    id: int
    name: str
    size: tuple[int, int] | None
    problem: str = ""


@dataclass(slots=True)
class CocoFile:
    """A file.

    Attributes:
      path: its own.
      images: in their order.
      categories: names by id.
      problems: why an image is a reject for what is said of it, by its id.
      strays: what is wrong with annotations that name no image.
      left_out: annotations with what is not kept, such as polygons, by the key that holds it.
      bare: whether it has no annotations at all, as those of test sets.
      unnumbered: the places in `ids` of annotations without an id.
      is_numbered: whether that was all of them, which then have their places in the file, from 1.
      ids, image_ids, category_ids, boxes, areas, crowds: of annotations, in their order; of boxes four numbers each.
    """

    path: str
    images: list[CocoImage] = field(default_factory=list)
    categories: dict[int, str] = field(default_factory=dict)
    problems: dict[int, str] = field(default_factory=dict)
    strays: list[str] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)
    bare: bool = False
    unnumbered: "array[int]" = field(default_factory=lambda: array("q"))
    is_numbered: bool = False
    ids: "array[int]" = field(default_factory=lambda: array("q"))
    image_ids: "array[int]" = field(default_factory=lambda: array("q"))
    category_ids: "array[int]" = field(default_factory=lambda: array("q"))
    boxes: "array[float]" = field(default_factory=lambda: array("d"))
    areas: "array[float]" = field(default_factory=lambda: array("d"))
    crowds: "array[int]" = field(default_factory=lambda: array("b"))

    def add_images(self, items: Sequence[Any]) -> None:
        """Keep some images."""
        self.images.extend(_image(item, place) for place, item in enumerate(items, len(self.images) + 1))

    def add_annotations(self, items: Sequence[Any]) -> None:
        """Keep what is needed of some annotations: of items of the list, or what `plain_annotations` made of them."""
        if isinstance(items, tuple):
            *columns, left_out = items
            for kept, new in zip(self._kept, columns, strict=True):
                kept.frombytes(new)
            self.left_out.update(left_out)
            return
        for item in items:
            if isinstance(item, dict) and not item.keys() <= _KEPT:
                self.left_out.update(key for key in item.keys() - _KEPT if item[key])
        try:
            self._extend(items)
        except (AttributeError, IndexError, KeyError, OverflowError, TypeError, ValueError):
            for item in items:
                if problem := _fault(item):
                    self._note(item, problem)
                else:
                    ids = {name: int(item[name]) for name in _IDS if item.get(name) is not None}
                    self._extend([item | ids])

    def add_categories(self, items: Sequence[Any]) -> None:
        """Keep some categories; raises ValueError where one is no good."""
        for item in items:
            if not (isinstance(item, dict) and is_whole(item.get("id")) and isinstance(item.get("name"), str)):
                raise ValueError(f"the category {shown(item)} has no whole number as its id, or no name")
            number, name = int(item["id"]), item["name"]
            if self.categories.setdefault(number, name) != name:
                raise ValueError(f"{self.categories[number]!r} and {name!r} are both category {number}")

    def check(self) -> None:
        """Note what can be known only once all of the file is read: categories that there are not, ids that stand
        twice."""
        self.is_numbered = 0 < len(self.unnumbered) == len(self.ids)
        if self.is_numbered:
            self.ids = array("q", range(1, len(self.ids) + 1))
        ids, image_ids = np.frombuffer(self.ids, np.int64), np.frombuffer(self.image_ids, np.int64)
        without = np.frombuffer(self.unnumbered, np.int64) if not self.is_numbered else np.zeros(0, np.int64)
        for row in without.tolist():
            problem = f"{_WITHOUT} has null for id; expected a whole number, as others have"
            self.problems.setdefault(int(image_ids[row]), problem)
        used = np.frombuffer(self.category_ids, np.int64)
        for row in np.flatnonzero(~np.isin(used, list(self.categories))).tolist():
            problem = f"annotation {ids[row]} is of category {used[row]}, which is not among the categories"
            self.problems.setdefault(int(image_ids[row]), problem)
        order = np.argsort(ids, kind="stable")
        order = order[~np.isin(order, without)]
        for row in order[1:][ids[order[1:]] == ids[order[:-1]]].tolist():
            self.problems.setdefault(int(image_ids[row]), f"its annotation {ids[row]} has an id that another has, too")

    def called(self, row: int) -> str:
        """What errors call an annotation, by its place in `ids`."""
        lacks = not self.is_numbered and row in self.unnumbered
        return _WITHOUT if lacks else f"annotation {self.ids[row]}"

    @property
    def _kept(self) -> tuple[Any, ...]:
        return self.ids, self.image_ids, self.category_ids, self.boxes, self.areas, self.crowds

    def _extend(self, items: Sequence[Any]) -> None:
        columns = _columns(items)
        first = len(self.ids)
        self.unnumbered.extend(first + place for place, item in enumerate(items) if item.get("id") is None)
        for kept, new in zip(self._kept, columns, strict=True):
            kept.extend(new)

    def _note(self, item: Any, problem: str) -> None:
        image_id = item.get("image_id") if isinstance(item, dict) else None
        if is_whole(image_id):
            self.problems.setdefault(image_id, problem)
        else:
            self.strays.append(problem)


def read_coco(path: str) -> CocoFile:
    """What is kept of the file at `path`.

    Raises:
      UserError: there is none, or it is no such file.
      OSError: a store failed.
    """
    found = CocoFile(path)
    take = dict(zip(_LISTS, (found.add_images, found.add_annotations, found.add_categories), strict=True))
    try:
        with storage.open_read(path) as raw, io.TextIOWrapper(raw, "utf-8-sig") as text:
            for name, items in read_arrays(text, _LISTS, {"annotations": plain_annotations}):
                take[name](items)
    except FileNotFoundError:
        raise UserError(f"--coco {path}: no such file") from None
    except OSError as error:
        raise_if_store_failed(error, path)
        raise UserError(f"--coco {path} cannot be read: {error_text(error)}") from None
    except UnicodeDecodeError:
        raise UserError(f"--coco {path} is not UTF-8") from None
    except ValueError as error:
        raise UserError(f"--coco {path} is no file of COCO's: {error}") from None
    found.bare = not (found.ids or found.problems or found.strays)
    for name, there in (("images", found.images), ("categories", found.categories)):
        if not there:
            raise UserError(f"--coco {path} has no {name}; expected an object with {', '.join(_LISTS)}")
    found.check()
    return found


def _image(item: Any, place: int) -> CocoImage:
    if not isinstance(item, dict) or not is_whole(item.get("id")):
        return CocoImage(-1, "", None, f"image {place} of the file has no whole number as its id")
    image_id, name = int(item["id"]), item.get("file_name")
    if not isinstance(name, str) or not name.strip("/") or "\0" in name or not _is_text(name):
        return CocoImage(image_id, "", None, f"image id {image_id} has no file_name")
    width, height = item.get("width"), item.get("height")
    if not width and not height:
        return CocoImage(image_id, name, None)
    if not (is_whole(width) and is_whole(height) and width > 0 and height > 0):
        said = f"its size is said to be {shown(width)} x {shown(height)} pixels; expected whole numbers"
        return CocoImage(image_id, name, None, said)
    return CocoImage(image_id, name, (int(width), int(height)))


def _columns(items: Sequence[Any]) -> tuple[Any, ...]:
    boxes = [item["bbox"] for item in items]
    if set(map(len, boxes)) - {4}:
        raise ValueError("not four numbers")
    areas = [item.get("area") for item in items]
    if not all(area is None or math.isfinite(area) for area in areas):
        raise ValueError("not finite")
    if None in areas:
        areas = [1.0 * box[2] * box[3] + 0.0 if area is None else area for area, box in zip(areas, boxes, strict=True)]
    crowds = [item.get("iscrowd", 0) for item in items]
    if set(crowds) - {0, 1}:
        raise ValueError("neither 0 nor 1")
    own = [0 if (number := item.get("id")) is None else number for item in items]
    ids = [own, *([item[name] for item in items] for name in ("image_id", "category_id"))]
    edges = [edge for box in boxes for edge in box]
    if any(bool in set(map(type, values)) for values in (*ids, edges, areas)):
        raise ValueError("true is no number")  # but is 1 to array
    return *(array("q", numbers) for numbers in ids), array("d", edges), array("d", areas), array("b", crowds)


def _fault(item: Any) -> str:
    """What is wrong with an annotation; "" if nothing is."""
    if not isinstance(item, dict):
        return f"an annotation is {shown(item)}; expected an object"
    named = f"annotation {shown(item['id'])}" if item.get("id") is not None else _WITHOUT
    for name in _IDS:
        if not is_whole(item.get(name)) and not (name == "id" and item.get(name) is None):
            return f"{named} has {shown(item.get(name))} for {name}; expected a whole number"
    box = item.get("bbox")
    if not (isinstance(box, list) and len(box) == 4 and all(map(is_number, box))):
        return f"{named} has {shown(box)} for bbox; expected [x, y, width, height]"
    if not (item.get("area") is None or is_measure(item["area"])):
        return f"{named} has {shown(item['area'])} for area; expected a number"
    if item.get("iscrowd", 0) not in (0, 1):
        return f"{named} has {shown(item['iscrowd'])} for iscrowd; expected 0 or 1"
    return ""


def is_whole(value: Any) -> TypeGuard[int]:
    """Whether a value of JSON is a whole number of 64 bits; 640.0 is one, which `int` makes an integer."""
    if isinstance(value, float):
        return value.is_integer() and -(1 << 63) <= value < 1 << 63
    return isinstance(value, int) and not isinstance(value, bool) and -(1 << 63) <= value < 1 << 63


def is_number(value: Any) -> bool:
    """Whether a value of JSON is a number that a float may be, or NaN."""
    return (
        isinstance(value, int | float)
        and not isinstance(value, bool)
        and not (isinstance(value, int) and abs(value) > 1 << 63)
        and not math.isinf(value)
    )


def is_measure(value: Any) -> bool:
    """Whether it is one that is not NaN either."""
    return is_number(value) and not math.isnan(value)


def _is_text(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True

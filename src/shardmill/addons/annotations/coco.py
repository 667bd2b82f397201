"""Read COCO annotation files as streams and join their images with their objects."""

import io
import json
import math
import posixpath
import re
from array import array
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple, TextIO, TypeGuard

import numpy as np
import orjson
import pyarrow as pa
from numpy.typing import NDArray

from shardmill.addons.annotations.formats import COCO, recognise
from shardmill.errors import UserError
from shardmill.metadata.manifest import Reject
from shardmill.text import is_unicode, plural
from shardmill.transforms.columns.types import preview_value
from shardmill.transforms.inputs import annotations as inputs
from shardmill.transforms.inputs.listing import report_unreadable_flag_file
from shardmill.transforms.inputs.manifest_files import common_folder
from shardmill.transforms.inputs.summary import InputSummary
from shardmill.transforms.stores import storage

# Characters read at once. The items of larger pieces leave the processor's cache, and Python's garbage collector scans
# them again and again, which takes three times as long for megabytes.
CHUNK = 1 << 16
_LARGEST = 1 << 28  # characters of one item: more are no annotation
TAIL = 1 << 13  # characters at the end of what is read in which a cut is looked for
_CUT = re.compile(r"\}\s*,\s*(?=\{)")
_SPACE = re.compile(r"[ \t\n\r]*")
_DECODER = json.JSONDecoder()
Scan = Callable[[str], bool]


def read_arrays(
    text: TextIO, wanted: Collection[str], scans: Mapping[str, Scan] = MappingProxyType({})
) -> Iterator[tuple[str, list[Any]]]:
    """Read a large JSON object as a stream: yield (name, items) of its `wanted` arrays, some items at a time.

    An empty array is yielded once, as []. orjson parses the text between two cuts, many items at once, many times as
    fast as a parser with an event for every bracket. If a cut was not between two items, the standard library's parser
    continues item by item. `scans` are functions by name of an array. They get the text of several objects first; if
    one returns True, it has read the objects, and they are not yielded.

    Raise a ValueError if the text is not exactly one JSON object, or a wanted member is not an array or occurs twice.
    """
    window = _Window(text)
    seen: set[str] = set()
    if not window.skip("{"):
        raise ValueError("it is not a JSON object")
    is_last = window.skip("}")
    while not is_last:
        name = window.value()
        if not isinstance(name, str) or not window.skip(":"):
            raise ValueError(f"it is not JSON {window.where}")
        if name in wanted:
            if name in seen:
                raise ValueError(f"it has {name!r} twice")
            seen.add(name)
            if not window.skip("["):
                raise ValueError(f"its {name!r} is not a list")
            for items in _iterate_items(window, scans.get(name)):
                yield name, items
        else:
            window.value()
        is_last = window.skip_end("}")
    if window.next():
        raise ValueError(f"there is more behind its object, {window.where}")


def _iterate_items(window: "_Window", scan: Scan | None) -> Iterator[list[Any]]:
    is_last = window.skip("]")
    if is_last:
        yield []
    while not is_last:
        items = window.parse_many(scan)
        if items is None:
            yield [window.value()]
            is_last = window.skip_end("]")
        elif items:
            yield items


class _Window:
    def __init__(self, text: TextIO) -> None:
        self._text, self._buffer, self._at = text, "", 0
        self._before = 0  # characters that are gone
        self._tried = False  # whether no cut was found in what is looked at
        self._ended = False

    @property
    def where(self) -> str:
        return f"at character {self._before + self._at:,}"

    def next(self) -> str:
        """Return the next character that is not white space; "" at the end."""
        while True:
            match = _SPACE.match(self._buffer, self._at)
            assert match is not None
            self._at = match.end()
            if self._at < len(self._buffer) or not self._read_more():
                return self._buffer[self._at : self._at + 1]

    def skip(self, character: str) -> bool:
        """Skip the next character and return True if it is `character`."""
        is_next = self.next() == character
        self._at += is_next
        return is_next

    def skip_end(self, end: str) -> bool:
        """Skip `end` and return True, or skip a comma; raise a ValueError for another character."""
        is_end = self.skip(end)
        if not is_end and not self.skip(","):
            raise ValueError(f"it is not JSON {self.where}" if self.next() else f"it ends early {self.where}")
        return is_end

    def value(self) -> Any:
        """Parse the JSON value at the current position, reading on as far as it reaches."""
        self.next()
        while True:
            try:
                found, end = _DECODER.raw_decode(self._buffer, self._at)
                if end < len(self._buffer) or not self._read_more():  # a number may go on
                    self._at = end
                    return found
            except json.JSONDecodeError as error:
                if len(self._buffer) - self._at > _LARGEST:
                    raise ValueError(f"a value of more than {_LARGEST:,} characters begins {self.where}") from None
                if not self._read_more():
                    raise ValueError(f"it is not JSON, or ends early, {self.where}: {error.msg}") from None
            except RecursionError:
                raise ValueError(f"a value that is nested too deep begins {self.where}") from None

    def parse_many(self, scan: Scan | None) -> list[Any] | None:
        """Parse several whole JSON objects at once; return [] if `scan` has read them, None if no text can be cut."""
        if len(self._buffer) - self._at < TAIL:
            self._read_more()
        if self._tried:
            return None
        cut = None
        for found in _CUT.finditer(self._buffer, max(self._at, len(self._buffer) - TAIL)):
            cut = found
        if cut is not None:
            text = self._buffer[self._at : cut.start() + 1]
            try:
                items: list[Any] = [] if scan is not None and scan(text) else orjson.loads(f"[{text}]")
                self._at = cut.end()
                return items
            except ValueError:
                pass
        self._tried = True
        return None

    def _read_more(self) -> bool:
        if self._ended:
            return False
        part = self._text.read(max(CHUNK, len(self._buffer) - self._at))  # a long value is tried a few times only
        self._ended = not part
        self._before += self._at
        self._buffer, self._at, self._tried = self._buffer[self._at :] + part, 0, self._ended
        return bool(part)


try:
    from shardmill._native import parse_annotations
except ImportError:  # not compiled, or before an update

    def parse_annotations(text: str) -> tuple[bytes, bytes, bytes, bytes, bytes, bytes, dict[str, int]] | None:
        """Return None, as the compiled function does for annotations that Python is to parse."""
        return None


_KNOWN_KEYS = frozenset(("id", "image_id", "category_id", "bbox", "area", "iscrowd"))  # of an annotation
_KINDS_OF_IDS = {"id": "annotation", "image_id": "image", "category_id": "category"}  # of an annotation
_LISTS = ("images", "annotations", "categories")
_FIRST_OF_TEXTS = 1 << 40  # number of the first id that is a text
# Notices, after a number
_BOX_OF_POLYGON = "annotation without a box: each has the one around its polygons"
_NO_BOX = "annotation without a box: left out"
_SEVERAL_IDS = "image listed again under another id: the annotations of all its ids are joined"
_NO_ID = "annotation without an id: all are numbered by their place there, from 1; pycocotools needs ids"
_REPEATED_IDS = "annotation with the id of another: all are numbered by their place there, from 1"


class CocoImage(NamedTuple):
    """An image as listed in the file; `problem` is the reason to reject it."""

    id: int
    name: str
    size: tuple[int, int] | None
    problem: str = ""


@dataclass(slots=True)
class CocoFile:
    """The contents of a COCO file, with annotations as columns of numbers.

    See cocodataset.org, "Data format": a `bbox` is [x, y, width, height] in pixels from the upper left corner. An
    annotation takes 73 bytes of memory, and the JSON of its polygons with `keeps_shapes`.
    """

    path: str
    images: list[CocoImage] = field(default_factory=list)  # in file order
    categories: dict[int, str] = field(default_factory=dict)  # class names by id
    problems: dict[int, str] = field(default_factory=dict)  # reject reasons by image id
    faults_without_image: list[str] = field(default_factory=list)  # faults of annotations that name no image
    # number of annotations by ignored key, such as segmentation
    ignored_keys: Counter[str] = field(default_factory=Counter)
    is_unannotated: bool = False  # True if the file has no annotations, as for test sets
    drops_boxless: bool = False  # True to leave out annotations without a box; else their images are rejects
    keeps_shapes: bool = False  # True to keep polygons and run lengths, which all annotations then need
    shapes: list[bytes] = field(default_factory=list)  # of each annotation, as JSON
    counts: Counter[str] = field(default_factory=Counter)  # of what was put right, by its notice
    numbers_of_texts: dict[tuple[str, str], int] = field(default_factory=dict)  # (kind of id, text) of ids with texts
    ids: "array[int]" = field(default_factory=lambda: array("q"))  # of annotations, in file order, as all columns below
    image_ids: "array[int]" = field(default_factory=lambda: array("q"))
    category_ids: "array[int]" = field(default_factory=lambda: array("q"))
    boxes: "array[float]" = field(default_factory=lambda: array("d"))  # four numbers an annotation: x, y, width, height
    areas: "array[float]" = field(default_factory=lambda: array("d"))  # in square pixels
    crowds: "array[int]" = field(default_factory=lambda: array("b"))  # 0 or 1

    def add_images(self, items: Sequence[Any]) -> None:
        """Add items of the file's `images` list."""
        items = [self._with_numbers(item, {"id": "image"}) for item in items]
        self.images.extend(_parse_image(item, position) for position, item in enumerate(items, len(self.images) + 1))

    def scan_annotations(self, text: str) -> bool:
        """Add annotations from their JSON text; return False, and add none, if Python is to parse them."""
        if self.keeps_shapes or (found := parse_annotations(text)) is None:
            return False
        *columns, ignored_keys = found
        for kept, new in zip(self._columns, columns, strict=True):
            kept.frombytes(new)
        self.ignored_keys.update(ignored_keys)
        return True

    def add_annotations(self, items: Sequence[Any]) -> None:
        """Add items of the file's `annotations` list."""
        known = _KNOWN_KEYS | {"segmentation"} if self.keeps_shapes else _KNOWN_KEYS
        for item in items:
            if isinstance(item, dict) and not item.keys() <= known:
                self.ignored_keys.update(key for key in item.keys() - known if item[key])
        try:
            self._add_items(items)
        except (AttributeError, IndexError, KeyError, OverflowError, TypeError, ValueError):
            for item in items:
                item = self._with_box(self._with_numbers(item, _KINDS_OF_IDS))
                if item is None:
                    continue
                if problem := _find_fault(item) or (self.keeps_shapes and _find_shape_fault(item)):
                    self._add_problem(item, problem)
                else:
                    ids = {name: int(item[name]) for name in _KINDS_OF_IDS if item.get(name) is not None}
                    self._add_items([item | ids])

    def add_categories(self, items: Sequence[Any]) -> None:
        """Add items of the file's `categories` list; raise a ValueError if one is invalid."""
        for item in items:
            item = self._with_numbers(item, {"id": "category"})
            if not (isinstance(item, dict) and inputs.is_integer(item.get("id")) and isinstance(item.get("name"), str)):
                raise ValueError(f"the category {preview_value(item)} has no whole number as its id, or no name")
            number, name = int(item["id"]), item["name"]
            if self.categories.setdefault(number, name) != name:
                raise ValueError(f"{self.categories[number]!r} and {name!r} are both category {number}")

    def _with_numbers(self, item: Any, kinds: Mapping[str, str]) -> Any:
        if not isinstance(item, dict):
            return item
        texts = {key: item[key] for key in kinds if isinstance(item.get(key), str) and item[key]}
        for key, text in texts.items():
            number = int(text) if text.isdecimal() and str(int(text)) == text else None
            if number is None or not inputs.is_integer(number):
                next_number = _FIRST_OF_TEXTS + len(self.numbers_of_texts)
                number = self.numbers_of_texts.setdefault((kinds[key], text), next_number)
            texts[key] = number
        return item | texts if texts else item

    def _with_box(self, item: Any) -> Any:
        """Return an annotation with the box around its polygons if it has none; None to leave it out."""
        if not isinstance(item, dict) or item.get("bbox") not in (None, [], [0, 0, 0, 0], [0.0] * 4):
            return item
        polygons = item.get("segmentation")
        corners = list(chain.from_iterable(polygons)) if _are_polygons(polygons) else []
        if corners:
            x, y = corners[::2], corners[1::2]
            self.counts[_BOX_OF_POLYGON] += 1
            return item | {"bbox": [min(x), min(y), max(x) - min(x), max(y) - min(y)]}
        if item.get("bbox") in (None, []) and self.drops_boxless:
            self.counts[_NO_BOX] += 1
            return None
        return item

    def _join_images(self) -> None:
        first: dict[str, int] = {}
        others = {}
        for image in self.images:
            if image.name and not image.problem and first.setdefault(image.name, image.id) != image.id:
                others[image.id] = first[image.name]
        if not others or any(image.id in others and first[image.name] == image.id for image in self.images):
            return
        self.counts[_SEVERAL_IDS] += len(others)
        self.images = [image for image in self.images if image.id not in others]
        self.image_ids = array("q", (others.get(number, number) for number in self.image_ids))

    def check(self) -> None:
        """Find faults that only the whole file shows, such as undefined categories, and join images of one name."""
        self._join_images()
        # Sorting takes a thirtieth of the time that np.unique takes
        repeated = np.count_nonzero(np.diff(np.sort(np.frombuffer(self.ids, np.int64))) == 0)
        if repeated and not self.counts[_NO_ID]:
            self.counts[_REPEATED_IDS] = int(repeated)
        if repeated or self.counts[_NO_ID]:
            self.ids = array("q", range(1, len(self.ids) + 1))
        ids, image_ids = np.frombuffer(self.ids, np.int64), np.frombuffer(self.image_ids, np.int64)
        used = np.frombuffer(self.category_ids, np.int64)
        for row in np.flatnonzero(~np.isin(used, list(self.categories))).tolist():
            category = self.show_id(int(used[row]))
            problem = f"annotation {ids[row]} is of category {category}, which is not among the categories"
            self.problems.setdefault(int(image_ids[row]), problem)

    def show_id(self, number: int) -> str:
        """Return an id as the file has it."""
        texts = (text for (_, text), known in self.numbers_of_texts.items() if known == number)
        return json.dumps(next(texts, number))

    def _add_items(self, items: Sequence[Any]) -> None:
        columns = _columns(items)
        if self.keeps_shapes:
            if any(map(_find_shape_fault, items)):
                raise ValueError("no shape")
            self.shapes += [orjson.dumps(item["segmentation"]) for item in items]
        self.counts[_NO_ID] += sum(item.get("id") is None for item in items)
        for kept, new in zip(self._columns, columns, strict=True):
            kept.extend(new)

    def join_shapes(self, size: tuple[int, int] | None, rows: NDArray[np.int64]) -> str:
        """Return the text that the mask of an image is drawn from, given the rows of its annotations."""
        if not self.keeps_shapes:
            return ""
        shapes = b",".join(b"[%d,%b]" % (self.category_ids[row], self.shapes[row]) for row in rows)
        return (b'{"size":%b,"shapes":[%b]}' % (orjson.dumps(size), shapes)).decode()

    @property
    def _columns(self) -> tuple["array[Any]", ...]:
        return self.ids, self.image_ids, self.category_ids, self.boxes, self.areas, self.crowds

    def _add_problem(self, item: Any, problem: str) -> None:
        image_id = item.get("image_id") if isinstance(item, dict) else None
        if inputs.is_integer(image_id):
            self.problems.setdefault(image_id, problem)
        else:
            self.faults_without_image.append(problem)


def read_coco(path: str, drops_boxless: bool = False, keeps_shapes: bool = False) -> CocoFile:
    """Read the COCO file at `path`; raise a UserError if there is no such file or it is not a COCO file.

    With `drops_boxless`, annotations that have neither a box nor polygons are left out. With `keeps_shapes`, polygons
    and run lengths are kept.
    """
    coco_file = CocoFile(path, drops_boxless=drops_boxless, keeps_shapes=keeps_shapes)
    take = dict(zip(_LISTS, (coco_file.add_images, coco_file.add_annotations, coco_file.add_categories), strict=True))
    with report_unreadable_flag_file("--coco", path):
        try:
            with storage.check_unchanged(path), io.TextIOWrapper(storage.open_read(path), "utf-8-sig") as text:
                for name, items in read_arrays(text, _LISTS, {"annotations": coco_file.scan_annotations}):
                    take[name](items)
        except UnicodeDecodeError:
            raise UserError(f"--coco {path} is not UTF-8; save it as UTF-8") from None
        except ValueError as error:
            found = recognise(posixpath.dirname(path) or ".", [posixpath.basename(path)])
            hints = [f"; it holds {kind.what}; give {flags[0]}" for kind, _, flags in found if kind.what != COCO]
            raise UserError(f"--coco {path} is no file of COCO's: {error}{''.join(hints[:1])}") from None
    coco_file.is_unannotated = not (coco_file.ids or coco_file.problems or coco_file.faults_without_image)
    for name, there in (("images", coco_file.images), ("categories", coco_file.categories)):
        if not there:
            raise UserError(f"--coco {path} has no {name}; expected an object with {', '.join(_LISTS)}")
    coco_file.check()
    return coco_file


def _are_polygons(value: Any) -> TypeGuard[list[list[float]]]:
    return isinstance(value, list) and all(
        isinstance(polygon, list)
        and len(polygon) % 2 == 0
        and len(polygon) >= 6
        and all(map(inputs.is_finite_number, polygon))
        for polygon in value
    )


def _parse_image(item: Any, position: int) -> CocoImage:
    if not isinstance(item, dict) or not inputs.is_integer(item.get("id")):
        return CocoImage(-1, "", None, f"image {position} of the file has no whole number as its id")
    image_id, name = int(item["id"]), item.get("file_name")
    if not isinstance(name, str) or not name.strip("/") or "\0" in name or not is_unicode(name):
        return CocoImage(image_id, "", None, f"image id {image_id} has no file_name")
    width, height = item.get("width"), item.get("height")
    if not width and not height:
        return CocoImage(image_id, name, None)
    if not (inputs.is_integer(width) and inputs.is_integer(height) and width > 0 and height > 0):
        given = f"{preview_value(width)} x {preview_value(height)}"
        return CocoImage(image_id, name, None, f"its size is given as {given} pixels; expected whole numbers")
    return CocoImage(image_id, name, (int(width), int(height)))


def _find_shape_fault(item: Any) -> str:
    shape = item.get("segmentation")
    counts = shape.get("counts") if isinstance(shape, dict) and "size" in shape else None
    is_runs = isinstance(counts, str) or (isinstance(counts, list) and all(map(inputs.is_integer, counts)))
    if is_runs or (shape and _are_polygons(shape)):
        return ""
    return f"annotation {preview_value(item.get('id'))} has {preview_value(shape)} for segmentation; no mask is drawn"


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
    annotation_ids = [0 if (number := item.get("id")) is None else number for item in items]
    ids = [annotation_ids, *([item[name] for item in items] for name in ("image_id", "category_id"))]
    edges = [edge for box in boxes for edge in box]
    if any(bool in set(map(type, values)) for values in (*ids, edges, areas)):
        raise ValueError("true is no number")  # but is 1 to array
    return *(array("q", numbers) for numbers in ids), array("d", edges), array("d", areas), array("b", crowds)


def _find_fault(item: Any) -> str:
    if not isinstance(item, dict):
        return f"an annotation is {preview_value(item)}; expected an object"
    annotation = f"annotation {preview_value(item['id'])}" if item.get("id") is not None else "an annotation without id"
    for name in _KINDS_OF_IDS:
        if not inputs.is_integer(item.get(name)) and not (name == "id" and item.get(name) is None):
            return f"{annotation} has {preview_value(item.get(name))} for {name}; expected a whole number"
    box = item.get("bbox")
    if not (isinstance(box, list) and len(box) == 4 and all(map(inputs.is_number, box))):
        return f"{annotation} has {preview_value(box)} for bbox; expected [x, y, width, height]"
    if not (item.get("area") is None or inputs.is_finite_number(item["area"])):
        return f"{annotation} has {preview_value(item['area'])} for area; expected a number"
    if item.get("iscrowd", 0) not in (0, 1):
        return f"{annotation} has {preview_value(item['iscrowd'])} for iscrowd; expected 0 or 1"
    return ""


IMAGES_PER_BATCH = 2_000  # whose objects are looked for at once: with their objects, an element of some mebibyte
_MAX_PROBED_IMAGES = 20  # images that are looked for in every folder they may be in


@dataclass(frozen=True, slots=True)
class CocoSource(inputs.AnnotationSource):
    """COCO annotation files, each read as a stream."""

    members: ClassVar[tuple[inputs.ObjectField, ...]] = ("area", "bbox", "id", "is_crowd", "label")

    files: tuple[tuple[str, str], ...]  # (split, path) of each file; the split is "" if not given
    root: str  # folder that image names are relative to
    has_explicit_root: bool = False  # True if the user gave the root
    file_root: str = ""  # images' folder relative to the file's own; "" to search for it
    drops_boxless: bool = False  # True to leave out annotations without a box
    keeps_shapes: bool = False  # True to give images the text that masks are drawn from

    def list_extra_files(self) -> Iterator[str]:
        return (path for _, path in self.files)

    def list_images(self) -> Iterator[inputs.AnnotatedImages | InputSummary | Reject | str]:
        image_offset = 0
        for split, path in self.files:
            coco_file = read_coco(path, self.drops_boxless, self.keeps_shapes)
            classes = tuple(coco_file.categories[number] for number in sorted(coco_file.categories))
            drawn = coco_file.categories.keys() & coco_file.category_ids if self.keeps_shapes else ()
            yield InputSummary(class_lists={classes: (1, path)}, ignored_properties=coco_file.ignored_keys)
            yield InputSummary(mask_classes=frozenset((number, coco_file.categories[number]) for number in drawn))
            if coco_file.is_unannotated:
                yield f"{path} has no annotations: its {len(coco_file.images):,} images are without objects"
            for notice, number in (+coco_file.counts).items():
                noun, _, what = notice.partition(" ")
                yield f"{path}: {plural(number, noun)} {what}"
            if coco_file.numbers_of_texts:
                (_, text), number = next(iter(coco_file.numbers_of_texts.items()))
                yield f"{path}: ids are texts, and are stored as numbers, such as {text!r} as {number}"
            folder = self._find_folder(coco_file, split, path)
            yield from join_annotations(coco_file, folder, split or None, image_offset)
            image_offset += len(coco_file.images)

    def _find_folder(self, coco_file: CocoFile, split: str, path: str) -> str:
        """Return the folder of a file's images, relative to the root: the one that holds some of the first images."""
        folders = self._list_candidate_folders(split, path)
        names = [image.name for image in coco_file.images if image.name][:_MAX_PROBED_IMAGES]
        if len(folders) == 1 or not names:
            return folders[0]
        paths = {folder: [storage.join(self.root, join_folder(folder, name)) for name in names] for folder in folders}
        there = [folder for folder in folders if any(map(storage.exists, paths[folder]))]
        if len(there) == 1:
            return there[0]
        searched = [storage.join(self.root, folder) if folder else self.root for folder in there or folders]
        problem = f"--coco {path}: its images, such as {names[0]!r},"
        if not there:
            raise UserError(
                f"{problem} were not found in {', '.join(searched)}; give the folder that holds {names[0]!r}: --input"
                f" FOLDER, or --file_root FOLDER, relative to that of {posixpath.basename(path)}"
            )
        flags = [f"--file_root {posixpath.relpath(folder, posixpath.dirname(path) or '.')}" for folder in searched]
        # With several files, one --file_root would be for all of them
        advice = "move all but one away" if len(self.files) > 1 else f"give {' or '.join(flags)}"
        raise UserError(f"{problem} may be those in {' or in '.join(searched)}; {advice}")

    def _list_candidate_folders(self, split: str, path: str) -> list[str]:
        file_folder = posixpath.dirname(path) or "."
        if self.file_root:
            store, _, inner = file_folder.rpartition("://")
            folder = posixpath.normpath(posixpath.join(inner, self.file_root))
            return [relative_folder(self.root, f"{store}://{folder}" if store else folder)]
        words = posixpath.basename(path).rpartition(".")[0].split("_")  # of person_keypoints_train2017.json
        suffixes = ("_".join(words[start:]) for start in range(1, len(words)))
        inner_names = [name for name in (*suffixes, split) if name]
        inside = ["", *inner_names, "images", *(f"images/{name}" for name in inner_names)]
        starts = [self.root] if self.has_explicit_root else [file_folder, _find_data_folder(path)]
        roots = [relative_folder(self.root, start) for start in starts]
        return list(dict.fromkeys(join_folder(root, name) for root in roots for name in inside))


def join_annotations(
    coco_file: CocoFile, folder: str, split: str | None, image_offset: int
) -> Iterator[inputs.AnnotatedImages | Reject]:
    """Yield a file's images with their objects, in file order, then Rejects for annotations of missing images.

    `folder` is the images' folder, relative to the root; `image_offset` the number of images in earlier files.
    """
    image_ids = np.frombuffer(coco_file.image_ids, np.int64)
    order = np.argsort(image_ids, kind="stable")
    owners = image_ids[order]
    first_of: dict[int, CocoImage] = {}
    for start in range(0, len(coco_file.images), IMAGES_PER_BATCH):
        part = coco_file.images[start : start + IMAGES_PER_BATCH]
        batch_ids = np.array([image.id for image in part], np.int64)
        firsts, lasts = (np.searchsorted(owners, batch_ids, side) for side in ("left", "right"))
        kept, images = [], []
        for index, image in enumerate(part):
            name = join_folder(folder, image.name) if image.name else coco_file.path
            place = image_offset + start + index + 1
            problem = image.problem or _find_duplicate(coco_file, image, first_of)
            if problem := problem or coco_file.problems.get(image.id, ""):
                yield Reject(name, place, "index", problem)
                continue
            kept.append(index)
            shapes = coco_file.join_shapes(image.size, order[firsts[index] : lasts[index]])
            images.append(inputs.AnnotatedImage(name, place, image.size, split=split, id=image.id, shapes=shapes))
        yield inputs.AnnotatedImages(images, _build_objects(coco_file, order, firsts[kept], lasts[kept]))
    yield from _reject_unmatched_annotations(coco_file, owners, order)


def _find_duplicate(coco_file: CocoFile, image: CocoImage, first_of: dict[int, CocoImage]) -> str:
    if (first := first_of.setdefault(image.id, image)) is image:
        return ""
    if first.name == image.name:
        return f"image id {image.id} is twice in {coco_file.path}"
    raise UserError(
        f"--coco {coco_file.path}: {first.name!r} and {image.name!r} both have the id {image.id}, so that its"
        " annotations cannot be assigned; give each image an id of its own"
    )


def _build_objects(
    coco_file: CocoFile, order: NDArray[np.int64], firsts: NDArray[np.int64], lasts: NDArray[np.int64]
) -> pa.ListArray:
    lengths = lasts - firsts
    rows = order[np.repeat(firsts - (np.cumsum(lengths) - lengths), lengths) + np.arange(lengths.sum())]
    x, y, width, height = np.frombuffer(coco_file.boxes, np.float64).reshape(-1, 4)[rows].T
    numbers, labels = np.unique(np.frombuffer(coco_file.category_ids, np.int64)[rows], return_inverse=True)
    names = pa.array([coco_file.categories[number] for number in numbers.tolist()], pa.string())
    ids, areas = np.frombuffer(coco_file.ids, np.int64)[rows], np.frombuffer(coco_file.areas, np.float64)[rows]
    crowds = np.frombuffer(coco_file.crowds, np.int8)[rows] != 0
    label, unknown = names.take(pa.array(labels, pa.int64())), pa.nulls(len(rows))
    columns = [label, y, x, y + height, x + width, ids, areas, crowds, *[unknown] * 3]  # as the fields of Object
    return inputs.build_lists_of_columns(columns, lengths)


def _reject_unmatched_annotations(coco_file: CocoFile, owners: np.ndarray, order: np.ndarray) -> Iterator[Reject]:
    known = {image.id for image in coco_file.images}
    referenced_ids, firsts, counts = np.unique(owners, return_index=True, return_counts=True)
    for image_id, first, count in zip(referenced_ids.tolist(), firsts.tolist(), counts.tolist(), strict=True):
        if image_id not in known:
            first_annotation = f"annotation {coco_file.ids[order[first]]}"
            subject = f"{first_annotation} is" if count == 1 else f"{first_annotation} and {count - 1:,} more are"
            shown = coco_file.show_id(image_id)
            yield Reject(coco_file.path, None, "index", f"{subject} of image {shown}, which is not among the images")
    unknown = sorted(coco_file.problems.keys() - known - set(referenced_ids.tolist()))
    problems = [f"{coco_file.problems[image_id]}; its image {image_id} is not there either" for image_id in unknown]
    for problem in (*problems, *coco_file.faults_without_image):
        yield Reject(coco_file.path, None, "index", problem)


def coco_root(paths: Sequence[str]) -> str:
    """Return the folder that holds the images of COCO files; raise a UserError if they have no folder in common."""
    return common_folder(list(map(_find_data_folder, paths)), "--coco without --input")


def _find_data_folder(path: str) -> str:
    """Return the folder of a COCO file, or the parent of a folder called annotations."""
    folder = posixpath.dirname(path) or "."
    is_for_annotations = posixpath.basename(folder.rstrip("/")).lower() in ("annotations", "annotation")
    return (posixpath.dirname(folder) or ".") if is_for_annotations else folder


def join_folder(folder: str, name: str) -> str:
    """Join a folder, "" for the root, and a name."""
    return f"{folder}/{name}" if folder and name else folder or name


def relative_folder(root: str, folder: str) -> str:
    """Return `folder` relative to `root`, "" for the root itself; raise a UserError if it is not below the root."""
    name = posixpath.relpath(folder, root)
    if name.split("/")[0] == "..":
        raise UserError(f"the images' folder {folder} is not in {root}; give --input, a folder that holds all images")
    return "" if name == "." else name

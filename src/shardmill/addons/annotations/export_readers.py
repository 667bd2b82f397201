"""Read what tools export: LabelMe, the VGG Image Annotator (VIA), CreateML, Label Studio, CSV of boxes, DOTA."""

import base64
import csv
import io
import math
import posixpath
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit

import numpy as np
import orjson
from PIL import Image

from shardmill.errors import UserError
from shardmill.flag_values import quote
from shardmill.metadata.manifest import Reject
from shardmill.text import listed, plural, shorten
from shardmill.transforms.columns.types import preview_value
from shardmill.transforms.inputs.annotations import RELATIVE, Object, is_finite_number
from shardmill.transforms.inputs.folders import IMAGES
from shardmill.transforms.inputs.listing import is_file, read_flag_text
from shardmill.transforms.stores import storage


class ExportedImage(NamedTuple):
    """An image of an export. Objects may lack a class (None); their ids are numbered later."""

    name: str  # file name as the export spells it
    file: str  # path of the annotation file
    objects: list[Object]
    size: tuple[int, int] | None = None  # (width, height) in pixels; None if unknown
    labels: tuple[str, ...] = ()  # classes of the whole image
    subset: str | None = None  # split or folder that the export names; None if it names none
    problem: str = ""  # why an object in it could not be read; "" for none
    boxless: tuple[str, ...] = ()  # kinds of its objects that have no box, such as point


@dataclass(slots=True)
class Export:
    """Everything read from an export, in order."""

    images: list[ExportedImage] = field(default_factory=list)
    rejects: list[Reject] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)
    ignored: Counter[str] = field(default_factory=Counter)  # facts of objects whose boxes are kept
    omitted: Counter[str] = field(default_factory=Counter)  # entries that are no objects, by kind
    class_lists: list[tuple[str, ...]] = field(default_factory=list)  # classes that the export declares, in order


Points = Sequence[tuple[float, float]]


def box_around(label: str | None, points: Points, area: float | None = None, is_crowd: bool = False) -> Object:
    """Return the object whose box is the smallest one around `points`; `area` is the area of the box by default."""
    left, right = min(x for x, _ in points), max(x for x, _ in points)
    top, bottom = min(y for _, y in points), max(y for _, y in points)
    if area is None:
        area = max(right - left, 0.0) * max(bottom - top, 0.0)
    return Object(label, top, left, bottom, right, 0, area, is_crowd)


def _box_of(label: str | None, x: float, y: float, width: float, height: float) -> Object:
    if width < 0 or height < 0:
        raise ValueError(f"a box is {width:g} wide and {height:g} high; expected no negative side")
    return box_around(label, ((x, y), (x + width, y + height)))


def polygon_around(label: str | None, points: Points) -> Object:
    """Return the object with the area of the polygon `points`, and the box around it."""
    following = (*points[1:], points[0])
    twice = sum(x * next_y - next_x * y for (x, y), (next_x, next_y) in zip(points, following, strict=True))
    return box_around(label, points, abs(twice) / 2)


def read_labelme(files: Sequence[str], export: Export, _: str) -> None:
    """Read LabelMe's JSON files, one for each image."""
    for path in files:
        with _rejecting_invalid(export, path, "LabelMe"):
            content = _parse_json("", path, dict, "an object with 'shapes'")
            export.images.append(_labelme_image(path, content, export))


def _labelme_image(path: str, content: Any, export: Export) -> ExportedImage:
    objects, boxless = [], list[str]()
    for shape in content["shapes"]:
        kind, points = shape.get("shape_type") or "polygon", _pairs(shape["points"])
        label = _text(shape["label"], "label")
        if kind == "rectangle" and len(points) == 2:
            objects.append(box_around(label, points))
        elif kind == "mask" and len(points) == 2:  # from its first pixel to its last
            (left, top), (right, bottom) = points
            try:
                pixels = np.asarray(Image.open(io.BytesIO(base64.b64decode(shape["mask"]))))
            except (OSError, SyntaxError) as error:  # of Pillow, for what is no image
                raise ValueError(f"a mask cannot be read: {error}") from None
            objects.append(box_around(label, ((left, top), (right + 1, bottom + 1)), float(np.count_nonzero(pixels))))
        elif kind == "circle" and len(points) == 2:
            radius = math.dist(*points)
            objects.append(_ellipse(label, points[0], radius, radius))
        elif kind in ("polygon", "rectangle", "oriented_rectangle", "rotation") and len(points) > 2:
            objects.append(polygon_around(label, points))
        elif kind in ("line", "linestrip", "point", "points"):
            boxless.append(kind)
            continue
        else:
            raise ValueError(f"a {kind} has {len(points)} points")
        export.ignored[kind] += kind != "rectangle" or len(points) > 2
        export.ignored.update(f"flag {name}" for name, is_set in (shape.get("flags") or {}).items() if is_set)
        export.ignored["group_id"] += shape.get("group_id") is not None
    labels = tuple(name for name, is_set in (content.get("flags") or {}).items() if is_set)
    size = _size(content.get("imageWidth"), content.get("imageHeight"))
    name = _text(content["imagePath"], "imagePath")
    return ExportedImage(name, path, objects, size, labels, boxless=tuple(boxless))


def read_createml(files: Sequence[str], export: Export, _: str) -> None:
    """Read CreateML's JSON files, as Apple defines them: x and y of a box are its centre."""
    for path in files:
        content = _parse_json("createml", path, list | dict, "a list of images")
        for position, item in enumerate(content if isinstance(content, list) else [content], 1):
            with _rejecting_invalid(export, path, "CreateML", position):
                name = _text(item.get("image") or item.get("imagefilename"), "image")
                annotations = item.get("annotations", item.get("annotation"))
                objects, labels = [], []
                for each in annotations if isinstance(annotations, list) else [annotations]:
                    label = _text(each if isinstance(each, str) else each["label"], "label")
                    if isinstance(each, str) or each.get("coordinates") is None:
                        labels.append(label)
                        continue
                    x, y, width, height = _numbers(each["coordinates"], "x", "y", "width", "height")
                    objects.append(_box_of(label, x - width / 2, y - height / 2, width, height))
                export.images.append(ExportedImage(name, path, objects, labels=tuple(labels)))


def read_via(files: Sequence[str], export: Export, attribute: str) -> None:
    """Read projects and exports of VIA 1 and 2, in JSON or CSV; `attribute` holds the class, "" for the only one."""
    entries = [(path, entry) for path in files for entry in _via_entries(path)]
    names = Counter(name for _, entry in entries for region in _regions(entry) for name in _attributes(region))
    attribute = attribute or _class_attribute(names, files[0])
    if names and attribute not in names:
        raise UserError(f"--label_column {attribute}: regions in {files[0]} have attributes {', '.join(sorted(names))}")
    export.ignored.update({f"attribute {name}": count for name, count in names.items() if name != attribute})
    for position, (path, entry) in enumerate(entries, 1):
        with _rejecting_invalid(export, path, "VIA", position):
            objects, boxless = [], list[str]()
            for region in _regions(entry):
                shape = region["shape_attributes"]
                if shape["name"] in ("polyline", "point"):
                    boxless.append(shape["name"])
                else:
                    objects.append(_via_object(shape, _via_label(_attributes(region), attribute), export))
            values = [key for key, value in (entry.get("file_attributes") or {}).items() if value not in ("", {}, None)]
            export.ignored.update(f"attribute {key} of files" for key in values)
            name = _text(entry["filename"], "filename")
            export.images.append(ExportedImage(name, path, objects, boxless=tuple(boxless)))


def _via_entries(path: str) -> list[dict[str, Any]]:
    if path.lower().endswith(".csv"):
        return _via_rows(path)
    content = _parse_json("via", path, dict, "an object of images")
    if isinstance(content.get("metadata"), dict) and "file" in content and "_via_img_metadata" not in content:
        raise UserError(f"--annotations via={path} is a project of VIA 3; open it there and export COCO for --coco")
    images = content.get("_via_img_metadata", content)
    entries = images.values() if isinstance(images, dict) else [images]
    return [entry if isinstance(entry, dict) else {} for entry in entries]


def _via_rows(path: str) -> list[dict[str, Any]]:
    entries: dict[str, dict[str, Any]] = {}
    (_, header), *rows = _read_csv("--annotations", path)
    for row in (dict(zip([header[0].removeprefix("#"), *header[1:]], cells, strict=False)) for _, cells in rows):
        name = row.get("filename", "")
        entry = entries.setdefault(name, {"filename": name, "regions": []})
        try:
            entry["file_attributes"] = orjson.loads(row.get("file_attributes") or "{}")
            if shape := orjson.loads(row["region_shape_attributes"] or "{}"):
                attributes = orjson.loads(row["region_attributes"] or "{}")
                entry["regions"].append({"shape_attributes": shape, "region_attributes": attributes})
        except (KeyError, ValueError):
            entry["regions"] = [{"shape_attributes": None}]
    return list(entries.values())


def _regions(entry: Mapping[str, Any]) -> list[Any]:
    regions = entry.get("regions") or []
    return list(regions.values()) if isinstance(regions, dict) else regions if isinstance(regions, list) else [regions]


def _attributes(region: Mapping[str, Any]) -> dict[str, Any]:
    attributes = region.get("region_attributes") if isinstance(region, dict) else None
    return attributes if isinstance(attributes, dict) else {}


_CLASS_ATTRIBUTES = ("label", "class", "name", "category", "type", "object")


def _class_attribute(names: Mapping[str, int], path: str) -> str:
    if "label" in names:  # the default of --label_column
        return "label"
    found = list(names) if len(names) <= 1 else [name for name in names if name.lower() in _CLASS_ATTRIBUTES]
    if len(names) > 1 and len(found) != 1:
        flags = " or ".join(f"--label_column {quote(name)}" for name in sorted(names))
        raise UserError(f"--annotations via={path}: its regions have several attributes; which is the class? {flags}")
    return found[0] if found else ""


def _via_label(attributes: Mapping[str, Any], attribute: str) -> str | None:
    value = attributes.get(attribute)
    if isinstance(value, dict):  # of a checkbox
        chosen = [name for name, is_set in value.items() if is_set]
        if len(chosen) > 1:
            raise ValueError(f"a region is of {len(chosen)} classes: {listed(chosen, 3)}")
        value = next(iter(chosen), None)
    return None if value in (None, "") else _text(value, attribute).strip()


def _via_object(shape: Mapping[str, Any], label: str | None, export: Export) -> Object:
    kind = shape["name"]
    if kind == "rect":
        return _box_of(label, *_numbers(shape, "x", "y", "width", "height"))
    export.ignored[kind] += 1
    if kind == "polygon":
        xs, ys = shape["all_points_x"], shape["all_points_y"]
        return polygon_around(label, _pairs(list(zip(xs, ys, strict=True))))
    x, y = _numbers(shape, "cx", "cy")
    rx, ry = _numbers(shape, "r", "r") if kind == "circle" else _numbers(shape, "rx", "ry")
    angle = shape.get("theta", 0.0)
    return _ellipse(label, (x, y), rx, ry, angle if is_finite_number(angle) else 0.0)


_STUDIO_SHAPES = ("rectanglelabels", "polygonlabels", "ellipselabels")
_STUDIO_FACTS = ("choices", "datetime", "number", "pairwise", "ranker", "rating", "relation", "taxonomy", "textarea")


def read_label_studio(files: Sequence[str], export: Export, _: str) -> None:
    """Read Label Studio's JSON: boxes in percent of the image, and choices, which are classes of the whole image."""
    for path in files:
        expected = "a list of tasks with 'data'; export JSON, not JSON-MIN, or COCO for --coco"
        content = _parse_json("label_studio", path, list, expected)
        if not all(isinstance(task, dict) and "data" in task for task in content):
            raise UserError(f"--annotations label_studio={path}: expected {expected}")
        for position, task in enumerate(content, 1):
            with _rejecting_invalid(export, path, "Label Studio", position):
                if (image := _studio_image(path, task, export)) is not None:
                    export.images.append(image)


def _studio_image(path: str, task: Mapping[str, Any], export: Export) -> ExportedImage | None:
    """Return the image of a task; None, counted, if nobody has finished the task."""
    name = _studio_name(task["data"])
    export.omitted["prediction"] += len(task.get("predictions") or ())
    given = task.get("annotations", task.get("completions")) or []
    done = [each for each in given if not each.get("was_cancelled")]
    best = [each for each in done if each.get("ground_truth")] or done
    if len(best) > 1:
        raise ValueError(f"{name} has {len(best)} annotations, of several people; mark one as ground truth")
    if not best:
        export.omitted["skipped task" if given else "task without an annotation"] += 1
        return None
    objects, labels, boxless = list[Object](), list[str](), list[str]()
    size = None
    for result in best[0]["result"]:
        value, kind = result.get("value") or {}, result.get("type", "")
        if kind == "choices":
            labels += [_text(choice, "choices") for choice in value["choices"]]
            continue
        size = _size(result.get("original_width"), result.get("original_height")) or size
        if kind in _STUDIO_FACTS:
            export.omitted[kind] += 1
            continue
        if kind not in _STUDIO_SHAPES:
            boxless.append(kind or "result")
            continue
        if size is None:
            raise ValueError(f"{name} has no original_width and original_height, which its percentages are of")
        names = value.get(kind) or [None]
        if len(names) > 1:
            raise ValueError(f"an object in {name} is of {len(names)} classes: {listed(names, 3)}")
        objects.append(_studio_box(kind.removesuffix("labels"), value, names[0], size, export))
    return ExportedImage(name, path, objects, size, tuple(labels), boxless=tuple(boxless))


def _studio_box(kind: str, value: Mapping[str, Any], name: str | None, size: tuple[int, int], export: Export) -> Object:
    """Return an object of Label Studio's of the class `name`; a rectangle is turned about its upper left corner."""
    across, down = size[0] / 100, size[1] / 100
    if kind == "polygon":
        export.ignored[kind] += 1
        return polygon_around(name, [(x * across, y * down) for x, y in _pairs(value["points"])])
    x, y = _numbers(value, "x", "y")
    x, y = x * across, y * down
    angle = math.radians(float(value.get("rotation") or 0.0))
    export.ignored["rotation"] += bool(angle)
    if kind == "ellipse":
        export.ignored[kind] += 1
        rx, ry = _numbers(value, "radiusX", "radiusY")
        return _ellipse(name, (x, y), rx * across, ry * down, angle)
    width, height = _numbers(value, "width", "height")
    width, height = width * across, height * down
    if not angle:
        return _box_of(name, x, y, width, height)
    cos, sin = math.cos(angle), math.sin(angle)
    corners = [(right, lower) for right in (0.0, width) for lower in (0.0, height)]
    turned = [(x + right * cos - lower * sin, y + right * sin + lower * cos) for right, lower in corners]
    return box_around(name, turned, width * height)


def _studio_name(data: Mapping[str, Any]) -> str:
    """Return the file name of a task's image, without the address that Label Studio serves it from."""
    found = [value for key, value in sorted(data.items()) if isinstance(value, str) and "image" in key.lower()]
    found = found or [value for _, value in sorted(data.items()) if isinstance(value, str) and "/" in value]
    if not found:
        raise ValueError(f"its data names no image: {preview_value(dict(data))}")
    address = urlsplit(found[0])
    if local := parse_qs(address.query).get("d"):
        return local[0]
    path = unquote(address.path)
    return posixpath.basename(path) if address.scheme or path.startswith("/data/") else path


# Names of columns of tables of boxes, in small letters and without marks
_BOX_NAMES = {
    "file": "filename imageid image imagename imagepath imagefilename path file img imageindex",
    "label": "class label labelname classname category categoryname name classid findinglabel",
    "split": "split subset set",
    "left": "xmin x1 left bboxxmin bboxx1 roix1",
    "top": "ymin y1 top bboxymin bboxy1 roiy1",
    "right": "xmax x2 right bboxxmax bboxx2 roix2",
    "bottom": "ymax y2 bottom bboxymax bboxy2 roiy2",
    "x": "x bboxx xmin x1 left",
    "y": "y bboxy ymin y1 top",
    "width": "w bboxwidth bboxw boxwidth width",
    "height": "h bboxheight bboxh boxheight height",
    "box": "bbox box",
    "is_crowd": "isgroupof iscrowd",
    "image_width": "imagewidth imgwidth imagew width",
    "image_height": "imageheight imgheight imageh height",
}
_SHAPES = (("left", "top", "right", "bottom"), ("x", "y", "width", "height"), ("box",))  # columns that make a box
# Of tables without a header: github.com/fizyr/keras-retinanet has six of these columns, SKU-110K all
_UNNAMED = ["filename", "x1", "y1", "x2", "y2", "class", "image_width", "image_height"]
CLASS_NAMES = "class-descriptions-boxable.csv"  # of Open Images, next to its tables: id and name in each line


def read_boxes_csv(files: Sequence[str], export: Export, attribute: str) -> None:
    """Read tables of boxes, fractions of images if no coordinate is above 1; `attribute` is the column of classes."""
    beside = {storage.join(posixpath.dirname(path) or ".", CLASS_NAMES) for path in files}
    names = read_class_names("--boxes_csv", filter(is_file, beside))
    for path in files:
        rows = [(line, [*map(str.strip, row)]) for line, row in _read_csv("--boxes_csv", path, ",;\t")]
        (_, header), *records = rows
        if IMAGES.accepts(f"/{header[0]}"):
            if len(header) not in (6, 8) or not all(re.fullmatch(r"(\d+(\.\d*)?)?", cell) for cell in header[1:5]):
                raise UserError(
                    f"--boxes_csv {path}: its first line is no header, but a row: {', '.join(header)}; write the names"
                    f" of the columns above it, such as {','.join(_UNNAMED[:6])}"
                )
            header, records = _UNNAMED[: len(header)], rows
            export.notices.append(f"{path} has no header: its columns are {', '.join(header)}")
        columns, shape = _find_box_columns(header, path, attribute)
        named, largest = set(columns.values()), 0.0
        images: dict[str, ExportedImage] = {}
        for line, row in records:
            cells = dict(zip(header, row, strict=False))
            if not (name := cells.get(columns["file"])):
                export.rejects.append(Reject(path, line, "index", "the row has no file name"))
                continue
            sides = [cells.get(columns.get(side, "")) or "0" for side in ("image_width", "image_height")]
            size = _size(*(float(side) if side.replace(".", "", 1).isdecimal() else 0 for side in sides))
            split = cells.get(columns.get("split", "")) or None
            image = images.setdefault(name, ExportedImage(name, path, [], size, subset=split))
            try:
                if len(row) != len(header):
                    raise ValueError(f"the row has {plural(len(row), 'cell')}, the table {len(header)} columns")
                if box := _parse_box(cells, columns, shape):
                    is_crowd = cells.get(columns.get("is_crowd", "")) in ("1", "true", "True")
                    if not (label := cells.get(columns["label"])):
                        raise ValueError("the row has no class")
                    image.objects.append(_box_of(names.get(label, label), *box)._replace(is_crowd=is_crowd))
                    largest = max(largest, *map(abs, image.objects[-1][1:5]))
            except ValueError as error:
                images[name] = image._replace(problem=image.problem or f"{path}, line {line}: {error}")
            values = ((column, cells[column]) for column in cells.keys() - named)
            export.ignored.update(f"column {column}" for column, value in values if value not in ("", "0"))
        if is_relative := 0 < largest <= 1:
            export.notices.append(f"no coordinate in {path} is above 1: boxes are fractions of their images")
        export.images += [each._replace(size=RELATIVE) if is_relative else each for each in images.values()]


def read_class_names(flag: str, paths: Iterable[str]) -> dict[str, str]:
    """Return the names of Open Images' classes for their ids, such as /m/01yrx, from files with both in each line."""
    rows = [(path, *numbered) for path in sorted(paths) for numbered in _read_csv(flag, path)]
    for path, line, row in rows:
        if len(row) != 2:
            raise UserError(f"{flag}: {path}, line {line}, has {plural(len(row), 'cell')}; expected an id and a name")
    return {class_id: name for _, _, (class_id, name) in rows}


def _find_box_columns(header: Sequence[str], path: str, label: str) -> tuple[dict[str, str], tuple[str, ...]]:
    """Return the columns of a table of boxes by what they hold, and which of them make a box; UserError if unknown."""
    plain = {re.sub(r"[^a-z0-9]", "", name.lower()): name for name in reversed(header)}
    usual = [(what, name) for what, names in _BOX_NAMES.items() for name in reversed(names.split())]
    known = {what: plain[name] for what, name in usual if name in plain}
    if label:
        known["label"] = label
    shape = next((shape for shape in _SHAPES if all(what in known for what in shape)), ())
    lacking = [what for what in ("file", "label") if known.get(what) not in header]
    if lacking or not shape:
        expected = {"file": "filename", "label": "class (or --label_column)"}
        words = [expected[what] for what in lacking] + ([] if shape else ["xmin, ymin, xmax, ymax, or bbox"])
        raise UserError(f"--boxes_csv {path}: expected the columns {', '.join(words)}; it has {', '.join(header)}")
    rest = {what for other in _SHAPES for what in other} - {*shape}
    used = {known[what] for what in shape}
    return {key: name for key, name in known.items() if key not in rest and (key in shape or name not in used)}, shape


def _parse_box(cells: Mapping[str, str], columns: Mapping[str, str], shape: tuple[str, ...]) -> Sequence[float]:
    """Return left, top, width, height of a row's box; () for a row without a box. A faulty number is a ValueError."""
    values = [cells.get(columns[what]) or "" for what in shape]
    if len(shape) == 1:
        values = re.findall(r"[^\s,;\[\]()]+", values[0])
    if not any(values):
        return ()
    with suppress(ValueError):
        x, y, right, bottom = numbers = [float(value) for value in values]
        if all(map(math.isfinite, numbers)):
            return (x, y, right - x, bottom - y) if shape[0] == "left" else numbers
    raise ValueError(f"a box is {', '.join(values)}; expected four numbers")


_DOTA_LINE = re.compile(r"((?:-?\d+(?:\.\d*)?(?:e[-+]?\d+)?\s+){8})(\S+)(?:\s+([0-2]))?")
_DOTA_WORDS = "expected x and y of four corners, a class, and a difficulty of 0, 1 or 2"


def read_dota(files: Sequence[str], export: Export, _: str) -> None:
    """Read DOTA's text files, one for each image, whose lines are objects; a difficulty may be left out."""
    for path in files:
        objects, problem = list[Object](), ""
        for number, line in enumerate(map(str.strip, read_flag_text("--annotations", path).split("\n")), 1):
            if found := _DOTA_LINE.fullmatch(line):
                numbers = list(map(float, found[1].split()))
                objects.append(polygon_around(found[2], list(zip(numbers[::2], numbers[1::2], strict=True))))
                export.ignored["attribute difficulty"] += found[3] not in (None, "0")
            elif line and not line.startswith(("imagesource:", "gsd:")):
                problem = problem or f"{path}, line {number}, is {shorten(line)!r}; {_DOTA_WORDS}"
        export.ignored["polygon"] += len(objects)
        export.images.append(ExportedImage(posixpath.basename(path)[: -len(".txt")], path, objects, problem=problem))


# Formats that are read here: the function, the suffixes of the files, and the flags that have an effect on some formats
READERS: dict[str, tuple[Callable[[Sequence[str], Export, str], None], tuple[str, ...], tuple[str, ...]]] = {
    "labelme": (read_labelme, ("json",), ("unread_objects",)),
    "via": (read_via, ("json", "csv"), ("label_column", "unread_objects")),
    "createml": (read_createml, ("json",), ()),
    "label_studio": (read_label_studio, ("json",), ("unread_objects",)),
    "boxes_csv": (read_boxes_csv, ("csv", "tsv"), ("label_column",)),
    "dota": (read_dota, ("txt",), ()),
}


def _ellipse(label: str | None, centre: tuple[float, float], rx: float, ry: float, angle: float = 0.0) -> Object:
    half_width = math.hypot(rx * math.cos(angle), ry * math.sin(angle))
    half_height = math.hypot(rx * math.sin(angle), ry * math.cos(angle))
    x, y = centre
    corners = [(x - half_width, y - half_height), (x + half_width, y + half_height)]
    return box_around(label, corners, math.pi * rx * ry)


def _parse_json(format_: str, path: str, kind: Any, expected: str) -> Any:
    """Return the value in a file of JSON; raise a UserError if it is not of this kind, with the flag of a format."""
    text = read_flag_text("--annotations", path)
    try:
        if isinstance(content := orjson.loads(text), kind):
            return content
        problem = f"it holds {preview_value(content)}"
    except ValueError as error:
        problem = f"it is not JSON: {error}"
    raise UserError(f"{format_ and f'--annotations {format_}={path}: '}{problem}; expected {expected}")


def _read_csv(flag: str, path: str, delimiters: str = ",") -> list[tuple[int, list[str]]]:
    """Return a CSV file's rows, at least one, without empty lines, and their lines; UserError if it is no text."""
    text = read_flag_text(flag, path)
    delimiter = max(delimiters, key=text.partition("\n")[0].count)
    csv.field_size_limit(1 << 30)  # characters of a cell: polygons of VIA may have many corners
    rows = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    return [(rows.line_num, row) for row in rows if row] or [(1, [""])]


@contextmanager
def _rejecting_invalid(export: Export, path: str, tool: str, position: int | None = None) -> Iterator[None]:
    """Within this context, an error in an entry of an annotation file becomes a reject of the export."""
    try:
        yield
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        odd = "" if isinstance(error, ValueError) else "a value in it is of another kind: "
        words = "it has no " if isinstance(error, KeyError) else odd
        export.rejects.append(Reject(path, position, "index", f"no annotation of {tool}'s: {words}{error}"))


def _numbers(values: Mapping[str, Any], *names: str) -> Iterator[float]:
    for name in names:
        if not is_finite_number(values[name]):
            raise ValueError(f"{name} is {preview_value(values[name])}; expected a number")
        yield float(values[name])


def _pairs(points: Sequence[Any]) -> list[tuple[float, float]]:
    if odd := [each for each in points if len(each) != 2 or not all(map(is_finite_number, each))]:
        raise ValueError(f"a point is {preview_value(odd[0])}; expected x and y")
    return [(float(x), float(y)) for x, y in points]


def _size(width: Any, height: Any) -> tuple[int, int] | None:
    return (int(width), int(height)) if all(is_finite_number(side) and side >= 1 for side in (width, height)) else None


def _text(value: Any, name: str) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int) or value == "":
        raise ValueError(f"{name} is {shorten(preview_value(value))}; expected a text")
    return str(value)

"""Read YOLO annotations: a text file for each image, and class names and splits from data.yaml."""

import os
import posixpath
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
import yaml

from shardmill.errors import UserError
from shardmill.metadata.manifest import Reject
from shardmill.text import plural, shorten
from shardmill.transforms.columns.types import preview_value
from shardmill.transforms.inputs import annotations as inputs
from shardmill.transforms.inputs.folders import IMAGES
from shardmill.transforms.inputs.listing import read_flag_text, report_unreadable_flag_file
from shardmill.transforms.inputs.summary import InputSummary
from shardmill.transforms.stores import storage

_SPLITS = ("train", "val", "test")


@dataclass(frozen=True, slots=True)
class DataYaml:
    """The contents of a data.yaml, see docs.ultralytics.com/datasets."""

    names: tuple[str, ...]  # class names by id
    has_ids: bool  # True if the names are given with their ids
    splits: Mapping[str, tuple[str, ...]]  # folders or lists of images by split
    folder: str  # base folder of these; "" for the folder of data.yaml
    points: int | None = None  # numbers of an object's key points, product of `kpt_shape`; None if it is not given


def read_data_yaml(path: str) -> DataYaml:
    """Read a data.yaml; raise a UserError if there is no such file, or it is invalid."""
    with report_unreadable_flag_file("--yolo", path):
        data = storage.read_bytes(path)
    try:
        content = yaml.safe_load(data)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise UserError(f"--yolo {path} is not YAML: {' '.join(str(error).split())}") from None
    if not isinstance(content, dict):
        raise UserError(f"--yolo {path}: expected names: and train:, val: or test:, and found {preview_value(content)}")
    splits = {name: _parse_entries(content[name], name, path) for name in _SPLITS if content.get(name)}
    if not splits:
        raise UserError(f"--yolo {path} names no images: expected train:, val: or test:")
    # As they are spelled: to YAML, a class called no is False, and one called 010 is 8
    spelled = yaml.load(data, yaml.BaseLoader).get("names")
    names = _parse_names(spelled, path)
    if (number := content.get("nc", len(names))) != len(names):
        raise UserError(f"--yolo {path}: nc is {preview_value(number)}, and there are {len(names)} names; correct one")
    points = _parse_points(content.get("kpt_shape"), path)
    return DataYaml(names, isinstance(spelled, dict), splits, str(content.get("path") or ""), points)


def _parse_entries(value: Any, name: str, path: str) -> tuple[str, ...]:
    entries = value if isinstance(value, list) else [value]
    if not all(isinstance(entry, str) for entry in entries):
        raise UserError(f"--yolo {path}: {name} is {preview_value(value)}; expected a folder, some, or a .txt file")
    return tuple(entries)


def _parse_names(value: Any, path: str) -> tuple[str, ...]:
    ids = [str(index) for index in range(len(value))] if isinstance(value, dict) else []
    if ids and set(value) == set(ids):
        value = [value[index] for index in ids]
    if not isinstance(value, list) or not value or not all(isinstance(name, str) and name for name in value):
        raise UserError(f"--yolo {path}: names is {preview_value(value)}; expected the names of the classes, from id 0")
    return tuple(value)


def _parse_points(value: Any, path: str) -> int | None:
    if value is None:
        return None
    if not (isinstance(value, list) and len(value) == 2 and all(type(each) is int and each >= 0 for each in value)):
        expected = "expected the number of key points, and 2 or 3"
        raise UserError(f"--yolo {path}: kpt_shape is {preview_value(value)}; {expected}")
    return int(value[0] * value[1])


_FILE = "data.yaml"
_LIST = ".txt"
_WORDS_OF_A_BOX = 5  # in a line: the class, the centre's two coordinates, width and height
_POLYGON = "the corners of a polygon"  # of which the box around it is kept
_POINTS = "key points"
_BEYOND = f"is of class {{}}; {_FILE} names {{}}, from 0"
_TOOL_FILES = ("classes.txt", "notes.txt")  # what tools write into the folder of annotations


@dataclass(frozen=True, slots=True)
class YoloSource(inputs.AnnotationFileSource):
    """The YOLO data set that a data.yaml describes.

    See docs.ultralytics.com/datasets/detect. A line is `class x_center y_center width height`, as fractions of the
    image. A line with the corners of a polygon, as for segmentation, is converted to the polygon's bounding box. If
    data.yaml has a `kpt_shape`, as for poses, key points follow the box.
    """

    members: ClassVar[tuple[inputs.ObjectField, ...]] = ("bbox", "label")

    path: str  # of data.yaml
    root: str  # folder of data.yaml, which names are relative to
    masks: str | None = None  # folder of masks, or None
    names: tuple[str, ...] = ()  # class names, set by `prepare`
    points: int | None = None  # as in DataYaml, set by `prepare`

    def list_extra_files(self) -> Iterator[str]:
        yield self.path
        described = read_data_yaml(self.path)
        folder = self._find_folder(described)
        for entry in (entry for entries in described.splits.values() for entry in entries):
            if entry.endswith(_LIST):
                yield self._find_path(self._resolve_entry(folder, entry))

    def list_images(self) -> Iterator[inputs.AnnotatedImages | inputs.ListedImage | InputSummary | Reject | str]:
        described = read_data_yaml(self.path)
        yield InputSummary(class_lists={described.names: (1, self.path)})
        folder = self._find_folder(described)
        files = set(inputs.list_files_below(self.root, self.masks))
        place, bare = 0, list[inputs.AnnotatedImage]()
        wanted = set[str]()
        for split, entries in described.splits.items():
            for image in self._list_images(entries, folder, files):
                place += 1
                if _is_outside(image):
                    yield Reject(image, place, "index", f"does not lie in {self.root}, the folder of {_FILE}")
                    continue
                annotation = label_file(image)
                wanted.add(annotation)
                if annotation in files:
                    yield inputs.ListedImage(image, annotation, place, split)
                else:
                    bare.append(inputs.AnnotatedImage(image, place, inputs.RELATIVE, (), split))
        if bare and len(bare) == place:
            raise UserError(
                f"--yolo {self.path}: no image has a file of annotations; that of {bare[0].name!r} was looked for at"
                f" {self._find_path(label_file(bare[0].name))}"
            )
        folders = {posixpath.dirname(name) for name in wanted}
        texts = {name for name in files - wanted if name.lower().endswith(_LIST) and posixpath.dirname(name) in folders}
        unused = sorted(name for name in texts if posixpath.basename(name) not in _TOOL_FILES)
        if bare:
            lacking = plural(len(bare), "image has", "images have")
            lacking += f" no file of annotations, such as {bare[0].name!r}"
            if unused:
                raise UserError(
                    f"--yolo {self.path}: {lacking}, and no image belongs to {unused[0]!r}; call it as its image, such"
                    f" as {label_file(bare[0].name)!r}, or move it out of its folder"
                )
            yield inputs.AnnotatedImages(bare, inputs.build_object_lists([()] * len(bare)))
            yield f"{lacking}, and so no objects, as YOLO takes it"
        yield from (Reject(name, None, "index", "there is no image to these annotations") for name in unused)

    def prepare(self) -> Self:
        described = read_data_yaml(self.path)
        return replace(self, names=described.names, points=described.points)

    def parse_annotation(self, data: bytes, listed_image: inputs.ListedImage) -> inputs.AnnotatedImage | Reject:
        image, annotation, position, split = listed_image
        try:
            lines = enumerate(data.decode("utf-8-sig").split("\n"), 1)
            words = [(line.split(), number) for number, line in lines if line.strip()]
            objects = [_parse_object(line, number, self.names, self.points) for line, number in words]
        except ValueError as error:
            return Reject(annotation, None, "index", f"no annotation of YOLO's: {error}")
        longer = (list(map(float, line[1:])) for line, _ in words if len(line) > _WORDS_OF_A_BOX)
        ignored = [_POINTS if self.points else _describe_polygon(numbers, self.points) for numbers in longer]
        return inputs.AnnotatedImage(image, position, inputs.RELATIVE, objects, split, ignored_properties=ignored)

    def check_summary(self, summary: InputSummary) -> list[str]:
        shapes = [name for name in summary.ignored_properties if name.startswith(_POLYGON)]
        if len(shapes) == 1 and shapes != [_POLYGON]:
            raise UserError(
                f"--yolo {self.path}: {plural(summary.ignored_properties[shapes[0]], 'object')} may have {shapes[0]};"
                f" give this kpt_shape in {_FILE}, or kpt_shape: [0, 2] if they are polygons"
            )
        names = next(iter(summary.class_lists))
        found = f"no object has the class id 0, {names[0]!r}, and"
        from_1 = f"write names as 0: none, 1: {names[0]}, and so on"
        if summary.objects[names[0]]:
            return []
        if any(_BEYOND.format(*[len(names)] * 2) in reason for reason in summary.reasons):
            raise UserError(f"--yolo {self.path}: {found} some have {len(names)}; begin ids at 0, or {from_1}")
        if not (seen := sum(summary.objects[name] for name in names[1:2])) or read_data_yaml(self.path).has_ids:
            return []
        return [
            f"{found} {plural(seen, 'object has', 'objects have')} 1, {names[1]!r}: if ids begin at 1, all classes are"
            f" wrong: {from_1}; if they begin at 0, write 0: {names[0]}, 1: {names[1]}, and so on"
        ]

    def _find_folder(self, described: DataYaml) -> str:
        first = next(iter(described.splits.values()))[0]
        for folder_name in [described.folder, ""] if described.folder else [""]:
            folder = self._make_relative("", folder_name)
            if not _is_outside(folder) and self._is_there(self._resolve_entry(folder, first)):
                return folder
        raise UserError(
            f"--yolo {self.path}: there is no {first!r} in {self.root}"
            + (f", nor in its 'path', {described.folder!r}, as far as that lies there" if described.folder else "")
            + f"; move {_FILE} next to the images"
        )

    def _list_images(self, entries: tuple[str, ...], folder: str, files: set[str]) -> Iterator[str]:
        for entry in entries:
            name = self._resolve_entry(folder, entry)
            if name.endswith(_LIST):
                base, path = posixpath.dirname(name), self._find_path(name)
                for line in filter(None, map(str.strip, read_flag_text(f"--yolo {self.path}:", path).split("\n"))):
                    yield self._make_relative(base if line.startswith("./") else folder, line)
            else:
                inside = storage.join(name, "") if name else ""
                found = sorted(file for file in files if file.startswith(inside) and IMAGES.accepts(file))
                if not found:
                    where = f"{self._find_path(name)}; take this line out of the file if there is no such split"
                    raise UserError(f"--yolo {self.path}: there are no images in {where}")
                yield from found

    def _resolve_entry(self, folder: str, entry: str) -> str:
        name, inner = self._make_relative(folder, entry), entry.removeprefix("../")
        if inner != entry and (_is_outside(name) or not self._is_there(name)):
            other = self._make_relative(folder, inner)
            return other if _is_outside(name) or self._is_there(other) else name
        return name

    def _is_there(self, name: str) -> bool:
        return not _is_outside(name) and (
            storage.exists(self._find_path(name)) or any(True for _ in storage.list_files(self._find_path(name)))
        )

    def _find_path(self, name: str) -> str:
        return storage.join(self.root, name) if name else self.root

    def _make_relative(self, folder: str, entry: str) -> str:
        """Return an entry of data.yaml relative to the root; one outside stays absolute or begins with ".."."""
        if "://" in entry or posixpath.isabs(entry):
            root = os.path.abspath(self.root) if storage.is_local(self.root) else self.root
            path = posixpath.normpath(entry) if "://" not in entry else entry
            return "" if path == root else path.removeprefix(storage.join(root, ""))
        name = posixpath.normpath(posixpath.join(folder, entry))
        return "" if name == "." else name


def _is_outside(name: str) -> bool:
    return name.startswith(("/", "../")) or name == ".." or "://" in name


def label_file(image: str) -> str:
    """Return the name of an image's annotation file: `labels` in place of the last folder `images`, and suffix .txt."""
    folders, found, rest = f"/{image}".rpartition("/images/")
    name = f"{folders}/labels/{rest}".removeprefix("/") if found else image
    return f"{name.rpartition('.')[0]}{_LIST}"


def _describe_polygon(numbers: list[float], points: int | None) -> str:
    """Return what the numbers of a line are, with the kpt_shape that they would have if they were key points."""
    for size in (2, 3) if points is None else ():
        if (len(numbers) - 4) % size == 0:
            found, (x, y, width, height) = np.reshape(numbers[4:], (-1, size)), numbers[:4]
            inside = (abs(found[:, :2] - (x, y)) <= (width / 2, height / 2)).all()
            if inside if size == 2 else set(numbers[6::3]) <= {0, 1, 2}:
                return f"{_POLYGON} or key points of kpt_shape: [{len(found)}, {size}]"
    return _POLYGON


def _parse_object(words: list[str], number: int, names: tuple[str, ...], points: int | None) -> inputs.Object:
    try:
        index, *numbers = int(words[0]), *map(float, words[1:])
    except ValueError:
        raise ValueError(f"line {number} holds {shorten(' '.join(words))!r}; expected an id and numbers") from None
    if not 0 <= index < len(names):
        raise ValueError(f"line {number} {_BEYOND.format(index, len(names))}")
    if len(numbers) in (4, 4 + (points or 0)):
        x, y, width, height = numbers[:4]
        return inputs.Object(names[index], y - height / 2, x - width / 2, y + height / 2, x + width / 2, number)
    if not points and (len(numbers) == 5 or (len(numbers) == 6 and words[-1].isdecimal() and numbers[-1])):
        what = "a confidence" if len(numbers) == 5 else "a confidence and a track"
        raise ValueError(f"line {number} looks like a prediction, a box with {what}; keep the first five words of each")
    if len(numbers) % 6 == 1 and set(numbers[6::3]) <= {0, 1, 2} and not points:  # x, y and visibility of each point
        raise ValueError(f"line {number} looks like a box with key points; give their number as kpt_shape in {_FILE}")
    if points or len(numbers) < 6 or len(numbers) % 2:
        other = f"{4 + points} with its key points" if points else "the corners of a polygon"
        raise ValueError(f"line {number} has {len(numbers)} numbers; expected 4 of a box, or {other}")
    xs, ys = numbers[::2], numbers[1::2]
    return inputs.Object(names[index], min(ys), min(xs), max(ys), max(xs), number)

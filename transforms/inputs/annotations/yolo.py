"""YOLO's annotations: a text file for each image, a line an object, and data.yaml with the names of all classes.

See docs.ultralytics.com/datasets/detect: a line is `class x_center y_center width height`, fractions of the picture;
one with the corners of a polygon, as for segmentation, stands for the box around it. Where data.yaml has
a `kpt_shape`, as for poses, key points follow the box.
"""

import os
import posixpath
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar, Self

from shardmill.errors import UserError
from shardmill.metadata.rejects import Reject
from shardmill.printable import beginning
from shardmill.transforms.inputs.annotations.data_yaml import Described, describe
from shardmill.transforms.inputs.annotations.objects import (
    RELATIVE,
    Annotated,
    AnnotatedFiles,
    Member,
    Object,
    object_lists,
)
from shardmill.transforms.inputs.annotations.source import Categories, Listed, Notice, files_below
from shardmill.transforms.inputs.file_kind import IMAGES
from shardmill.transforms.stores import storage

_FILE = "data.yaml"
_LIST = ".txt"
_WORDS_OF_A_BOX = 5  # in a line: the class, the centre's two coordinates, width and height
_POLYGON = "the corners of a polygon"  # of which the box around it is kept
_POINTS = "key points"
_BESIDE = ("classes.txt", "notes.txt")  # what tools write into the folder of annotations


@dataclass(frozen=True, slots=True)
class YoloSource:
    """What a data.yaml describes.

    Attributes:
      path: of it.
      root: the folder that names are relative to: its own.
      masks: the folder of the images' masks, if they have any.
      names: of the classes, once it is opened.
      points: how many numbers of key points each object has, likewise.
    """

    members: ClassVar[tuple[Member, ...]] = ("bbox", "label")
    columns: ClassVar[tuple[str, ...]] = ()

    path: str
    root: str
    masks: str | None = None
    names: tuple[str, ...] = ()
    points: int = 0

    def beside(self) -> Iterator[str]:
        """As the protocol says."""
        yield self.path
        described = describe(self.path)
        folder = self._folder(described)
        for entry in (entry for entries in described.splits.values() for entry in entries):
            if entry.endswith(_LIST):
                yield self._path(self._found(folder, entry))

    def listed(self) -> Iterator[AnnotatedFiles | Listed | Categories | Notice | Reject]:
        """As the protocol says."""
        described = describe(self.path)
        yield Categories(described.names, self.path)
        folder = self._folder(described)
        files = set(files_below(self.root, self.masks))
        place, bare = 0, list[Annotated]()
        wanted = set[str]()
        for split, entries in described.splits.items():
            for image in self._images(entries, folder, files):
                place += 1
                if _is_elsewhere(image):
                    yield Reject(image, place, "index", f"does not lie in {self.root}, the folder of {_FILE}")
                    continue
                annotation = label_file(image)
                wanted.add(annotation)
                if annotation in files:
                    yield Listed(image, annotation, place, split)
                else:
                    bare.append(Annotated(image, place, RELATIVE, (), split))
        if bare:
            yield AnnotatedFiles(bare, object_lists([()] * len(bare)))
            yield Notice(
                f"{len(bare):,} image{' has' if len(bare) == 1 else 's have'} no file of annotations, such as"
                f" {bare[0].name!r}, and so no objects, as YOLO takes it"
            )
        folders = {posixpath.dirname(name) for name in wanted}
        for name in sorted(files - wanted):
            if name.endswith(_LIST) and posixpath.dirname(name) in folders and posixpath.basename(name) not in _BESIDE:
                yield Reject(name, None, "index", "there is no image to these annotations")

    def opened(self) -> Self:
        """As the protocol says."""
        described = describe(self.path)
        return replace(self, names=described.names, points=described.points)

    def parsed(self, data: bytes, listed: Listed) -> Annotated | Reject:
        """As the protocol says."""
        try:
            lines = enumerate(data.decode("utf-8-sig").split("\n"), 1)
            words = [(line.split(), number) for number, line in lines if line.strip()]
            objects = [_object(line, number, self.names, self.points) for line, number in words]
        except ValueError as error:
            return Reject(listed.annotation, None, "index", f"no annotation of YOLO's: {error}")
        left_out = [_POINTS if self.points else _POLYGON for line, _ in words if len(line) > _WORDS_OF_A_BOX]
        return Annotated(listed.image, listed.place, RELATIVE, objects, listed.split, left_out=left_out)

    def _folder(self, described: Described) -> str:
        """The folder that the splits are named from, as seen from the root."""
        first = next(iter(described.splits.values()))[0]
        for named in [described.folder, ""] if described.folder else [""]:
            folder = self._name("", named)
            if not _is_elsewhere(folder) and self._is_there(self._found(folder, first)):
                return folder
        raise UserError(
            f"--yolo {self.path}: there is no {first!r} in {self.root}"
            + (f", nor in its 'path', {described.folder!r}, as far as that lies there" if described.folder else "")
            + f"; move {_FILE} beside the images"
        )

    def _images(self, entries: tuple[str, ...], folder: str, files: set[str]) -> Iterator[str]:
        """The images of a split, by name."""
        for entry in entries:
            name = self._found(folder, entry)
            if name.endswith(_LIST):
                base = posixpath.dirname(name)
                lines = storage.read_bytes(self._path(name)).decode("utf-8-sig").split("\n")
                for line in filter(None, map(str.strip, lines)):
                    yield self._name(base if line.startswith("./") else folder, line)
            else:
                inside = storage.join(name, "") if name else ""
                found = sorted(file for file in files if file.startswith(inside) and IMAGES.accepts(file))
                if not found:
                    raise UserError(f"--yolo {self.path}: there are no images in {self._path(name)}")
                yield from found

    def _found(self, folder: str, entry: str) -> str:
        """What data.yaml calls `entry`, as seen from the root: `../train` is `train` where there is no other, as
        Ultralytics has it."""
        name, inner = self._name(folder, entry), entry.removeprefix("../")
        if inner != entry and (_is_elsewhere(name) or not self._is_there(name)):
            other = self._name(folder, inner)
            return other if _is_elsewhere(name) or self._is_there(other) else name
        return name

    def _is_there(self, name: str) -> bool:
        return not _is_elsewhere(name) and (
            storage.exists(self._path(name)) or any(True for _ in storage.list_files(self._path(name)))
        )

    def _path(self, name: str) -> str:
        return storage.join(self.root, name) if name else self.root

    def _name(self, folder: str, entry: str) -> str:
        """A file or folder as seen from the root; as it is, or with ".." before, where it lies elsewhere."""
        if "://" in entry or posixpath.isabs(entry):
            root = os.path.abspath(self.root) if storage.is_local(self.root) else self.root
            path = posixpath.normpath(entry) if "://" not in entry else entry
            return "" if path == root else path.removeprefix(storage.join(root, ""))
        name = posixpath.normpath(posixpath.join(folder, entry))
        return "" if name == "." else name


def _is_elsewhere(name: str) -> bool:
    return name.startswith(("/", "../")) or name == ".." or "://" in name


def yolo_root(path: str) -> str:
    """The folder that a data.yaml lies in."""
    return posixpath.dirname(path) or "."


def label_file(image: str) -> str:
    """The name of an image's annotations: `labels` in place of the last folder `images`, and .txt."""
    folders, _, rest = image.rpartition("images/")
    if folders and not folders.endswith("/"):
        folders, rest = "", image
    return f"{(f'{folders}labels/{rest}' if rest != image else image).rpartition('.')[0]}{_LIST}"


def _object(words: list[str], number: int, names: tuple[str, ...], points: int) -> Object:
    try:
        index, *numbers = int(words[0]), *map(float, words[1:])
    except ValueError:
        raise ValueError(f"line {number} holds {beginning(' '.join(words))!r}; expected an id and numbers") from None
    if not 0 <= index < len(names):
        raise ValueError(f"line {number} is of class {index}; {_FILE} names {len(names)}")
    if len(numbers) in (4, 4 + points):
        x, y, width, height = numbers[:4]
        return Object(names[index], y - height / 2, x - width / 2, y + height / 2, x + width / 2, number)
    if points or len(numbers) < 6 or len(numbers) % 2:
        other = f"{4 + points} with its key points" if points else "the corners of a polygon"
        raise ValueError(f"line {number} has {len(numbers)} numbers; expected 4 of a box, or {other}")
    return Object(names[index], min(numbers[1::2]), min(numbers[::2]), max(numbers[1::2]), max(numbers[::2]), number)

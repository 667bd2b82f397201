"""YOLO's annotations: a text file for each image, a line an object, and data.yaml with the names of all classes.

See docs.ultralytics.com/datasets/detect: a line is `class x_center y_center width height`, fractions of the picture;
one with the corners of a polygon, as for segmentation, stands for the box around it.
"""

import posixpath
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import yaml

from shardmill.errors import UserError
from shardmill.metadata.rejects import Reject
from shardmill.printable import beginning
from transforms.columns.nested import shown
from transforms.inputs.annotations.coco import joined, seen_from
from transforms.inputs.annotations.objects import RELATIVE, Annotated, AnnotatedFiles, Member, Object, object_lists
from transforms.inputs.annotations.source import Categories, Listed, Notice, files_below
from transforms.inputs.file_kind import IMAGES
from transforms.stores import storage
from transforms.stores.error_text import error_text
from transforms.stores.failures import raise_if_store_failed

_SPLITS = ("train", "val", "test")
_LIST = ".txt"
_WORDS_OF_A_BOX = 5  # in a line: the class, the centre's two coordinates, width and height
_POLYGON = "the corners of a polygon"  # of which the box around it is kept
_BESIDE = ("classes.txt", "notes.txt")  # what tools write into the folder of annotations


@dataclass(frozen=True, slots=True)
class YoloSource:
    """What a data.yaml describes.

    Attributes:
      path: of it.
      root: the folder that names are relative to: its own.
      masks: the folder of the images' masks, if they have any.
      names: of the classes, once it is opened.
    """

    members: ClassVar[tuple[Member, ...]] = ("bbox", "label")
    columns: ClassVar[tuple[str, ...]] = ()

    path: str
    root: str
    masks: str | None = None
    names: tuple[str, ...] = ()

    def beside(self) -> Iterator[str]:
        """As the protocol says."""
        yield self.path
        described = describe(self.path)
        folder = self._folder(described)
        for entry in (entry for entries in described.splits.values() for entry in entries):
            if entry.endswith(_LIST):
                yield storage.join(self.root, joined(folder, posixpath.normpath(entry)))

    def listed(self) -> Iterator[AnnotatedFiles | Listed | Categories | Notice | Reject]:
        """As the protocol says."""
        described = describe(self.path)
        yield Categories(described.names, self.path)
        folder = self._folder(described)
        files = {joined(folder, name) for name in files_below(storage.join(self.root, folder), self.masks)}
        place, bare = 0, list[Annotated]()
        wanted = set[str]()
        for split, entries in described.splits.items():
            for image in self._images(entries, folder, files):
                place += 1
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
        return replace(self, names=describe(self.path).names)

    def parsed(self, data: bytes, listed: Listed) -> Annotated | Reject:
        """As the protocol says."""
        try:
            lines = enumerate(data.decode("utf-8-sig").split("\n"), 1)
            words = [(line.split(), number) for number, line in lines if line.strip()]
            objects = [_object(line, number, self.names) for line, number in words]
        except ValueError as error:
            return Reject(listed.annotation, None, "index", f"no annotation of YOLO's: {error}")
        left_out = [_POLYGON for line, _ in words if len(line) > _WORDS_OF_A_BOX]
        return Annotated(listed.image, listed.place, RELATIVE, objects, listed.split, left_out=left_out)

    def _folder(self, described: "Described") -> str:
        """The folder that the splits are named from, as seen from the root."""
        named = [described.folder, ""] if described.folder else [""]
        first = next(iter(described.splits.values()))[0]
        for folder in named:
            if folder.startswith("/") or "://" in folder:
                inside = f"{folder.rstrip('/')}/".startswith(f"{self.root.rstrip('/')}/")
                if not inside:
                    continue
                folder = seen_from(self.root, folder)
            folder = posixpath.normpath(folder) if folder else ""
            folder = "" if folder == "." else folder
            if folder.startswith(".."):
                continue
            place = storage.join(self.root, joined(folder, first))
            if storage.exists(place) or any(True for _ in storage.list_files(place)):
                return folder
        raise UserError(
            f"--yolo {self.path}: there is no {first!r} in {self.root}"
            + (f", nor in its 'path', {described.folder!r}, as far as that lies there" if described.folder else "")
            + "; move data.yaml beside the images"
        )

    def _images(self, entries: tuple[str, ...], folder: str, files: set[str]) -> Iterator[str]:
        """The images of a split, by name."""
        for entry in entries:
            name = joined(folder, posixpath.normpath(entry.removeprefix("./")))
            if name.endswith(_LIST):
                base = posixpath.dirname(name)
                lines = storage.read_bytes(storage.join(self.root, name)).decode("utf-8-sig").split("\n")
                for line in filter(None, map(str.strip, lines)):
                    inner = joined(base if line.startswith("./") else folder, posixpath.normpath(line))
                    yield inner
            else:
                found = sorted(file for file in files if file.startswith(f"{name}/") and IMAGES.accepts(file))
                if not found:
                    raise UserError(f"--yolo {self.path}: there are no images in {storage.join(self.root, name)}")
                yield from found


def yolo_root(path: str) -> str:
    """The folder that a data.yaml lies in."""
    return posixpath.dirname(path) or "."


def label_file(image: str) -> str:
    """The name of an image's annotations: `labels` in place of the last folder `images`, and .txt."""
    folders, _, rest = image.rpartition("images/")
    if folders and not folders.endswith("/"):
        folders, rest = "", image
    return f"{(f'{folders}labels/{rest}' if rest != image else image).rpartition('.')[0]}{_LIST}"


@dataclass(frozen=True, slots=True)
class Described:
    """What stands in a data.yaml: classes by id, the folders or lists of each split, and where these are looked for."""

    names: tuple[str, ...]
    splits: Mapping[str, tuple[str, ...]]
    folder: str


def describe(path: str) -> Described:
    """Read a data.yaml.

    Raises:
      UserError: there is none, or it is none.
      OSError: a store failed.
    """
    try:
        content = yaml.safe_load(storage.read_bytes(path))
    except FileNotFoundError:
        raise UserError(f"--yolo {path}: no such file") from None
    except OSError as error:
        raise_if_store_failed(error, path)
        raise UserError(f"--yolo {path} cannot be read: {error_text(error)}") from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise UserError(f"--yolo {path} is not YAML: {' '.join(str(error).split())}") from None
    if not isinstance(content, dict):
        raise UserError(f"--yolo {path}: expected names: and train:, val: or test:, and found {shown(content)}")
    splits = {name: _entries(content[name], name, path) for name in _SPLITS if content.get(name)}
    if not splits:
        raise UserError(f"--yolo {path} names no images: expected train:, val: or test:")
    return Described(_names(content.get("names"), path), splits, str(content.get("path") or ""))


def _entries(value: Any, name: str, path: str) -> tuple[str, ...]:
    entries = value if isinstance(value, list) else [value]
    if not all(isinstance(entry, str) for entry in entries):
        raise UserError(f"--yolo {path}: {name} is {shown(value)}; expected a folder, some, or a .txt file")
    return tuple(entries)


def _names(value: Any, path: str) -> tuple[str, ...]:
    if isinstance(value, dict) and sorted(value, key=str) and set(value) == set(range(len(value))):
        value = [value[index] for index in range(len(value))]
    if not isinstance(value, list) or not value or not all(isinstance(name, str | int) for name in value):
        raise UserError(f"--yolo {path}: names is {shown(value)}; expected the names of the classes, from id 0")
    return tuple(map(str, value))


def _object(words: list[str], number: int, names: tuple[str, ...]) -> Object:
    try:
        index, *numbers = int(words[0]), *map(float, words[1:])
    except ValueError:
        raise ValueError(f"line {number} holds {beginning(' '.join(words))!r}; expected an id and numbers") from None
    if not 0 <= index < len(names):
        raise ValueError(f"line {number} is of class {index}; data.yaml names {len(names)}")
    if len(numbers) == 4:
        x, y, width, height = numbers
        return Object(names[index], y - height / 2, x - width / 2, y + height / 2, x + width / 2, number)
    if len(numbers) < 6 or len(numbers) % 2:
        raise ValueError(f"line {number} has {len(numbers)} numbers; expected 4 of a box, or the corners of a polygon")
    return Object(names[index], min(numbers[1::2]), min(numbers[::2]), max(numbers[1::2]), max(numbers[::2]), number)

"""Read Pascal VOC annotations: an XML file for each image, and lists of names or folders as splits."""

import posixpath
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import ClassVar
from xml.etree import ElementTree

from shardmill.errors import UserError
from shardmill.metadata.manifest import Reject
from shardmill.transforms.inputs import annotations as inputs
from shardmill.transforms.inputs.folders import IMAGES, SPLIT_FOLDERS
from shardmill.transforms.inputs.listing import Skipped, read_flag_text
from shardmill.transforms.stores import storage

_ANNOTATIONS = "Annotations"
_IMAGES = ("JPEGImages", "images", "Images")
_SETS = "ImageSets/Main"
_SETS_OF_MASKS = "ImageSets/Segmentation"  # of those images that have masks
_LIST = ".txt"
_XML = ".xml"
_JOINT = "trainval"  # the list of both splits
_KEPT = frozenset(("name", "bndbox", "difficult", "truncated", "pose"))  # of an object
_ROOT = "annotation"
_CLASS_LIST = re.compile(r".+_(train|val|trainval|test)")  # such as cat_train, of images that show a cat
_NO_ANNOTATION = "image without an annotation"
_TRUTH = {"": False, "0": False, "false": False, "unspecified": False, "1": True, "true": True}


@dataclass(frozen=True, slots=True)
class VocSource(inputs.AnnotationFileSource):
    """A folder of Pascal VOC annotations, or the folder that contains it.

    See host.robots.ox.ac.uk/pascal/VOC/voc2012. Edges such as `xmin` are pixels counted from 1. Like TFDS and
    TensorFlow's own scripts, this divides them by the image's size without subtracting 1.
    """

    members: ClassVar[tuple[inputs.ObjectField, ...]] = ("bbox", "is_difficult", "is_truncated", "label", "pose")

    path: str  # as the user gave it
    root: str  # folder that names are relative to
    uses_image_sets: bool = True  # True to take splits from the lists in ImageSets/Main, or else from folders
    masks: str | None = None  # folder of masks; its lists in ImageSets/Segmentation then come first

    def list_extra_files(self) -> Iterator[str]:
        files = inputs.list_files_below(self.root, self.masks) if self.uses_image_sets else []
        return iter(self._split_lists(files)[1].values())

    def list_images(self) -> Iterator[inputs.ListedImage | Reject | Skipped | str]:
        files = inputs.list_files_below(self.root, self.masks)
        folders = sorted({name.partition("/")[0] for name in files if "/" in name})
        folder = next((name for name in folders if name.lower() == _ANNOTATIONS.lower()), None)
        annotations = [name for name in files if name.lower().endswith(_XML) and _is_in_folder(name, folder)]
        annotations.sort(key=lambda name: (_find_stem(name), name))
        if not annotations:
            raise UserError(f"--voc {self.path}: there is no .xml file in it, nor in a folder {_ANNOTATIONS} of it")
        images = _index_images_by_stem(files, folder)
        where, lists = self._split_lists(files)
        known = {_find_stem(name) for name in files if name.lower().endswith(_XML)}
        sets = {name: _parse_list(f"--voc {self.path}:", path, known) for name, path in lists.items()}
        by_folder, odd = _find_split_folders(annotations, folder) if self.uses_image_sets and not sets else ({}, "")
        if odd:
            yield f"{odd}: all images are of one split"
        yield from self._list_notices(_list_names(files, where), where, sets, bool(by_folder))
        named: dict[str, list[str]] = {}
        for name, listed in sets.items():
            for stem in dict.fromkeys(listed):
                named.setdefault(stem, []).append(name)
        taken: dict[str, str] = {}
        annotated = set[str]()
        for place, annotation in enumerate(annotations, 1):
            stem = _find_stem(annotation)
            meant = _find_candidate_images(annotation, images.get(stem, []))
            annotated.update(meant)
            if sets and stem not in named:
                yield Skipped(annotation, f"annotation without a place in {where}")
            elif len(meant) != 1:
                reason = f"there is no image {stem}.jpg, or of another format, to it"
                if meant:
                    reason = f"which is its image cannot be known: {meant[0]} or {meant[1]}"
                yield Reject(annotation, None, "index", reason)
            elif (other := taken.setdefault(meant[0], annotation)) != annotation:
                yield Reject(annotation, None, "index", f"its image, {meant[0]}, is that of {other}, too")
            else:
                for before, split in enumerate(named.get(stem, [by_folder.get(annotation)])):
                    yield inputs.ListedImage(meant[0], annotation, len(annotations) * before + place, split)
        stems = set(map(_find_stem, annotations))
        for stem in sorted(images):
            if stem in stems or stem not in named:
                yield from (Skipped(image, _NO_ANNOTATION) for image in images[stem] if image not in annotated)
        for stem in sorted(named.keys() - stems):
            what = f"{where}/{named[stem][0]}.txt names {stem!r}, which has no annotation"
            yield Reject(next(iter(images.get(stem, [stem]))), None, "index", what)

    def parse_annotation(self, data: bytes, listed_image: inputs.ListedImage) -> inputs.AnnotatedImage | Reject:
        image, annotation, position, split = listed_image
        try:
            tree = ElementTree.fromstring(data)
            if tree.tag != _ROOT:
                raise ValueError(f"it is a <{tree.tag}>; expected an <{_ROOT}>")
            width, height = (int(_parse_number(tree, f"size/{side}", "0")) for side in ("width", "height"))
            items = tree.findall("object")
            objects = [_parse_object(item, number) for number, item in enumerate(items, 1)]
        except (ElementTree.ParseError, LookupError, OverflowError, ValueError) as error:
            return Reject(annotation, None, "index", f"no annotation of VOC's: {error}")
        size = (width, height) if width > 0 and height > 0 else None
        ignored = [what for item in items for what in _find_ignored_tags(item)]
        if self._names_another_image((tree.findtext("filename") or "").strip(), image):
            ignored.append("<filename>, another image's name,")
        return inputs.AnnotatedImage(image, position, size, objects, split, ignored_properties=ignored)

    def _names_another_image(self, filename: str, image: str) -> bool:
        if not IMAGES.accepts(f"/{filename}") or _find_stem(filename) == _find_stem(image):
            return False
        other = posixpath.join(posixpath.dirname(image), posixpath.basename(filename))
        return storage.exists(storage.join(self.root, other))

    def _split_lists(self, files: list[str]) -> tuple[str, dict[str, str]]:
        for folder in (_SETS,) if self.masks is None else (_SETS_OF_MASKS, _SETS):
            if names := _select_split_lists(_list_names(files, folder)):
                break
        used = names if self.uses_image_sets else []
        return folder, {name: storage.join(self.root, f"{folder}/{name}.txt") for name in used}

    def _list_notices(self, lists: list[str], where: str, sets: Collection[str], has_folders: bool) -> Iterator[str]:
        """Yield notices about lists that are not used as splits, except lists of single classes such as cat_train."""
        if lists and not self.uses_image_sets:
            yield f"the lists in {where} are left aside, for --splits says the splits"
            return
        used = {*sets, _JOINT} if sets else {}
        unused = [name for name in lists if name not in used and not _CLASS_LIST.fullmatch(name)]
        if unused:
            shown = f"{unused[0]!r}" + (f" and {len(unused) - 1} more" if len(unused) > 1 else "")
            outcome = "they are left out" if sets or has_folders else "all images are of one split"
            yield f"lists in {where} are no splits by their names, such as train, val or test: {shown}; {outcome}"


def voc_root(path: str) -> str:
    """Return the folder of a VOC data set, given that folder or its folder of annotations; UserError for a file."""
    path = path.rstrip("/") or "/"
    if path.lower().endswith(_XML):
        folder = posixpath.dirname(path) or "."
        raise UserError(
            f"--voc {path}: expected the folder of the annotations, such as {folder}; if the file is an export of CVAT,"
            f" give --annotations cvat={path}"
        )
    if posixpath.basename(path).lower() != _ANNOTATIONS.lower():
        return path
    return posixpath.dirname(path) or "."


def _list_names(files: list[str], where: str) -> list[str]:
    inside = (name for name in files if posixpath.dirname(name) == where and name.endswith(_LIST))
    return sorted(map(_find_stem, inside))


def _select_split_lists(lists: list[str]) -> list[str]:
    there = [name for name in lists if name.lower() in SPLIT_FOLDERS]
    joint = _JOINT in lists and not {SPLIT_FOLDERS[name.lower()] for name in there} & {"train", "validation"}
    return [*there, *([_JOINT] if joint else [])]


def _find_split_folders(annotations: list[str], folder: str | None) -> tuple[dict[str, str], str]:
    """Return the split of each annotation if all are in folders named after splits, and a notice if only some are."""
    inner = {name: name.removeprefix(f"{folder}/").partition("/") for name in annotations}
    found = {name: head for name, (head, slash, _) in inner.items() if slash and head.lower() in SPLIT_FOLDERS}
    if len(found) in (0, len(annotations)):
        return found, ""
    other = next(name for name in annotations if name not in found)
    return {}, f"annotations lie in folders called as splits, such as {next(iter(found))}, and {other} not"


def _is_in_folder(name: str, folder: str | None) -> bool:
    return folder is None or name.startswith(f"{folder}/")


def _index_images_by_stem(files: list[str], folder: str | None) -> dict[str, list[str]]:
    images = [name for name in files if IMAGES.accepts(name)]
    if folder is not None:
        of_folder = next((name for name in _IMAGES if any(_is_in_folder(image, name) for image in images)), None)
        images = [image for image in images if _is_in_folder(image, of_folder) and not image.startswith("Segmentation")]
    found: dict[str, list[str]] = {}
    for image in images:
        found.setdefault(_find_stem(image), []).append(image)
    return found


def _find_candidate_images(annotation: str, images: list[str]) -> list[str]:
    """Return images that may belong to an annotation file: in its folder, else in the same inner folder, else all."""
    folder = posixpath.dirname(annotation)
    in_same_folder = [image for image in images if posixpath.dirname(image) == folder]
    inner = folder.partition("/")[2]
    return in_same_folder or [each for each in images if posixpath.dirname(each).partition("/")[2] == inner] or images


def _find_stem(name: str) -> str:
    return posixpath.basename(name).rpartition(".")[0]


def _parse_list(flag: str, path: str, stems: Collection[str]) -> list[str]:
    """Return the image names in a list, without suffix: each line's first word, or the whole line if it is a name."""
    lines = map(str.strip, read_flag_text(flag, path).split("\n"))
    names = (line if line in stems or _find_stem(line) in stems else line.split()[0] for line in lines if line)
    return [_find_stem(name) if name not in stems and _find_stem(name) in stems else name for name in names]


def _parse_object(item: ElementTree.Element, number: int) -> inputs.Object:
    label = (item.findtext("name") or "").strip()
    if not label:
        raise ValueError(f"object {number} has no name")
    if item.find("bndbox") is None:
        kinds = ", ".join(f"<{child.tag}>" for child in item if len(child))
        raise ValueError(f"object {number} has no <bndbox>" + (f", but {kinds}" if kinds else ""))
    top, left, bottom, right = (_parse_number(item, f"bndbox/{edge}") for edge in ("ymin", "xmin", "ymax", "xmax"))
    difficult, truncated = (_is_true(item, name) for name in ("difficult", "truncated"))
    pose = (item.findtext("pose") or "").strip()
    return inputs.Object(label, top, left, bottom, right, number, None, None, difficult, truncated, pose)


def _find_ignored_tags(item: ElementTree.Element) -> set[str]:
    said = {child.tag for child in item if len(child) or (child.text or "").strip() not in ("", "0")}
    return {f"<{tag}>" for tag in said - _KEPT}


def _is_true(item: ElementTree.Element, name: str) -> bool:
    text = (item.findtext(name) or "").strip()
    if (found := _TRUTH.get(text.lower())) is None:
        raise ValueError(f"{name} is {text!r}; expected 0 or 1")
    return found


def _parse_number(item: ElementTree.Element, path: str, instead: str | None = None) -> float:
    text = item.findtext(path, instead)
    try:
        return float((text or "").strip())
    except ValueError:
        raise ValueError(f"{path} is {text!r}; expected a number") from None

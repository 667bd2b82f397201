"""Read the exports of labelling tools and join them with their images; datumaro reads most formats."""

import glob
import itertools
import logging
import os
import posixpath
import re
import tempfile
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, ClassVar
from xml.etree import ElementTree

from shardmill.addons.annotations.coco import IMAGES_PER_BATCH, coco_root
from shardmill.addons.annotations.export_readers import (
    CLASS_NAMES,
    READERS,
    Export,
    ExportedImage,
    box_around,
    read_class_names,
)
from shardmill.addons.annotations.formats import FORMATS, WRITE, find_annotations, recognise
from shardmill.errors import UserError
from shardmill.installed import install_hint
from shardmill.metadata.manifest import Reject
from shardmill.text import did_you_mean, listed, plural
from shardmill.transforms.inputs import annotations as inputs
from shardmill.transforms.inputs.folders import IMAGES, SPLIT_FOLDERS
from shardmill.transforms.inputs.listing import Skipped, is_file
from shardmill.transforms.inputs.summary import InputSummary, encode_label_list
from shardmill.transforms.inputs.unused_annotations import ANNOTATIONS
from shardmill.transforms.stores import storage

_NO_CLASS = "object"  # the class of all objects where no annotation names a class
_FILE_SUFFIXES = (".json", ".xml", ".csv", ".tsv", ".txt", ".yaml")


@dataclass(frozen=True, slots=True)
class ExportSource(inputs.AnnotationSource):
    """The export of a labelling tool: a file or a folder. READERS read their formats, and datumaro all others."""

    members: ClassVar[tuple[inputs.ObjectField, ...]] = ("area", "bbox", "id", "is_crowd", "label")
    has_labels: ClassVar[bool] = True

    path: str  # file or folder of the export
    format: str  # a name in READERS or of datumaro's; "" to detect it
    root: str  # folder that image names are relative to
    attribute: str = ""  # the attribute of VIA's regions that holds their class; "" for the only one
    masks: str | None = None  # folder of masks, which are no images
    drops_boxless: bool = False  # True to leave out objects without a box; else their images are rejects

    def list_extra_files(self) -> Iterator[str]:
        folder, names = self._files
        return (storage.join(folder, name) for name in names if ANNOTATIONS.accepts(name) or is_file(self.path))

    @property
    def _files(self) -> tuple[str, list[str]]:
        """The folder of the export, and the names of all files in it; UserError if there are none."""
        if is_file(self.path):
            return posixpath.dirname(self.path) or ".", [posixpath.basename(self.path)]
        if not (names := inputs.list_files_below(self.path, self.masks)):
            raise UserError(f"{self._flag}: there is no such file or folder")
        return self.path, names

    def list_images(self) -> Iterator[inputs.AnnotatedImages | InputSummary | Reject | Skipped | str]:
        format_ = self.format or self._detect()
        export = Export()
        read, suffixes, flags = READERS.get(format_, (None, (), ("unread_objects",)))
        for name, value in {"label_column": self.attribute, "unread_objects": "drop" * self.drops_boxless}.items():
            if value and name not in flags:
                raise UserError(f"{self._flag}: --{name} {value} has no effect on {format_}; leave it out")
        if read is not None:
            read(self._list_files(format_, suffixes, export), export, self.attribute)
            subsets = (image.subset or self._subset_of(image.file) for image in export.images)
            export.images = [each._replace(subset=name) for each, name in zip(export.images, subsets, strict=True)]
        else:
            read_with_datumaro(format_, self.path, self.root, export)
        yield from join_export(self, format_, export)

    @property
    def _flag(self) -> str:
        return f"--annotations {self.format}={self.path}" if self.format else f"--annotations {self.path}"

    def _subset_of(self, file: str) -> str | None:
        """Return the part of an annotation file's path below the export that is named as a split is."""
        parts = posixpath.splitext(file.removeprefix(storage.join(self.path, "")))[0].split("/")
        return next((part for part in parts if part.lower() in SPLIT_FOLDERS), None)

    def _list_files(self, format_: str, suffixes: tuple[str, ...], export: Export) -> list[str]:
        """Return the paths of the files of a format in READERS, and add a notice of files with the same suffix."""
        if is_file(self.path):
            return [self.path]
        alike = [name for name in self._files[1] if name.lower().endswith(suffixes)]
        found = sorted({file for each in FORMATS if each.name == format_ for file, _ in each.matches(self.path, alike)})
        if not found:
            raise UserError(f"{self._flag}: no file in it looks like an export of {format_}")
        others = [name for name in alike if not (storage.join(self.path, name) in found or name.endswith(CLASS_NAMES))]
        if others:
            export.notices.append(f"not read as {format_}: {plural(len(others), 'file')}, such as {others[0]!r}")
        return found

    def _detect(self) -> str:
        if self.path.lower().endswith((".zip", ".tar", ".gz", ".tgz", ".rar", ".7z")):
            raise UserError(f"{self._flag} is an archive; unpack it, and give the folder")
        recognised = list(recognise(*self._files))
        found = {each.name for each, *_ in recognised} - {""}
        found.update(detect_formats(self.path, bool(found)))
        if len(found) > 1:  # such as Open Images, whose boxes are in CSV
            found.discard("boxes_csv")
        if len(found) == 1:
            return found.pop()
        if not found:
            example = next((flags[0] for *_, flags in recognised), f"--annotations cvat={self.path}; or {WRITE}")
            raise UserError(f"{self._flag}: its format is not recognised; name it, for example {example}")
        flags = " or ".join(f"--annotations {name}={self.path}" for name in sorted(found))
        raise UserError(f"{self._flag}: it can be read as different formats; give {flags}")


def join_export(
    source: ExportSource, format_: str, export: Export
) -> Iterator[inputs.AnnotatedImages | InputSummary | Reject | Skipped | str]:
    """Yield the images of an export with their objects, and everything that is not used of it, counted."""
    files = [name for name in inputs.list_files_below(source.root, source.masks) if IMAGES.accepts(name)]
    finder = _ImageFinder(source.root, files)
    splits = _find_splits(source, export)
    yield from export.notices
    yield from export.rejects
    labels = _label_texts(export.images)
    has_objects = any(image.objects for image in export.images)
    has_classes = any(item.label is not None for image in export.images for item in image.objects)
    if has_objects and not has_classes:
        yield f"no annotation of {format_} names a class: all objects are of the class {_NO_CLASS!r}"
    if has_objects and has_classes and len(set(export.class_lists)) == 1:
        of_objects = {item.label for image in export.images for item in image.objects}
        of_images = {label for image in export.images for label in image.labels} - of_objects
        classes = tuple(name for name in export.class_lists[0] if name not in of_images)
        yield InputSummary(class_lists={classes: (1, source.path)})
    yield InputSummary(ignored_properties=+export.ignored)
    # Landmarks of images that have a class are no objects.
    drops_boxless = source.drops_boxless or (not has_objects and any(image.labels for image in export.images))
    export.omitted.update(kind for image in export.images if drops_boxless for kind in image.boxless)
    if omitted := +export.omitted:
        kinds = ", ".join(f"{kind} ({count:,})" for kind, count in sorted(omitted.items()))
        yield f"annotations of {format_} are left out: {kinds}"
    if not export.images:
        left_out = f": it has {kinds}" if omitted else ""
        reason = f", such as {export.rejects[0].reason}" if export.rejects else left_out
        raise UserError(f"--annotations {source.path}: {format_} has no image in it{reason}")
    places: dict[str, list[str]] = {}  # annotation files that name an image
    names = [finder.find(image.name, image.file) for image in export.images]
    for name, image in zip(names, export.images, strict=True):
        places.setdefault(name, []).append(image.file)
    if finder.files.isdisjoint(places):
        raise UserError(
            f"--annotations {source.path}: none of its {plural(len(names), 'image')}, such as"
            f" {export.images[0].name!r}, is in {source.root}; give --input, the folder of the images"
        )
    kept: list[inputs.AnnotatedImage] = []
    ids = itertools.count(1)
    for position, (found, image) in enumerate(zip(names, export.images, strict=True), 1):
        name, problem = (found, "") if found in finder.files else (image.name, found)
        if not problem and len(places[name]) > 1:
            problem = f"it is annotated {len(places[name])} times: in {' and in '.join(dict.fromkeys(places[name]))}"
        problem = problem or image.problem
        if not problem and image.boxless and not drops_boxless:
            remedy = "--unread_objects drop leaves out such objects alone"
            problem = f"an object in it is of the kind {image.boxless[0]}, which has no box; {remedy}"
        if not problem and has_classes and any(item.label is None for item in image.objects):
            problem = "an object in it has no class"
        if problem:
            yield Reject(name, position, "index", problem)
            continue
        named = (item if has_classes else item._replace(label=_NO_CLASS) for item in image.objects)
        objects = [item._replace(id=next(ids)) for item in named]
        split = splits.get(image.subset or "")
        kept.append(inputs.AnnotatedImage(name, position, image.size, objects, split, label=labels[position - 1]))
    for start in range(0, len(kept), IMAGES_PER_BATCH):
        images = kept[start : start + IMAGES_PER_BATCH]
        yield inputs.AnnotatedImages(images, inputs.build_object_lists([image.objects for image in images]))
    if finder.backslashes:
        yield f"{plural(finder.backslashes, 'file name has', 'file names have')} backslashes, which are read as /"
    if finder.unprefixed:
        found = plural(finder.unprefixed, "image was", "images were")
        yield f"{found} found without the prefix of Label Studio's uploads"
    yield from (Skipped(name, "image without an annotation") for name in files if name not in places)


def _label_texts(images: Sequence[ExportedImage]) -> list[str | None]:
    """Return each image's label: a class, None, or encoded lists if images have several or, with objects, some none."""
    numbers = {len(image.labels) for image in images}
    has_objects = any(image.objects for image in images)
    if max(numbers, default=0) < 2 and not (has_objects and numbers == {0, 1}):
        return [next(iter(image.labels), None) for image in images]
    return [encode_label_list(dict.fromkeys(image.labels)) for image in images]


def _find_splits(source: ExportSource, export: Export) -> dict[str, str]:
    """Return the split of each subset if all are named after splits; otherwise add a notice to the export."""
    subsets = sorted({image.subset or "" for image in export.images})
    if all(name.lower() in SPLIT_FOLDERS for name in subsets):
        return {name: name for name in subsets}
    if len(names := [repr(name) for name in subsets if name]) > 1:
        what = f"subsets of {source.path} are no splits by their names: {listed(names, 3)}"
        export.notices.append(f"{what}; all images are of one split")
    return {}


class _ImageFinder:
    def __init__(self, root: str, files: Sequence[str]) -> None:
        self.files = set(files)
        self.backslashes = 0
        self.unprefixed = 0
        self._root = os.path.abspath(root) if storage.is_local(root) else root
        self._by_name: dict[str, list[str]] = {}
        for file in files:
            base = posixpath.basename(file).lower()
            for name in (base, posixpath.splitext(base)[0]):  # Open Images names images without their suffix
                self._by_name.setdefault(name, []).append(file)

    def find(self, name: str, annotation: str) -> str:
        """Return the image called `name` in an annotation file, or else the reason why it is not found."""
        plain = name.replace("\\", "/")
        found = self._find(plain, self._folder_of(annotation))
        bare = re.sub(r"(^|/)[0-9a-f]{8}-(?=[^/]*$)", r"\1", plain)  # before it was uploaded to Label Studio
        if found not in self.files and bare != plain:
            found = self._find(bare, self._folder_of(annotation))
            self.unprefixed += found in self.files
        self.backslashes += plain != name and found in self.files
        return found

    def _find(self, name: str, folder: str) -> str:
        absolute = name.startswith("/") or name[1:3] == ":/"
        if absolute and name.startswith(f"{self._root}/") and (inner := name[len(self._root) + 1 :]) in self.files:
            return inner
        for candidate in () if absolute else (posixpath.join(folder, name), name):
            if (normal := posixpath.normpath(candidate)) in self.files:
                return normal
        parts = [part for part in name.split("/") if part not in ("", ".", "..")]
        tail = (posixpath.basename(name) if absolute else "/".join(parts)).lower()
        alike = self._by_name.get(posixpath.basename(name).lower(), [])
        paths = {file: (f"/{file.lower()}", posixpath.splitext(f"/{file.lower()}")[0]) for file in alike}
        found = [file for file, known in paths.items() if any(path.endswith(f"/{tail}") for path in known)]
        found = [file for file in found if file.startswith(f"{posixpath.dirname(folder)}/")] or found
        if len(found) > 1:
            return f"it can be {found[0]} or {found[1]}"
        return found[0] if found else "there is no such image"

    def _folder_of(self, annotation: str) -> str:
        name = posixpath.relpath(posixpath.dirname(annotation) or ".", self._root)
        return "" if name.split("/")[0] in (".", "..") else name


def export_root(path: str) -> str:
    """Return the folder that holds the images of an export, given its file or folder."""
    return coco_root([path]) if posixpath.splitext(path)[1].lower() in _FILE_SUFFIXES else path.rstrip("/") or "/"


# Formats that shardmill reads itself, with the flag that does
_OWN = {
    **dict.fromkeys(("coco", "coco_instances", "coco_person_keypoints", "mmdet_coco", "roboflow_coco"), "--coco FILE"),
    **dict.fromkeys(("voc", "voc_detection", "voc_layout", "voc_action", "voc_classification"), "--voc FOLDER"),
    **dict.fromkeys(("voc_segmentation", "voc_instance_segmentation", "roboflow_voc"), "--voc FOLDER"),
    **dict.fromkeys(("yolo", "yolo_ultralytics", "roboflow_yolo"), "--yolo FOLDER/data.yaml"),
}
# datumaro takes the centre of CreateML's boxes for their corner; of KITTI's two kinds it skips one
_REPLACED = {"roboflow_create_ml": "createml", "kitti": "kitti_detection"}
_FOLDERS = frozenset(("image_dir", "image_zip", "imagenet", "imagenet_with_subset_dirs"))
_PIXELS = "its masks give each pixel a class; give --input the folder of the images, --masks the folder of masks, and"
_NO_FILES = "it holds images that are not files of their own; write each to a file"
# Formats without annotated image files, with what to do instead
_ELSEWHERE = {
    **dict.fromkeys(
        (
            *("ade20k2017", "ade20k2020", "camvid", "coco_stuff", "common_semantic_segmentation", "kitti_segmentation"),
            *("common_semantic_segmentation_with_subset_dirs", "icdar_text_segmentation", "mapillary_vistas"),
            *("mvtec_segmentation", "nyu_depth_v2", "synthia_al", "synthia_rand", "synthia_sf"),
        ),
        f"{_PIXELS} --mask_pattern if names differ",
    ),
    "cityscapes": f"{_PIXELS} --mask_pattern '{{stem}}_leftImg8bit={{stem}}_gtFine_labelIds'",
    **dict.fromkeys(("tf_detection_api", "roboflow_tfrecord"), "it holds TFRecords, for `shardmill reshard --input`"),
    "mnist": "it holds idx files, which `shardmill arrays --stacked --input` reads",
    **dict.fromkeys(("cifar", "mnist_csv"), _NO_FILES),
    "tabular": "it holds a table, which `shardmill csv --input` reads",
    **dict.fromkeys(("video_frames", "video_keyframes", "kinetics"), "it holds videos; write their frames as images"),
    **dict.fromkeys(("kitti_raw", "kitti3d"), "it holds point clouds, which shardmill does not read"),
    "sly_pointcloud": "it holds a project of Supervisely's; export its images as COCO, for --coco",
}
_FACTS = ("caption", "depth_annotation", "feature_vector", "hash_key", "tabular")  # about the whole image
_OBJECT_TYPES = ("bbox", "rotated_bbox", "polygon", "mask")
_KNOWN_ATTRIBUTES = frozenset(("frame", "id", "is_crowd", "is_group_of", "outside"))
_NO_SHAPE = "each needs a <polygon> or a <segm>, and an <id> of its own"  # in LabelMe's XML
_DONT_CARE = "DontCare"  # KITTI's name of regions whose objects are not annotated
_SAME = 20  # first characters of messages that differ in the item that they are about
_GROUPED_BY_PEOPLE = ("cvat", "label_me")  # formats whose groups may hold several objects
_CVAT_SHAPES = {name: name for name in ("cuboid", "ellipse", "mask", "points", "polygon", "polyline", "skeleton")}
_CVAT_SHAPES |= {"box": "bbox", "tag": "label"}  # datumaro's names of these
_CVAT_UNREAD = ("cuboid", "ellipse", "skeleton")  # which datumaro passes over


def detect_formats(path: str, is_recognised: bool) -> list[str]:
    """Return the formats that datumaro takes an export for; folders of classes are none if it `is_recognised`."""
    if not storage.is_local(path) or (is_recognised and find_spec("datumaro") is None):
        return []
    environment = _import_datumaro("")
    with tempfile.TemporaryDirectory(prefix="shardmill-") as folder, _collecting_logs():
        if os.path.isfile(path):  # which datumaro looks for in a folder
            os.symlink(os.path.abspath(path), os.path.join(folder, os.path.basename(path)))
            path = folder
        try:
            found = set(environment.detect_dataset(path))
        except ModuleNotFoundError:  # nibabel, which datumaro needs where any file is called .gz
            found = {"mnist"} if glob.glob(f"{glob.escape(path)}/**/*-ubyte.gz", recursive=True) else set()
    found = {_REPLACED.get(name, name) for name in found}
    if found <= _FOLDERS or len({_OWN.get(name, name) for name in found}) == 1:
        found = set(sorted(found)[:1])
    return sorted(found if not is_recognised else found - _FOLDERS - _ELSEWHERE.keys())


def read_with_datumaro(format_: str, path: str, root: str, export: Export) -> None:
    """Add the images and annotations that datumaro reads in a local file or folder to an export.

    Raise a UserError if datumaro is missing or cannot read `path`, or if the format has another flag or no boxes.
    """
    flag = f"--annotations {format_}={path}"
    if problem := _find_problem(format_, path):
        raise UserError(f"{flag}: {problem}")
    environment = _import_datumaro(format_)
    if format_ not in environment.importers:
        known = sorted({*READERS, *environment.importers} - _REPLACED.keys())
        hint = did_you_mean(format_, known) or f"the formats are {', '.join(known)}"
        raise UserError(f"{flag}: there is no format {format_!r}; {hint}")
    expected: Counter[str] = Counter()
    found: Counter[str] = Counter()
    unread: dict[str, list[str]] = {}
    with tempfile.TemporaryDirectory(prefix="shardmill-") as folder, _collecting_logs() as logs:
        try:
            if format_ == "cvat":
                for file, images, subset in _stage_cvat(path, folder, expected, unread):
                    source = environment.make_extractor("cvat", file, subset=subset)
                    _read_items(format_, source, images, images, export, found, Counter())
            else:
                counts = _count_label_me(path, export) if format_ == "label_me" else Counter()
                for each in sorted(environment.importers[format_]()(path), key=str):
                    source = environment.make_extractor(each["format"], each["url"], **each.get("options", {}))
                    _read_items(format_, source, path, root, export, found, counts)
        except UserError:
            raise
        except Exception as error:  # datumaro raises errors of many classes, or those of libraries
            cause = error.__cause__ or error
            what = " ".join(str(cause).split()) or type(cause).__name__
            what = f"it does not find {what}" if isinstance(cause, KeyError) else what
            raise UserError(f"{flag}: datumaro cannot read it as {format_}: {what}") from None
    for text, count in sorted(logs.items()):
        export.notices.append(f"datumaro: {text}" + (f" ({count:,} such messages)" if count > 1 else ""))
    if format_ == "cvat":
        found["bbox"] += found.pop("rotated_bbox", 0)
        export.omitted.update(expected - found)
        export.images = [each._replace(boxless=(*each.boxless, *unread.get(each.name, ()))) for each in export.images]


def _count_label_me(path: str, export: Export) -> Counter[str]:
    """Return how many objects LabelMe's XML has of each image, by the name of the image without suffix."""
    counts: Counter[str] = Counter()
    for file in glob.glob(f"{glob.escape(path)}/**/*.xml", recursive=True):
        image = ElementTree.parse(file)
        is_deleted = [item.findtext("deleted") == "1" for item in image.iter("object")]
        export.omitted["deleted object"] += sum(is_deleted)
        name = posixpath.join(image.findtext("folder") or "default", image.findtext("filename", ""))
        counts[posixpath.splitext(name)[0]] += is_deleted.count(False)
    return counts


def _find_problem(format_: str, path: str) -> str:
    """Return why datumaro is not to read a file or folder, with what to do instead; "" if it is."""
    is_darknet = format_ == "yolo" and glob.glob(f"{glob.escape(path)}/**/obj.data", recursive=True)
    if format_ in _OWN and (not is_darknet or glob.glob(f"{glob.escape(path)}/**/*.yaml", recursive=True)):
        local = posixpath.dirname(path) if posixpath.splitext(path)[1] else path
        advice = find_annotations(local) if storage.is_local(path) and os.path.isdir(local or ".") else None
        given = re.search(r"give (--.+?) in place of", advice or "")
        return f"shardmill reads this itself; give {given[1] if given else _OWN[format_]} in place of --annotations"
    if format_ in _REPLACED:
        return f"shardmill reads this itself; give --annotations {_REPLACED[format_]}={path}"
    if format_ in _FOLDERS:
        return f"these are images in folders; give --input {path} in place of --annotations"
    if format_ in _ELSEWHERE:
        return _ELSEWHERE[format_]
    if not storage.is_local(path):
        return "datumaro reads local files; copy the annotations to a disk"
    return "" if os.path.exists(path) else "there is no such file or folder"


def _import_datumaro(format_: str) -> Any:
    try:
        from datumaro.components.environment import Environment
        from datumaro.util.image import IMAGE_BACKEND, ImageBackend
    except ModuleNotFoundError as error:
        if str(error.name).partition(".")[0] != "datumaro":
            raise
        flag = f"--annotations {format_}=…" if format_ else "--annotations"
        raise UserError(
            f"{flag} needs datumaro for all formats but {', '.join(sorted(READERS))}; {install_hint('annotations')}"
        ) from None
    IMAGE_BACKEND.set(ImageBackend.cv2)  # which datumaro sets for the thread alone that imports it first
    return Environment()


def _read_items(
    format_: str, source: Any, folder: str, root: str, export: Export, found: Counter[str], counts: Counter[str]
) -> None:
    from datumaro.components.annotation import AnnotationType
    from datumaro.components.media import FromFileMixin, Image

    categories = source.categories().get(AnnotationType.label)
    names = [category.name for category in categories.items] if categories is not None else []
    if format_ == "open_images":
        paths = glob.glob(os.path.join(glob.escape(folder), "**", "*class-descriptions*.csv"), recursive=True)
        shown = read_class_names("--annotations", paths)
        described = [shown.get(name) or name for name in names]
        names = described if len(set(described)) == len(names) else names  # else they stay ids
    export.class_lists.append(tuple(name for name in names if name != _DONT_CARE))
    for item in sorted(source, key=lambda item: (str(item.subset), str(item.id))):  # some list files in any order
        media = item.media
        if isinstance(media, Image) and not isinstance(media, FromFileMixin):
            raise UserError(f"--annotations {format_}={folder}: {_NO_FILES}")
        if not isinstance(media, FromFileMixin):
            export.rejects.append(Reject(item.id, None, "index", "there is no image to its annotations"))
            continue
        lost = [name for name, value in item.attributes.items() if _is_stored_nowhere_else(name, value)]
        export.ignored.update(f"attribute {name} of images" for name in lost)
        groups: dict[Any, list[Any]] = {}
        labels: list[str] = []
        others: list[Any] = []  # annotations that have no box
        missing = counts[posixpath.join(item.subset, item.id)] - len(item.annotations)
        problem = f"{plural(missing, 'object')} in it cannot be read: {_NO_SHAPE}" if missing > 0 else ""
        for annotation in item.annotations:
            kind = annotation.type.name
            found[kind] += 1
            label = getattr(annotation, "label", None)
            if label is not None and not 0 <= label < len(names):
                problem = f"an annotation is of class {label}, and there are {len(names)} classes"
                continue
            name = None if label is None else names[label]
            attributes = annotation.attributes
            is_kept = kind in (*_OBJECT_TYPES, "label") and attributes.get("outside") is not True
            lost = [name for name, value in attributes.items() if is_kept and _is_stored_nowhere_else(name, value)]
            export.ignored.update(f"attribute {name}" for name in lost)
            if kind == "label" and name is not None and attributes.get("score") != 0:
                labels.append(name)
            elif kind == "label":
                export.omitted["label that is verified to be absent"] += 1
            elif attributes.get("outside") is True:
                export.omitted["box outside its frame"] += 1
            elif format_ == "mot_seq" and attributes.get("ignored") is True:  # the MOT benchmark does not count it
                export.omitted["row of confidence 0"] += 1
            elif name == _DONT_CARE and format_ == "kitti_detection":
                export.omitted[_DONT_CARE] += 1
            elif kind in _OBJECT_TYPES:
                key = _group(annotation, format_, len(groups))
                if kind == "bbox" and any(part.type.name == "bbox" for part in groups.get(key, ())):
                    key = len(groups)  # a group of several objects
                groups.setdefault(key, []).append(annotation)
                export.ignored[kind] += kind != "bbox"
            elif kind in _FACTS:
                export.omitted[kind] += 1
            else:
                others.append(annotation)
        grouped = [each for each in others if each.group and _group(each, format_, -1) in groups]  # with a box
        export.ignored.update(each.type.name for each in grouped)
        boxless = tuple(each.type.name for each in others if each not in grouped)
        objects = [_object(parts, names) for parts in groups.values()]
        path = media.path
        name = _relative(path, root) or _relative(path, folder) or f"{item.id}{posixpath.splitext(path)[1]}"
        size = (media.size[1], media.size[0]) if media.has_size else None
        place = storage.join(folder, "")
        export.images.append(ExportedImage(name, place, objects, size, tuple(labels), item.subset, problem, boxless))


def _is_stored_nowhere_else(name: str, value: Any) -> bool:
    return name not in _KNOWN_ATTRIBUTES and value not in (None, False, "", 0, *([1] if name == "score" else []))


def _group(annotation: Any, format_: str, number: int) -> Any:
    """Return the key of an object's parts: a box, polygons and masks with one group, except where people group."""
    has_parts = annotation.group and format_ not in _GROUPED_BY_PEOPLE
    return (annotation.group, annotation.label) if has_parts else number


def _object(parts: Sequence[Any], names: Sequence[str]) -> inputs.Object:
    """Return the object with these parts: its box if it has one, or else the box around all; the area of its shape."""
    boxes = [part for part in parts if part.type.name == "bbox"]
    shapes = [part for part in parts if part.type.name != "bbox"]
    sides = [map(float, part.get_bbox()) for part in boxes or shapes]
    corners = [corner for x, y, width, height in sides for corner in ((x, y), (x + width, y + height))]
    attributes = parts[0].attributes
    is_crowd = bool(attributes.get("is_crowd", attributes.get("is_group_of", False)))
    area = float(sum(part.get_area() for part in shapes)) if shapes else None
    return box_around(None if parts[0].label is None else names[parts[0].label], corners, area, is_crowd)


def _relative(path: str, folder: str) -> str:
    name = os.path.relpath(path, folder).replace(os.sep, "/") if storage.is_local(folder) else ".."
    return "" if name.startswith("..") else name


def _stage_cvat(
    path: str, folder: str, expected: Counter[str], unread: dict[str, list[str]]
) -> list[tuple[str, str, str | None]]:
    """Lay out each XML file of CVAT's as datumaro expects it, and count its annotations; `unread` gets other shapes.

    datumaro stops at the first image that does not exist, and looks for images in `images` alone, so each is an empty
    file here. Its importer takes no exports of jobs, and drops the images of a project's tasks without a subset.
    Return each subset of each file: the path, the folder that its images are named from, and the subset or None.
    """
    files = [path] if os.path.isfile(path) else sorted(glob.glob(f"{glob.escape(path)}/**/*.xml", recursive=True))
    staged: list[tuple[str, str, str | None]] = []
    for number, file in enumerate(files):
        subsets: set[str] = set()
        place = os.path.join(folder, str(number))
        images = os.path.join(place, "images")
        try:
            is_export, current = False, ""
            for _, element in ElementTree.iterparse(file, ("start",)):
                is_export = is_export or element.tag == "annotations"
                if not is_export:
                    break
                if element.tag in ("image", "track"):
                    if (subset := element.get("subset")) is not None:
                        subsets.add(subset)
                    name = element.get("name") if element.tag == "image" else None
                    current = posixpath.normpath(name.replace("\\", "/").lstrip("/")) if name else ""
                    target = os.path.normpath(os.path.join(images, current))
                    if target.startswith(f"{images}{os.sep}"):
                        os.makedirs(os.path.dirname(target), exist_ok=True)
                        open(target, "ab").close()
                if current and element.tag in _CVAT_UNREAD:
                    unread.setdefault(current, []).append(element.tag)
                elif element.tag in _CVAT_SHAPES:
                    expected[_CVAT_SHAPES[element.tag]] += 1
        except (ElementTree.ParseError, LookupError, OSError, ValueError) as error:
            raise UserError(f"--annotations cvat={file} is no XML: {error}") from None
        if not is_export:
            continue
        os.makedirs(images, exist_ok=True)
        os.symlink(os.path.abspath(file), os.path.join(place, os.path.basename(file)))
        target = os.path.join(place, os.path.basename(file))
        staged += [(target, images, subset) for subset in (*sorted(subsets),) or (None,)]
    return staged


@contextmanager
def _collecting_logs() -> Iterator[Counter[str]]:
    """Collect what datumaro logs, without names and numbers of single items, in place of printing it."""
    logs: Counter[str] = Counter()

    def only_others(record: logging.LogRecord) -> bool:
        if "datumaro" not in record.pathname:
            return True
        if record.levelno >= logging.WARNING:
            text = " ".join(record.getMessage().split())
            logs[next((known for known in logs if known[:_SAME] == text[:_SAME]), text)] += 1
        return False

    root = logging.getLogger()
    root.addFilter(only_others)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield logs
    finally:
        root.removeFilter(only_others)

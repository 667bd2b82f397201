"""Recognise the formats of annotations by the names and the first bytes of files."""

import posixpath
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from shardmill.text import listed
from shardmill.transforms.inputs.folders import SPLIT_FOLDERS
from shardmill.transforms.inputs.listing import find_names, list_input
from shardmill.transforms.inputs.unused_annotations import ANNOTATIONS, HEAD_BYTES, PROBED
from shardmill.transforms.stores import storage

WRITE = "write the annotations as COCO for --coco, or as a table with a row for each box for --boxes_csv"
BOXES_FLAG = "--boxes_csv"  # reads a table with a row for each box
_NO_OBJECTS = ("captions_", "image_info_", "panoptic_", "stuff_")  # files of MS COCO that have no boxes
_YOLO_LINE = r"\d+(?:[ \t]+-?\d*\.?\d+(?:e-?\d+)?){4,}\s*(?:\n|\Z)"


class Format(NamedTuple):
    """A format of annotations: how its files are known, and the flag that reads them."""

    what: str
    suffixes: str  # alternatives of a regular expression
    head: str = ""  # regular expression that is found in the beginning of each file; `.` is any character
    name: str = ""  # its name for --annotations; "" if it has a flag of its own
    flag: str = "--annotations {name}={folder}"  # {folder} and {file} are those of the files
    path: str = "()"  # regular expression of the files' names, whose group is the folder to give

    def matches(self, root: str, names: Iterable[str], most: int | None = None) -> list[tuple[str, str]]:
        """Return (file, folder to give) of each file of the format; looks at the first `most` with its suffix."""
        pattern = re.compile(rf"(?is)(?={self.path}).*\.(?:{self.suffixes})")
        alike = [(name, match) for name in sorted(names) if (match := pattern.fullmatch(name))]
        return [
            (storage.join(root, name), storage.join(root, match[1].rstrip("/")) if match[1] else root)
            for name, match in alike[:most]
            if not self.head or re.search(self.head, _head(storage.join(root, name)), re.DOTALL)
        ]


COCO = "COCO annotations"
FORMATS = (
    Format("the data.yaml of YOLO", "yaml|yml", r"(?m)\A(?=.*^names\s*:)(?=.*^train\s*:)", flag="--yolo {file}"),
    Format(
        COCO,
        "json",
        r'\A\s*\{(?=.*"images"\s*:\s*\[)(?=.*"(?:annotations|categories|licenses|info)"\s*:)',
        flag="--coco {file}",
    ),
    Format("YOLO as Darknet writes it", "txt", name="yolo", path=r"(|.*/)obj_\w+_data/[^/]+$"),
    Format("classes as Roboflow writes them", "csv", r"\Afilename,", "roboflow_multiclass", path=r"()(?:|.*/)_classes"),
    Format(
        "annotations of Open Images", "csv", name="open_images", path=r"(|.*/)annotations/[^/]*class-descriptions[^/]*$"
    ),
    Format("annotations of the MOT benchmark", "txt", name="mot_seq", path=r"()(?:|.*/)gt/gt\."),
    Format(
        "annotations of LabelMe", "json", r'"imagePath"\s*:|"shapes"\s*:\s*\[\s*\{[^{}]*"(?:label|points)"', "labelme"
    ),
    Format(
        "annotations of the VGG Image Annotator",
        "json|csv",
        r'"_via_|"regions"\s*:\s*[\[{]|"shape_attributes"\s*:|"metadata"\s*:\s*\{.*"xy"\s*:'
        r"|\A[^\n]*\bregion_shape_attributes\b",
        "via",
    ),
    Format(
        "annotations of CreateML",
        "json",
        r'"coordinates"\s*:\s*\{\s*"|\A\s*\[\s*\{\s*"image(?:filename)?"\s*:\s*"[^"]*"\s*,\s*"annotations?"\s*:',
        "createml",
    ),
    Format(
        "annotations of Label Studio",
        "json",
        r'"(?:annotations|completions)"\s*:.*"data"\s*:|"data"\s*:.*"annotations"'
        r'|"(?:brush|ellipse|keypoint|polygon|rectangle)labels"',
        "label_studio",
    ),
    Format(
        "the detections of a model, which have scores and no images",
        "json",
        r'\A\s*\[\s*\{(?=[^}]*"image_id"\s*:)(?=.*"score"\s*:)',
        flag="--coco a file with images, categories and, to convert the detections, this list as annotations",
    ),
    Format("annotations of CVAT", "xml", r"<annotations>\s*<version>1\.1|<annotations>.*<(?:image|track) ", "cvat"),
    Format("annotations of LabelMe", "xml", r"<annotation>.*<object>.*<(?:polygon|segm)>.*<username>", "label_me"),
    Format(
        "annotations of KITTI",
        "txt",
        r"\A[A-Za-z_]+ -?\d(?:\.\d+)? -?\d(?: -?\d+(?:\.\d+)?){12,13}\s*(?:\n|\Z)",
        "kitti_detection",
    ),
    Format("annotations of WIDER FACE", "txt", r"\A\S+\.jpg\s*\n\d+\s*\n(?:\d+ ){4}", "wider_face"),
    Format("annotations of DOTA", "txt", name="dota", path=r"()(?:|.*/)labelTxt/[^/]+$"),
    Format("annotations of DOTA", "txt", r"(?m)^(?:-?[\d.]+ ){8}[A-Za-z]\S*(?: \d)?\s*(?:\n|\Z)", "dota"),
    Format(
        "annotations of boxes in CSV",
        "csv",
        r"(?i)\A[^\n]*\b(?:xmin|x_min|x1|bbox_x|bbox|left\W+top|x\W+y\W+w(?:idth)?)\b"
        r"|\A[^\n,]+\.[a-z]+(?:,[\d.]*){4},[^\n,]*(?:,\d+,\d+)?\r?(?:\n|\Z)",
        "boxes_csv",
        f"{BOXES_FLAG} {{folder}}",
    ),
    Format("annotations of Pascal VOC", "xml", r"<annotation\b", flag="--voc {folder}"),
    Format(
        "boxes as YOLO writes them",
        "txt",
        rf"\A\s*(?:(?:{_YOLO_LINE}){{20}}|(?:{_YOLO_LINE})+\Z)",
        flag="--yolo a data.yaml with names: (the classes, from id 0) and train: (the folder of the images)",
        path=r"()(?!(?:.*/)?classes\.)",
    ),
)
_SPLIT_WORD = re.compile(r"(?<![a-z])(" + "|".join(SPLIT_FOLDERS) + r")(?![a-z])", re.IGNORECASE)


def find_annotations(root: str, exclude: tuple[str, ...] = ()) -> str | None:
    """Return the annotations of a tool below `root`, a folder of images, and the flags that read them; None if none."""
    names = find_names(list_input(root, replace(ANNOTATIONS, exclude=exclude)))
    for each, files, flags in recognise(root, names):
        named = [path.removeprefix(storage.join(root, "")) for path in files]
        return _describe_coco(root, named) if each.what == COCO else _describe(named, each.what, flags)
    return None


def recognise(root: str, names: Sequence[str]) -> Iterator[tuple[Format, list[str], list[str]]]:
    """Yield the formats of the first files of each suffix, with the paths of these files and the flags for them."""
    for each in FORMATS:
        if found := each.matches(root, names, PROBED):
            flags = (each.flag.format(name=each.name, file=file, folder=folder) for file, folder in found)
            yield each, [file for file, _ in found], list(dict.fromkeys(flags))


def _head(path: str) -> str:
    with storage.open_read(path) as file:
        return bytes(file.read(HEAD_BYTES)).decode("utf-8-sig", "replace")


def _subject(names: Sequence[str]) -> str:
    return f"{listed([repr(name) for name in names], 3)} {'is' if len(names) == 1 else 'are'}"


def _describe(names: Sequence[str], what: str, flags: Iterable[str]) -> str:
    return f"{_subject(names)} {what}; give {' or '.join(flags)} in place of --input"


def _describe_coco(root: str, names: Sequence[str]) -> str:
    usable = [name for name in names if not posixpath.basename(name).startswith(_NO_OBJECTS)]
    chosen = [name for name in usable if posixpath.basename(name).startswith("instances")] or usable
    if not chosen:
        return f"{_subject(names)} annotations of COCO without boxes, which shardmill does not read"
    splits = [_split_of(name) for name in chosen]
    flags = [f"--coco {storage.join(root, name)}" for name in chosen]
    if None not in splits and len(set(splits)) == len(splits):
        given = (f"--coco {split}={storage.join(root, name)}" for split, name in zip(splits, chosen, strict=True))
        flags = [" ".join(given)]
    return _describe(chosen, COCO, flags)


def _split_of(name: str) -> str | None:
    found = next(filter(None, map(_SPLIT_WORD.search, reversed(name.split("/")))), None)
    return SPLIT_FOLDERS[found[1].lower()] if found else None

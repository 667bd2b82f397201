"""Options that name annotations of images, and the sources that read these."""

import posixpath
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from shardmill.errors import UserError
from shardmill.flag_values import OptionValueError
from shardmill.pipelines.config.files import AnnotationOptions
from shardmill.transforms.options.declare import check_no_repeats, flag
from shardmill.transforms.options.job_options import named_files, parse_path

if TYPE_CHECKING:
    from shardmill.pipelines.config.images import ImagesConfig
    from shardmill.transforms.inputs.annotations import AnnotationSource

_source_flag = partial(flag, parse=parse_path, affects_output=False, metavar="PATH")


def parse_annotation_files(value: Any) -> tuple[tuple[str, str], ...]:
    """Parse `train=a.json` items, pairs or a mapping into (split, path) pairs; the split may be ""."""
    pairs = [(split, parse_path(path)) for split, path in named_files(value)]
    if len({bool(split) for split, _ in pairs}) > 1:
        raise OptionValueError("some files have a split and others not; give each one, as in train=a.json")
    check_no_repeats([split for split, _ in pairs if split], "the split {} is there twice")
    check_no_repeats([path for _, path in pairs], "the file {} is there twice")
    return tuple(pairs)


def parse_export(value: Any) -> tuple[str, str]:
    """Parse (format, path) from `via=export.json`, a path alone, whose format is "", or a pair."""
    ((name, path),) = named_files([value])
    return name, parse_path(path)


@dataclass(frozen=True, kw_only=True)
class AnnotationFileOptions(AnnotationOptions):
    """Options that name annotations of images; at most one is given."""

    short_help: ClassVar[Mapping[str, tuple[tuple[str, ...], *tuple[str, ...]]]] = {"images": (("manifest", "coco"),)}
    sources: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "coco": ("input", "file_root", "unread_objects"),
        "voc": (),
        "yolo": (),
        "annotations": ("input", "label_column", "unread_objects"),
        "boxes_csv": ("input", "label_column"),
    }
    named_sources: ClassVar[tuple[str, ...]] = ("coco", "voc", "yolo", "annotations")

    coco: tuple[tuple[str, str], ...] = _source_flag(
        (),
        "COCO annotation file, for example instances.json, or one for each split; repeatable",
        parse=parse_annotation_files,
        repeats=True,
        metavar="[SPLIT=]FILE",
    )
    voc: str | None = _source_flag(
        None, "Folder of Pascal VOC annotations: Annotations/, or its parent folder", metavar="DIR"
    )
    yolo: str | None = _source_flag(None, "File data.yaml of a YOLO data set", metavar="FILE")
    annotations: tuple[str, str] | None = _source_flag(
        None,
        "File or folder that a labelling tool exported; FORMAT= names its format if several fit",
        parse=parse_export,
        metavar="[FORMAT=]PATH",
    )
    boxes_csv: str | None = _source_flag(
        None, "CSV file with one row for each box, or a folder of such files; columns are found by their usual names"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(given := [*self._given]) > 1:
            raise UserError(f"--{given[0]} and --{given[1]} both say what is in the images; give one")

    @property
    def _given(self) -> dict[str, str]:
        name, path = self.annotations or ("", "")
        values = {
            "coco": " --coco ".join("=".join(filter(None, pair)) for pair in self.coco),
            "voc": self.voc,
            "yolo": self.yolo,
            "annotations": "=".join(filter(None, (name, path))),
            "boxes_csv": self.boxes_csv,
        }
        if path and values.get(name) == path:  # one request, by two flags
            del values["annotations"]
        return {name: value for name, value in values.items() if value}

    @property
    def flag(self) -> str:
        return next((f"--{name} {value}" for name, value in self._given.items()), "")

    def find_source(self, config: "ImagesConfig") -> "AnnotationSource | None":
        from shardmill.addons.annotations.coco import CocoSource, coco_root
        from shardmill.addons.annotations.exports import ExportSource, export_root
        from shardmill.addons.annotations.voc import VocSource, voc_root
        from shardmill.addons.annotations.yolo import YoloSource

        folder = config.input and (config.input.rstrip("/") or "/")
        if self.coco:
            root = folder or coco_root([path for _, path in self.coco])
            drops_boxless = "drop" in (config.on_bad_box, config.unread_objects)
            return CocoSource(self.coco, root, bool(folder), config.file_root, drops_boxless, config.added.of_objects)
        if self.voc is not None:
            return VocSource(self.voc, voc_root(self.voc), config.splits is None, config.added.folder)
        if self.yolo is not None:
            return YoloSource(self.yolo, posixpath.dirname(self.yolo) or ".", config.added.folder)
        name, path = self.annotations or ("boxes_csv", self.boxes_csv or "")
        attribute = "" if config.label_column == "label" else config.label_column
        drops_boxless = config.unread_objects == "drop"
        return ExportSource(path, name, folder or export_root(path), attribute, config.added.folder, drops_boxless)


OPTIONS = AnnotationFileOptions

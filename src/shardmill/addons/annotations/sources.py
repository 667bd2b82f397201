"""The source of annotations that the options of a job name."""

import posixpath
from typing import TYPE_CHECKING

from shardmill.addons.annotations.coco import CocoSource, coco_root
from shardmill.addons.annotations.exports import ExportSource, export_root
from shardmill.addons.annotations.voc import VocSource, voc_root
from shardmill.addons.annotations.yolo import YoloSource
from shardmill.transforms.inputs.annotations import AnnotationSource

if TYPE_CHECKING:
    from shardmill.pipelines.config.images import ImagesConfig


def find_source(config: "ImagesConfig") -> AnnotationSource | None:
    """Return the source of the images that a configuration names by annotations; None if it names none."""
    if config.coco:
        files = [path for _, path in config.coco]
        root = coco_root(files) if config.input is None else config.input.rstrip("/") or "/"
        drops_boxless = "drop" in (config.on_bad_box, config.unread_objects)
        how = (config.file_root, drops_boxless, config.added.of_objects)
        return CocoSource(config.coco, root, config.input is not None, *how)
    if config.annotations is not None:
        name, path = config.annotations
        root = export_root(path) if config.input is None else config.input.rstrip("/") or "/"
        attribute = "" if config.label_column == "label" else config.label_column
        return ExportSource(path, name, root, attribute, config.added.folder, config.unread_objects == "drop")
    if config.voc is not None:
        return VocSource(config.voc, voc_root(config.voc), config.splits is None, config.added.folder)
    if config.yolo is not None:
        return YoloSource(config.yolo, posixpath.dirname(config.yolo) or ".", config.added.folder)
    return None

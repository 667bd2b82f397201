"""`shardmill images`: image files, a file an example."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from shardmill.pipelines.config.images import ImagesConfig
from shardmill.pipelines.kinds.kind import Kind

if TYPE_CHECKING:
    from shardmill.features.feature import Features
    from shardmill.pipelines.graphs.files import FileRoute
    from shardmill.pipelines.graphs.jobs import Job
    from shardmill.transforms.files.images.object_names import ObjectNames
    from shardmill.transforms.inputs.annotations.objects import Member
    from shardmill.transforms.inputs.companions import Companion
    from shardmill.transforms.inputs.summary import InputSummary
    from shardmill.transforms.layout.file_options import LayoutOptions
    from shardmill.transforms.layout.files import Layout
    from shardmill.transforms.statistics.files import SplitStats


def images_route(config: ImagesConfig) -> "FileRoute":
    """How images are found, read and described."""
    from shardmill.pipelines.graphs.files import FileRoute, find_files
    from shardmill.transforms.files.images import look
    from shardmill.transforms.files.images.companions import CompanionEncoder
    from shardmill.transforms.files.images.encode import ImageEncoder
    from shardmill.transforms.files.images.objects import ObjectEncoder
    from shardmill.transforms.inputs.annotated import ReadAnnotations
    from shardmill.transforms.inputs.manifests.names import RESERVED
    from shardmill.transforms.layout.coordinates import held

    declared, how, names = dict(config.coordinates), config.reencode, config.object_names
    source, objects = config.annotation_source, None
    if (told := source or config.objects_column) is not None:
        objects = ObjectEncoder(told.members, config.on_bad_box, config.boxes_seen, config.renames, names)
    coordinates, near = held(declared), config.near_duplicates
    beside = None
    if config.companions:
        beside = CompanionEncoder(config.companions, config.masks_seen, config.renames, config.mask_dtype)
    encoder = ImageEncoder(
        config.root, config.verify, how, config.max_pixels, coordinates, config.renames, near, objects, beside
    )
    mode = None if how is None else "" if how.size is None else how.mode
    members = told.members if told is not None else ()
    describe = partial(
        _describe,
        measured=encoder.measures,
        for_tfds=config.codec.is_read_by_tfds,
        members=members,
        names=names,
        companions=config.companions,
        mask_dtype=config.mask_dtype,
        reencoded=how is not None,
    )
    # Boxes of annotations are moved with the picture, columns of a manifest are not
    layout = partial(_layout, coordinates=declared, mode=mode if source is None else None, names=names)
    if source is None:
        index = find_files(config, RESERVED)
    else:
        index = partial(
            ReadAnnotations, source, config.allow_outside, config.remembers, names.image_id, config.masks_folder
        )
    of_layout = encoder.of_layout if config.manifest or names.of_api else None
    return FileRoute(index, encoder, describe, layout, of_layout, look.method() if near else "")


def _describe(
    summary: "InputSummary",
    layout: "Layout",
    stats: "Sequence[SplitStats]",
    measured: bool,
    for_tfds: bool,
    members: "Sequence[Member]",
    names: "ObjectNames",
    companions: "Sequence[Companion]",
    mask_dtype: str,
    reencoded: bool,
) -> "tuple[Features, Sequence[str]]":
    from collections import Counter

    from shardmill.transforms.files.images.features import (
        animation_notices,
        box_notices,
        companion_notices,
        deep_notices,
        image_features,
        naming_notices,
        turned_notices,
    )
    from shardmill.transforms.statistics.files import ImageStats

    formats: Counter[str] = sum((images.formats for images in stats if isinstance(images, ImageStats)), Counter())
    boxes: Counter[str] = sum((Counter(images.boxes) for images in stats if isinstance(images, ImageStats)), Counter())
    of_tfds = [*animation_notices(formats), *naming_notices(names)] if for_tfds else []
    written = ImageStats()
    for images in stats:
        if isinstance(images, ImageStats):
            written.merge(images)
    in_order = [item.feature for item in companions if item.feature in written.beside]
    of_companions = companion_notices({name: written.beside[name] for name in in_order}, reencoded)
    of_images = [*turned_notices(written.turned), *deep_notices(written.deep, reencoded)]
    notices = [*of_images, *of_tfds, *box_notices(boxes), *of_companions]
    features = image_features(
        layout, summary.records, measured, formats, members, names, companions, written.beside, mask_dtype
    )
    return features, notices


def _layout(
    summary: "InputSummary",
    options: "LayoutOptions",
    coordinates: Mapping[str, str],
    mode: str | None,
    names: "ObjectNames",
) -> "Layout":
    from shardmill.transforms.layout.coordinates import check_coordinates
    from shardmill.transforms.layout.files import make_layout

    layout = make_layout(summary, options)
    if mode is not None:
        check_coordinates(layout.columns, coordinates, mode)
    if layout.object_classes is not None:
        names.check(summary.objects, layout.object_classes.names)
    return layout


def _job(config: ImagesConfig) -> "Job":
    from shardmill.pipelines.graphs.jobs import file_job

    return file_job(config, images_route(config))


KINDS = (
    Kind(
        "images",
        "turn a tree of images, or a manifest that lists them, into TFRecord shards",
        "Turn a tree of images, or a manifest that lists them, into balanced, shuffled TFRecord shards.",
        ImagesConfig,
        _job,
    ),
)

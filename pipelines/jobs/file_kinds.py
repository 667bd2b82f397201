"""The commands that make one example per file: images, audio and arrays."""

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from shardmill.pipelines.config.files import AUDIO_RESERVED, ArraysConfig, AudioConfig
from shardmill.pipelines.config.images import ImagesConfig
from shardmill.pipelines.jobs.kind import Kind
from shardmill.transforms.features.options import load

if TYPE_CHECKING:
    from shardmill.pipelines.jobs.file_graphs import Files
    from shardmill.transforms.inputs.annotations import AnnotationSource
    from shardmill.transforms.inputs.summary import InputSummary
    from shardmill.transforms.layout.files import Layout
    from shardmill.transforms.layout.options import FileLayoutOptions


def images_route(config: ImagesConfig) -> "Files":
    """Return how images are found and read."""
    from shardmill.pipelines.jobs.file_graphs import Files, find_files
    from shardmill.transforms.files.image_encoder import ImageEncoder
    from shardmill.transforms.files.image_objects import ObjectEncoder
    from shardmill.transforms.inputs.manifest_table import RESERVED
    from shardmill.transforms.inputs.sources import ReadAnnotations

    names, renames, source = config.object_names, config.renames, config.annotating.find_source(config)
    objects = None
    if (annotated := source or config.objects_column) is not None:
        objects = ObjectEncoder(annotated.members, config.on_bad_box, config.boxes_seen, renames, names)
    observer = next((load(options.observer) for options in config.add_ons if options.observer), None)
    columns = tuple(name for name, kind in config.coordinates if kind != "none")
    checked = (config.root, config.verify, config.reencode, config.max_pixels, columns)
    encoder = ImageEncoder(*checked, renames, observer, objects, config.companions)
    if source is None:
        index = find_files(config, RESERVED)
    else:
        read = partial(ReadAnnotations, source, config.allow_outside, config.has_file_identities)
        index = partial(read, names.image_id, config.added)
    has_layout = config.manifest or names.is_detection_api or (source is not None and source.has_labels)
    of_layout = encoder.of_layout if has_layout else None
    return Files(config, index, encoder, partial(_make_image_layout, config, source), of_layout, observer)


def _make_image_layout(
    config: ImagesConfig, source: "AnnotationSource | None", summary: "InputSummary", options: "FileLayoutOptions"
) -> "Layout":
    from shardmill.transforms.layout.files import make_layout
    from shardmill.transforms.layout.objects import check_boxes, check_coordinates

    if source is not None:
        summary = replace(summary, notices=summary.notices.union(source.check_summary(summary)))
    check_boxes(summary, options.source, config.on_bad_box)
    layout, reencoding = make_layout(summary, options), config.reencode
    # Boxes of annotations are moved with the picture, columns of a manifest are not
    if source is None and reencoding is not None:
        mode = "" if reencoding.size is None else reencoding.mode
        check_coordinates(layout.columns, dict(config.coordinates), mode)
    if layout.object_classes is not None:
        config.object_names.check(summary.objects, layout.object_classes.names)
    return layout


def audio_route(config: AudioConfig) -> "Files":
    """Return how WAV files are found and read."""
    from shardmill.pipelines.jobs.file_graphs import Files, find_files
    from shardmill.transforms.files.audio import AudioEncoder

    encoder = AudioEncoder(config.root, config.decode_audio, config.renames)
    of_layout = encoder.of_layout if config.manifest else None
    return Files(config, find_files(config, AUDIO_RESERVED), encoder, make_encoder=of_layout)


def arrays_route(config: ArraysConfig) -> "Files":
    """Return how arrays are found and read."""
    from shardmill.pipelines.jobs.file_graphs import Files, find_files
    from shardmill.transforms.files.arrays import ArrayEncoder, ArrayOptions, ArrayType, make_array_layout
    from shardmill.transforms.files.stacked import (
        IndexStacked,
        StackedEncoder,
        make_stacked_layout,
        make_unstacked_layout,
    )

    if config.stacked:
        names = config.classes.class_names() or ()
        rows = StackedEncoder(config.root, config.feature, renames=config.renames)
        return Files(
            config,
            partial(IndexStacked, config.input, config.kind, names),
            rows,
            layout=partial(make_stacked_layout, arrays=ArrayOptions(config.root, config.feature)),
            make_encoder=rows.of_layout,
        )
    given = None if config.shape is None or config.dtype is None else ArrayType(config.dtype, config.shape)
    options = ArrayOptions(config.root, config.feature, given, config.input or "")
    encoder = ArrayEncoder(config.root, config.feature, renames=config.renames)
    return Files(
        config,
        find_files(config, (config.feature, "filename")),
        encoder,
        layout=partial(make_unstacked_layout if config.input else make_array_layout, arrays=options),
        make_encoder=encoder.of_layout,
    )


COMMANDS = (
    Kind(
        "images",
        "Turn a tree of images, or a manifest that lists them, into balanced, shuffled TFRecord shards.",
        ImagesConfig,
        images_route,
        short_help=("manifest", "resize", "stratify_by"),
        examples=(
            "--input photos --output datasets --name flowers --splits train=0.8,test=0.2 --stratify_by label",
            "--manifest train.csv --output datasets --name dogs --file_column id --label_column breed"
            " --file_suffix .jpg",
        ),
    ),
    Kind(
        "arrays",
        "Turn a tree of .npy arrays or TIFFs, or a manifest that lists them, into balanced, shuffled TFRecord shards. "
        "All arrays are of one shape and type; those of another are rejected.",
        ArraysConfig,
        arrays_route,
        short_help=("manifest", "shape", "dtype", "stacked"),
        examples=(
            "--input scans --output datasets --name scans --splits train=0.9,test=0.1",
            "--input mnist --stacked --output datasets --name mnist",
        ),
    ),
    Kind(
        "audio",
        "Turn a tree of WAV files, or a manifest that lists them, into balanced, shuffled TFRecord shards.",
        AudioConfig,
        audio_route,
        short_help=("manifest", "decode_audio", "label_pattern", "stratify_by"),
        examples=(
            "--input recordings --output datasets --name words --decode_audio",
            r"--input recordings --output datasets --name digits --label_pattern '(?P<label>\d)_.*'",
        ),
    ),
)

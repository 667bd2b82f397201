"""`shardmill images` as a route of pipelines.graphs.files."""

import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial

from pipelines.graphs.files import FileRoute, find_files
from pipelines.kinds.images_config import ImagesConfig
from shardmill.features import Features
from transforms.files.images.encode import ImageEncoder
from transforms.files.images.features import film_notices, image_features, turned_notices
from transforms.inputs.file_list import RESERVED
from transforms.inputs.summary import InputSummary
from transforms.layout.coordinates import check_coordinates, held
from transforms.layout.files import Layout, LayoutOptions, make_layout
from transforms.statistics.files import ImageStats, SplitStats


def images_route(config: ImagesConfig) -> FileRoute:
    """How images are found, read and described."""
    declared, how = dict(config.coordinates), config.reencode
    encoder = ImageEncoder(config.root, config.verify, how, config.max_pixels, held(declared), config.renames)
    mode = None if how is None else "" if how.size is None else how.mode
    libraries = ["xxhash", *(["pillow"] if config.reencode is not None else [])]
    describe = partial(_describe, measured=encoder.measures, gzip=config.compression == "gzip")
    layout = partial(_layout, coordinates=declared, mode=mode)
    return FileRoute(find_files(config, RESERVED), encoder, describe, libraries, layout)


def _describe(
    summary: InputSummary, layout: Layout, stats: Sequence[SplitStats], measured: bool, gzip: bool
) -> tuple[Features, Sequence[str]]:
    formats: Counter[str] = sum((images.formats for images in stats if isinstance(images, ImageStats)), Counter())
    turned = sum(images.turned for images in stats if isinstance(images, ImageStats))
    notices = [*turned_notices(turned), *(film_notices(formats) if not gzip else ())]
    return image_features(layout, summary.records, measured, formats), notices


def _layout(summary: InputSummary, options: LayoutOptions, coordinates: Mapping[str, str], mode: str | None) -> Layout:
    layout = make_layout(summary, options)
    if mode is not None:
        check_coordinates(layout.columns, coordinates, mode)
    return layout


if __name__ == "__main__":
    from pipelines.cli import main

    sys.exit(main(["images", *sys.argv[1:]]))

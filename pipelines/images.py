"""`shardmill images` as a route of pipelines.files."""

import sys
from collections import Counter
from collections.abc import Sequence
from functools import partial

from pipelines.files import FileRoute, find_files
from pipelines.images_config import ImagesConfig
from shardmill.features import Features
from transforms.encode_images import ImageEncoder
from transforms.image_features import film_notices, image_features
from transforms.image_manifest import RESERVED
from transforms.input_summary import InputSummary
from transforms.layout import Layout
from transforms.stats import ImageStats, SplitStats


def images_route(config: ImagesConfig) -> FileRoute:
    """How images are found, read and described."""
    encoder = ImageEncoder(config.root, config.verify, config.reencode, config.max_pixels)
    libraries = ["xxhash", *(["pillow"] if config.reencode is not None else [])]
    describe = partial(_describe, measured=encoder.measures, gzip=config.compression == "gzip")
    return FileRoute(find_files(config, RESERVED), encoder, describe, libraries)


def _describe(
    summary: InputSummary, layout: Layout, stats: Sequence[SplitStats], measured: bool, gzip: bool
) -> tuple[Features, Sequence[str]]:
    formats: Counter[str] = sum((images.formats for images in stats if isinstance(images, ImageStats)), Counter())
    notices = film_notices(formats) if not gzip else ()
    return image_features(layout, summary.records, measured, formats), notices


if __name__ == "__main__":
    from pipelines.cli import main

    sys.exit(main(["images", *sys.argv[1:]]))

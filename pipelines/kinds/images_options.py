"""The flags of `shardmill images`."""

import argparse
import re

from pipelines.flags.options import (
    EPILOG,
    Parser,
    add_folder_option,
    add_label_options,
    add_manifest_options,
    add_output_options,
    add_run_options,
    add_shard_options,
    add_split_options,
    common_values,
)
from pipelines.kinds.images_config import DEFAULT_QUALITY, ImagesConfig
from transforms.files.images.limits import FORMATS, MAX_PIXELS, RESIZE_MODES, VERIFY
from transforms.layout.coordinates import KINDS


def parse_resolution(text: str) -> tuple[int, int]:
    """(width, height) from `224x224`."""
    match = re.fullmatch(r"(\d+)x(\d+)", text.lower())
    if match is None or not 0 < int(match[1]) <= 65_500 or not 0 < int(match[2]) <= 65_500:  # the limit of JPEG encoders
        raise argparse.ArgumentTypeError(f"{text!r} is not WIDTHxHEIGHT in pixels, such as 224x224")
    return int(match[1]), int(match[2])


def parse_coordinates(text: str) -> tuple[tuple[str, str], ...]:
    """((column, kind), …) from `boxes=relative,vector=none`."""
    pairs = [item.strip().rpartition("=") for item in text.split(",")]
    for name, _, kind in pairs:
        if not name or kind not in KINDS:
            raise argparse.ArgumentTypeError(f"{text!r} is not column=kind,… with each kind one of {', '.join(KINDS)}")
    names = [name for name, _, _ in pairs]
    for name in names:
        if names.count(name) > 1:
            raise argparse.ArgumentTypeError(f"{text!r} names the column {name!r} twice")
    return tuple((name, kind) for name, _, kind in pairs)


def images_parser() -> Parser:
    """The parser of `shardmill images`."""
    parser = Parser(
        prog="shardmill images",
        description="Turn a tree of images, or a manifest that lists them, into balanced, shuffled TFRecord shards.",
        epilog=EPILOG,
    )
    source = parser.add_argument_group("input")
    source.add_argument("--input", help="a folder (<label>/*.jpg, <split>/<label>/*.jpg, or flat) or a glob; local, gs://, s3://")
    source.add_argument("--manifest", help="a .csv or .jsonl with file_name or image_uri, and label, split and further columns")
    source.add_argument(
        "--allow_outside", action="store_true", help="images of a manifest may lie outside its folder, by their names or by links"
    )
    add_manifest_options(source)
    add_folder_option(source)
    add_label_options(source)
    add_output_options(parser)
    add_split_options(parser, "paths, or of a manifest's lines")
    add_shard_options(parser)
    image = parser.add_argument_group("images")
    image.add_argument("--verify", choices=VERIFY, default="header", help="how far each image is checked (default: %(default)s)")
    image.add_argument("--image_format", choices=FORMATS, default="", help="re-encode every image (default: bytes untouched)")
    image.add_argument("--resize", type=parse_resolution, help="WIDTHxHEIGHT: decode, turn upright, make RGB, resize, re-encode")
    image.add_argument(
        "--resize_mode", choices=RESIZE_MODES, default="exact", help="stretch, crop to fill, or pad to fit (default: %(default)s)"
    )
    image.add_argument(
        "--coordinates",
        type=parse_coordinates,
        default=(),
        help="column=relative|pixels|none,…: what columns like boxes hold, where images are resized or turned upright",
    )
    image.add_argument("--jpeg_quality", type=int, default=DEFAULT_QUALITY, help="of re-encoded images (default: %(default)s)")
    image.add_argument("--max_pixels", type=int, default=MAX_PIXELS, help="more make an image a reject (default: %(default)s)")
    add_run_options(parser)
    return parser


def to_config(args: argparse.Namespace) -> ImagesConfig:
    """The configuration that parsed flags describe; reads --labels_file.

    Raises:
      UserError: a mistake, named.
    """
    return ImagesConfig(**common_values(args))

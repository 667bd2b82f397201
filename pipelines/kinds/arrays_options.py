"""The flags of `shardmill arrays`."""

import argparse

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
from pipelines.kinds.arrays_config import ArraysConfig


def parse_shape(text: str) -> tuple[int, ...]:
    """Sizes from `64,64`; no size, `''`, is a single value."""
    sizes = text.split(",") if text.strip() else []
    if not all(size.strip().isdecimal() and int(size) > 0 for size in sizes):
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of sizes from 1, such as 64,64")
    return tuple(map(int, sizes))


def arrays_parser() -> Parser:
    """The parser of `shardmill arrays`."""
    parser = Parser(
        prog="shardmill arrays",
        description="Turn a tree of .npy arrays, or a manifest that lists them, into balanced, shuffled TFRecord shards. "
        "All arrays are of one shape and type; those of another are rejected.",
        epilog=EPILOG,
    )
    source = parser.add_argument_group("input")
    source.add_argument("--input", help="a folder (<label>/*.npy, <split>/<label>/*.npy, or flat) or a glob; local, gs://, s3://")
    source.add_argument("--manifest", help="a .csv or .jsonl with file_name or image_uri, and label, split and further columns")
    source.add_argument(
        "--allow_outside", action="store_true", help="arrays of a manifest may lie outside its folder, by their names or by links"
    )
    add_manifest_options(source)
    add_folder_option(source)
    add_label_options(source)
    arrays = parser.add_argument_group("arrays")
    arrays.add_argument("--feature", default="image", help="the name of the array's feature (default: %(default)s)")
    arrays.add_argument("--shape", type=parse_shape, help="of every array, such as 64,64 (default: that of the first file by name)")
    arrays.add_argument("--dtype", help="of every array, such as float32 (default: that of the first file by name)")
    add_output_options(parser)
    add_split_options(parser, "paths, or of a manifest's lines")
    add_shard_options(parser)
    add_run_options(parser)
    return parser


def to_config(args: argparse.Namespace) -> ArraysConfig:
    """The configuration that parsed flags describe; reads --labels_file.

    Raises:
      UserError: a mistake, named.
    """
    return ArraysConfig(**common_values(args))

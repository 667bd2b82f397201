"""Options that benchmarks have in common."""

import argparse
from pathlib import Path


def add_rounds(parser: argparse.ArgumentParser, default: int = 3) -> None:
    """How often each command is measured."""
    parser.add_argument("--rounds", type=int, default=default, help="of which the median counts (default: %(default)s)")


def add_folder(parser: argparse.ArgumentParser) -> None:
    """Where inputs are made and kept, and outputs are written."""
    parser.add_argument(
        "--folder", type=Path, default=Path("bench-data"), help="for inputs and outputs (default: %(default)s)"
    )


def add_images(parser: argparse.ArgumentParser, default: int = 100_000) -> None:
    """How many images there are, and how large they are."""
    parser.add_argument("--images", type=int, default=default, help="(default: %(default)s)")
    parser.add_argument("--kilobytes", type=float, default=25, help="the mean size of one (default: %(default)s)")


def add_write(parser: argparse.ArgumentParser) -> None:
    """Add the flag --write."""
    parser.add_argument("--write", action="store_true", help="write the results into docs/benchmarks.md and README.md")

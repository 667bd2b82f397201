"""What the tests of bad images and of bad manifests share."""

from collections.abc import Iterable
from pathlib import Path

from tests.support.command import image_tree, write_files

GOOD = image_tree(("ant", "bee"), 6)
SHARDS = ("--splits", "train=0.7,test=0.3", "--num_shards", "2")


def write_manifest(
    folder: Path, rows: Iterable[str], name: str = "meta.csv", header: str = "file_name,label,age"
) -> Path:
    """A manifest beside the good files."""
    write_files(folder, GOOD)
    (folder / name).write_text("".join(f"{row}\n" for row in (header, *rows) if row))
    return folder / name

"""The pictures of pages in docs/: the digits and the wines of `make demo`, and a night in which a class is gone.

python -m tests.support.screenshots demo docs
"""

import io
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from PIL import Image

from shardmill.pipelines.cli import main
from tests.support.many_pages import open_pages

_RECIPE = """\
name: digits
output: sets
images: {input: digits, splits: {train: 0.8, validation: 0.1, test: 0.1}, stratify_by: label}
"""
_COLOURS = 64  # of a picture, which is small then


def build(demo: Path) -> None:
    """Make three pages in this folder."""
    digits = demo / "digits"
    flags = (
        "--output sets --name wine --splits train=0.8,validation=0.1,test=0.1 --stratify_by cultivar --label cultivar"
    )
    assert main(["csv", "--input", str(demo / "tables" / "wine.csv"), *flags.split()]) == 0
    Path("digits").mkdir()
    for folder in digits.iterdir():
        Path("digits", folder.name).symlink_to(folder)
    Path("digits.yaml").write_text(_RECIPE)
    assert main(["rebuild", "digits.yaml"]) == 0
    Path("digits/7").unlink()
    assert main(["rebuild", "digits.yaml"]) == 3


def shrink(path: Path) -> None:
    """Write a picture with few colours."""
    out = io.BytesIO()
    with Image.open(path) as picture:
        picture.convert("RGB").quantize(_COLOURS, Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE).save(
            out, "PNG", optimize=True
        )
    path.write_bytes(out.getvalue())


def write(demo: Path, docs: Path) -> None:
    """Write the pictures."""
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        build(demo)
        pages: list[dict[str, Any]] = [
            {"file": "sets/digits/builds/1.0.1.html", "screenshot": "page-bad-night.png", "height": 860},
            {"file": "sets/wine/builds/1.0.0.html", "screenshot": "page-table.png", "at": "Features", "height": 760},
            {"file": "sets/digits/builds/1.0.0.html", "screenshot": "page-images.png", "at": "Images", "height": 620},
        ]
        for page in pages:
            page |= {name: os.path.abspath(page[name]) for name in ("file", "screenshot")}
        open_pages([{"axe": False, "width": 1100, **page} for page in pages])
        for page in pages:
            shrink(Path(page["screenshot"]))
            (docs / Path(page["screenshot"]).name).write_bytes(Path(page["screenshot"]).read_bytes())


if __name__ == "__main__":
    write(*(Path(path).absolute() for path in sys.argv[1:3]))

"""Write scikit-learn's 1,797 handwritten digits as a tree of PNG files: FOLDER/<digit>/<number>.png."""

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from PIL import Image
from sklearn.datasets import load_digits


def write_digits(folder: Path, size: int = 64) -> int:
    """Write every digit as a grey PNG of `size` x `size` pixels; returns how many there are."""
    digits = load_digits()
    for index, (pixels, digit) in enumerate(zip(digits.images, digits.target, strict=True)):
        target = folder / str(digit)
        target.mkdir(parents=True, exist_ok=True)
        image = Image.fromarray((pixels * 255 / 16).astype(np.uint8))
        image.resize((size, size), Image.Resampling.BICUBIC).save(target / f"{index:04d}.png")
    return len(digits.images)


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the digits below the folder that `arguments` name."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    print(f"wrote {write_digits(parser.parse_args(arguments).folder):,} images")


if __name__ == "__main__":
    main()

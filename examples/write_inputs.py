"""Write the data that models of the other examples train on: `write_inputs.py KIND FOLDER`.

`shardmill sample` writes the small inputs of the documentation. These are larger, so that a model learns from them.

photos     320 JPEG files of 40 x 40 pixels, cut from scikit-learn's two photographs: FOLDER/<photograph>/<number>.jpg
sentences  sentences about Python, NumPy and scikit-learn, from their documentation: FOLDER/<subject>/sentences.txt
wines      a table of 178 wines with integers, floats and strings, of which some are missing: FOLDER/wines.csv
walks      2,000 sequences of integers, 5 to 40 long, that walk up or down a circle: FOLDER/walks.jsonl
moments    1,797 handwritten digits as PNG files, and five numbers about each: FOLDER/manifest.jsonl
arrays     1,797 handwritten digits as float32 arrays of 64 x 64: FOLDER/<digit>/<number>.npy
tags       1,200 pictures of one to three discs, squares and triangles, and which are in each: FOLDER/tags.csv
masks      300 JPEG files of discs and squares, and masks of them: FOLDER/images/<number>.jpg, FOLDER/masks/<number>.png
"""

import argparse
import inspect
import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from pydoc_data import topics
from types import ModuleType
from typing import Any

import numpy as np
import sklearn.cluster
import sklearn.ensemble
import sklearn.linear_model
import sklearn.metrics
from PIL import Image, ImageDraw
from sklearn.datasets import load_digits, load_sample_images, load_wine

_PATCH = 40  # pixels; patches do not overlap, so no pixel is in two splits


def write_photos(folder: Path) -> int:
    """Cut the photographs into JPEG files; returns how many."""
    photographs = load_sample_images()
    written = 0
    for path, pixels in zip(photographs.filenames, photographs.images, strict=True):
        target = folder / Path(path).stem
        target.mkdir(parents=True, exist_ok=True)
        corners = [
            (y, x)
            for y in range(0, len(pixels) - _PATCH + 1, _PATCH)
            for x in range(0, pixels.shape[1] - _PATCH + 1, _PATCH)
        ]
        for number, (y, x) in enumerate(corners):
            Image.fromarray(pixels[y : y + _PATCH, x : x + _PATCH]).save(target / f"{number:03d}.jpg", quality=95)
        written += len(corners)
    return written


def write_sentences(folder: Path) -> int:
    """Write a file of sentences for each subject, one a line; returns how many. A sentence in two subjects is in
    neither."""
    learning = (sklearn.cluster, sklearn.ensemble, sklearn.linear_model, sklearn.metrics)
    subjects = {
        "numpy": set(_sentences(_docstrings(np, np.linalg, np.random))),
        "python": set(_sentences(topics.topics.values())),
        "sklearn": set(_sentences(_docstrings(*learning))),
    }
    written = 0
    for subject, sentences in subjects.items():
        own = sorted(sentences.difference(*(other for name, other in subjects.items() if name != subject)))
        (folder / subject).mkdir(parents=True, exist_ok=True)
        (folder / subject / "sentences.txt").write_text("".join(f"{sentence}\n" for sentence in own), encoding="utf-8")
        written += len(own)
    return written


def _docstrings(*modules: ModuleType) -> Iterator[str]:
    for module in modules:
        for name in getattr(module, "__all__", dir(module)):
            yield inspect.getdoc(getattr(module, name)) or ""


def _sentences(texts: Iterable[str]) -> Iterator[str]:
    """What begins with a capital letter and ends with a full stop, of 5 to 60 words."""
    for text in texts:
        for paragraph in re.split(r"\n\s*\n", text):
            for found in re.findall(r"(?:^|(?<=[.] ))[A-Z][^.>|]+[.](?= |$)", " ".join(paragraph.split())):
                if 5 <= len(found.split()) <= 60:
                    yield found


def write_wines(folder: Path) -> int:
    """Write the table, one cell in ten of three columns empty; returns how many rows.

    `magnesium` and `proline` are integers. `colour` is a word for what scikit-learn has as `color_intensity`: pale
    below 3.5, medium below 5.5, deep from there on.
    """
    wine = load_wine(as_frame=True)
    table = wine.frame.assign(cultivar=wine.target_names[wine.target]).drop(columns=["target", "color_intensity"])
    intensity = wine.frame["color_intensity"].to_numpy()
    table["colour"] = np.array(["pale", "medium", "deep"])[np.searchsorted([3.5, 5.5], intensity, side="right")]
    for name in ("magnesium", "proline"):
        table[name] = table[name].astype("Int64")
    for first, name in enumerate(("alcohol", "magnesium", "colour")):
        table.loc[first::10, name] = None
    folder.mkdir(parents=True, exist_ok=True)
    table.to_csv(folder / "wines.csv", index=False)
    return len(table)


def write_walks(folder: Path, seed: int = 0) -> int:
    """Write sequences over 1 to 8; returns how many. How often each number comes says nothing, only the order does."""
    generator = np.random.default_rng(seed)
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "walks.jsonl").open("w") as file:
        for number in range(2000):
            step = 1 if number % 2 else -1
            length = generator.integers(5, 41)
            # Two steps in three go the walk's way, the others anywhere.
            steps = np.where(generator.random(length) < 2 / 3, step, generator.integers(0, 8, length))
            places = (generator.integers(0, 8) + np.cumsum(steps)) % 8 + 1
            file.write(json.dumps({"places": places.tolist(), "direction": "up" if step == 1 else "down"}) + "\n")
    return 2000


def write_moments(folder: Path) -> int:
    """Write PNG files and the manifest; returns how many.

    `metadata` is how much ink there is, where its centre is, down and across, and how far it spreads from there, all in
    [0, 1].
    """
    digits = load_digits()
    folder.mkdir(parents=True, exist_ok=True)
    ramp = np.linspace(0, 1, 8)
    with (folder / "manifest.jsonl").open("w") as file:
        for number, (pixels, digit) in enumerate(zip(digits.images, digits.target, strict=True)):
            name = f"{number:04d}.png"
            Image.fromarray(np.rint(pixels * 255 / 16).astype(np.uint8)).resize((32, 32)).save(folder / name)
            weights = [pixels.sum(axis) / pixels.sum() for axis in (1, 0)]
            centres = [weight @ ramp for weight in weights]
            spreads = [np.sqrt(weight @ (ramp - centre) ** 2) for weight, centre in zip(weights, centres, strict=True)]
            metadata = [round(float(value), 6) for value in (pixels.mean() / 16, *centres, *spreads)]
            file.write(json.dumps({"file_name": name, "label": str(digit), "metadata": metadata}) + "\n")
    return len(digits.images)


def write_arrays(folder: Path) -> int:
    """Write .npy files of values in [0, 1], each pixel of scikit-learn's as a square of 8 x 8; returns how many."""
    digits = load_digits()
    for number, (pixels, digit) in enumerate(zip(digits.images, digits.target, strict=True)):
        target = folder / str(digit)
        target.mkdir(parents=True, exist_ok=True)
        np.save(target / f"{number:04d}.npy", np.kron(pixels / 16, np.ones((8, 8))).astype(np.float32))
    return len(digits.images)


def write_shapes(folder: Path, number: int = 500, seed: int = 0) -> int:
    """Write pictures of one to three discs, squares and triangles, and COCO's annotations of them; returns how many
    pictures."""
    random = np.random.default_rng(seed)
    folder.mkdir(parents=True, exist_ok=True)
    names = ("disc", "square", "triangle")
    images: list[dict[str, Any]] = []
    annotations: list[dict[str, Any]] = []
    for index in range(1, number + 1):
        picture = Image.fromarray(random.integers(0, 90, (64, 64, 3), dtype=np.uint8))
        draw = ImageDraw.Draw(picture)
        for quarter in random.permutation(4)[: random.integers(1, 4)]:  # so that no two touch
            kind, side = int(random.integers(3)), int(random.integers(14, 26))
            x, y = (int(32 * corner + random.integers(1, 31 - side)) for corner in divmod(int(quarter), 2))
            box, colour = (x, y, x + side - 1, y + side - 1), tuple(random.integers(120, 256, 3).tolist())
            if kind == 0:
                draw.ellipse(box, colour)
            elif kind == 1:
                draw.rectangle(box, colour)
            else:
                draw.polygon([(x + side / 2, y), (x, y + side - 1), (x + side - 1, y + side - 1)], colour)
            annotation = {"id": len(annotations) + 1, "image_id": index, "category_id": kind + 1}
            annotations.append(annotation | {"bbox": [x, y, side, side], "area": side * side, "iscrowd": 0})
        picture.save(folder / f"{index:04d}.png")
        images.append({"id": index, "file_name": f"{index:04d}.png", "width": 64, "height": 64})
    categories = [{"id": index, "name": name} for index, name in enumerate(names, 1)]
    content = {"images": images, "annotations": annotations, "categories": categories}
    (folder / "instances.json").write_text(json.dumps(content))
    return number


def write_tags(folder: Path) -> int:
    """Write the pictures of `shapes`, and a table of what is in each, as `disc;square`; returns how many pictures."""
    number = write_shapes(folder, 1200)
    path = folder / "instances.json"
    shapes = json.loads(path.read_text())
    path.unlink()
    names = {category["id"]: category["name"] for category in shapes["categories"]}
    tags: dict[int, set[str]] = {image["id"]: set() for image in shapes["images"]}
    for annotation in shapes["annotations"]:
        tags[annotation["image_id"]].add(names[annotation["category_id"]])
    rows = [f"{image['file_name']},{';'.join(sorted(tags[image['id']]))}" for image in shapes["images"]]
    (folder / "tags.csv").write_text("\n".join(["file_name,label", *rows, ""]))
    return number


def write_masks(folder: Path, number: int = 300, seed: int = 0) -> int:
    """Write pictures of a disc and a square, and masks that say where they are: 1 on the disc, 2 on the square; returns
    how many pictures."""
    random = np.random.default_rng(seed)
    for name in ("images", "masks"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    for index in range(number):
        picture = Image.fromarray(random.integers(0, 90, (48, 48, 3), dtype=np.uint8))
        mask = Image.new("L", picture.size)
        for value in random.permutation((1, 2)).tolist():
            side = int(random.integers(12, 24))
            x, y = random.integers(0, 48 - side, 2).tolist()
            box, colour = (x, y, x + side - 1, y + side - 1), tuple(random.integers(120, 256, 3).tolist())
            for image, ink in ((picture, colour), (mask, value)):
                draw = ImageDraw.Draw(image)
                (draw.ellipse if value == 1 else draw.rectangle)(box, ink)
        picture.save(folder / "images" / f"{index:04d}.jpg", quality=90)
        mask.save(folder / "masks" / f"{index:04d}.png")
    return number


WRITERS: dict[str, Callable[[Path], int]] = {
    "photos": write_photos,
    "sentences": write_sentences,
    "wines": write_wines,
    "walks": write_walks,
    "moments": write_moments,
    "arrays": write_arrays,
    "shapes": write_shapes,
    "tags": write_tags,
    "masks": write_masks,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Write one kind of input; returns how many examples."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=WRITERS)
    parser.add_argument("folder", type=Path)
    options = parser.parse_args(arguments)
    written = WRITERS[options.kind](options.folder)
    print(f"wrote {written:,} {options.kind}")
    return written


if __name__ == "__main__":
    main()
